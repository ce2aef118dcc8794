"""`orderly topic`: what is asked for and what is shown."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import ConfigError
from orderly.model import BrokerData, Permission, QueueData, TopicRoute
from orderly.protocol.message_types import MessageType
from orderly.protocol.topic_config import TopicConfig

BOTH = Permission.READ | Permission.WRITE
ROUTE = TopicRoute(
    "orders",
    (QueueData("b", 4, 0, Permission.READ), QueueData("a", 8, 8, BOTH)),
    (BrokerData("a", "c1", {0: "10.0.0.1:10911"}), BrokerData("b", "c1", {1: "10.0.0.2:10911"})),
)


@pytest.fixture
def names():
    """The topics the name server knows."""
    return ["b", "%RETRY%g", "%DLQ%g", "TBW102", "broker-a", "C", "a", "rmq_sys_x"]


@pytest.fixture
def created(monkeypatch, names):
    calls = []

    def create(name, queues, *, order, message_type):
        calls.append((name, queues, order, message_type))
        if queues == 5:
            raise ConfigError("orders exists already, with queues a: 8; wanted: a: 5")
        return queues != 8

    admin = SimpleNamespace(
        create_topic=create,
        topic_config=lambda _, broker: CONFIGS[broker.broker_name],
        topics=lambda: names,
        cluster=lambda: SimpleNamespace(brokers={"broker-a": None}, clusters={"C": None}),
    )

    @contextmanager
    def client(_):
        yield SimpleNamespace(admin=admin, routes=SimpleNamespace(get=lambda _: ROUTE))

    monkeypatch.setattr(Settings, "client", client)
    return calls


def test_create(created, capsys):
    assert run(["topic", "create", "orders", "--queues", "4"]) == 0
    assert created == [("orders", 4, True, None)]
    assert "orders" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "order"), [("fifo", True), ("mixed", True), ("delay", False), ("lite", False)]
)
def test_create_with_a_type(created, kind, order):
    assert run(["topic", "create", "orders", "--queues", "4", "--type", kind]) == 0
    assert created == [("orders", 4, order, MessageType(kind.upper()))]
    assert run(["topic", "create", "orders", "--type", "unspecified"]) == 3


CONFIGS = {
    "a": TopicConfig(
        name="orders", read_queues=8, write_queues=8, attributes={"message.type": "FIFO"}
    ),
    "b": None,
}


def test_show(created, capsys):
    assert run(["topic", "show", "orders"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "BROKER  TYPE  READ QUEUES  WRITE QUEUES  PERMISSION  ORDER",
        "a       FIFO            8             8  RW          no",
        "b       -               -             -  -           -",
    ]
    assert err == "layout: a:8\n"


def test_show_in_json(created, capsys):
    assert run(["topic", "show", "orders", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["topic"], found["layout"]) == ("orders", "a:8")
    assert found["brokers"][0] == {
        "broker": "a",
        "type": "FIFO",
        "read_queues": 8,
        "write_queues": 8,
        "permission": "RW",
        "order": "no",
        "attributes": {"message.type": "FIFO"},
    }


def test_create_again_changes_nothing(created, capsys):
    assert run(["topic", "create", "orders", "--queues", "8"]) == 0
    assert capsys.readouterr().out == "orders exists already with 8 queues\n"


def test_create_with_another_number_is_an_error(created, capsys):
    assert run(["topic", "create", "orders", "--queues", "5"]) == 3
    assert "exists already" in capsys.readouterr().err


def test_all_shows_what_rocketmq_made_too(created, capsys):
    assert run(["topic", "list", "--all", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == sorted(found)
    assert {"%RETRY%g", "%DLQ%g", "TBW102", "broker-a", "C", "a", "b", "rmq_sys_x"} == set(found)


def test_list(created, capsys):
    assert run(["topic", "list"]) == 0
    assert capsys.readouterr().out == "TOPIC\na\nb\n"
    assert run(["topic", "list", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["a", "b"]


def test_of_a_namespace_only_its_own_are_listed_under_their_full_names(created, names, capsys):
    names += ["shop%orders", "bank%orders", "%RETRY%shop%g", "shopping"]
    assert run(["topic", "list", "--namespace", "shop", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["shop%orders"]
    assert run(["topic", "list", "--all", "--namespace", "shop", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["%RETRY%shop%g", "shop%orders"]


def test_route_shows_a_master_that_is_down_as_not_known(created, capsys):
    assert run(["topic", "route", "orders"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "BROKER  CLUSTER  MASTER          READ QUEUES  WRITE QUEUES  PERMISSION",
        "a       c1       10.0.0.1:10911            8             8  RW",
        "b       c1       -                         4             0  R-",
    ]


def test_route_in_json(created, capsys):
    assert run(["topic", "route", "orders", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["brokers"][1] == {
        "broker": "b",
        "cluster": "c1",
        "master": None,
        "read_queues": 4,
        "write_queues": 0,
        "permission": "R-",
    }
