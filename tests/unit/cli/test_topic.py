"""`orderly topic`: what is asked for and what is shown."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import ConfigError, RequestTimeout
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
        topic_config=lambda _, broker: config_of(broker.broker_name),
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


def config_of(broker):
    found = CONFIGS[broker]
    if isinstance(found, Exception):
        raise found
    return found


def test_show_tells_what_brokers_have_and_a_master_that_is_down_as_not_known(created, capsys):
    assert run(["topic", "show", "orders"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        "BROKER  CLUSTER  MASTER          TYPE  READ QUEUES  WRITE QUEUES  PERMISSION  ORDER",
        "a       c1       10.0.0.1:10911  FIFO            8             8  RW          no",
        "b       c1       -               -               -             -  -           -",
    ]
    assert err == "layout: a:8\n"


def test_show_in_json(created, capsys):
    assert run(["topic", "show", "orders", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["topic"], found["layout"], found["errors"]) == ("orders", "a:8", {})
    first, second = found["brokers"]
    assert first == {
        "broker": "a",
        "cluster": "c1",
        "master": "10.0.0.1:10911",
        "type": "FIFO",
        "read_queues": 8,
        "write_queues": 8,
        "permission": "RW",
        "order": "no",
        "attributes": {"message.type": "FIFO"},
    }
    assert {name for name, value in second.items() if value is not None} == {"broker", "cluster"}


def test_show_goes_on_where_a_broker_cannot_be_asked(created, capsys, monkeypatch):
    monkeypatch.setitem(CONFIGS, "b", RequestTimeout("no reply\x1b[31m"))
    assert run(["topic", "show", "orders"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[2].split() == ["b", "c1", *"------"]
    assert err == "layout: a:8\nb could not be asked: no reply\n"
    assert run(["topic", "show", "orders", "-o", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["errors"] == {"b": "no reply\x1b[31m"}


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
