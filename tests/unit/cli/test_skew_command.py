"""`orderly skew` on a fake broker: figures, formats, exit codes, and keys that are not shown."""

import csv
import io
import json

import pytest
import yaml

from orderly import Message, OrderlyProducer
from orderly.cli.root import run
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.parked_key import key_tag
from orderly.testing.fake.faults import Fail, Fault

EVIL = "\x1b[2Jhot\n"


@pytest.fixture
def orders(orderly_fake):
    """Of four queues; 60 messages of one key and 140 others."""
    orderly_fake.create_topic("orders", queues=4)
    with OrderlyProducer(namesrv=orderly_fake.namesrv) as producer:
        for key in [EVIL] * 60 + [f"k{number}" for number in range(140)]:
            producer.send(Message("orders", b"x", sharding_key=key))


@pytest.fixture
def skew(orderly_fake, orders, capsys):
    def call(*args):
        where = ["--namesrv", orderly_fake.namesrv, "--interval", "100ms"]
        code = run(["skew", "-t", "orders", *where, *args])
        return (code, *capsys.readouterr())

    return call


def test_a_table_for_a_reader(skew):
    code, out, err = skew("--what-if", "2,16")
    assert code == 0
    assert out.startswith(
        "orders: 4 queues; too little comes to judge by, so all 200 messages stored are counted."
    )
    lines = out.splitlines()
    queues = [line.split() for line in lines if line.startswith("orders/broker-a/")]
    assert sum(int(cells[1]) for cells in queues) == 200
    assert [int(cells[1]) for cells in queues] == sorted((int(c[1]) for c in queues), reverse=True)
    what_if = [line.split() for line in lines if "hash_mod" in line]
    assert [cells[0] for cells in what_if] == ["4", "2", "16"]
    assert "\\x1b[2Jhot\\n alone has 30 % of the messages, more than 1/4." in out
    assert "\x1b" not in out
    assert "counting what comes into orders for 0.1 s" in err


def test_json_and_yaml_have_it_all(skew):
    code, out, _ = skew("-o", "json", "--what-if", "16")
    found = json.loads(out)
    assert (code, found["schema"], found["layout"]) == (0, "orderly.skew/v1", "broker-a:4")
    assert (found["inflow"]["basis"], found["inflow"]["messages"]) == ("stored", 200)
    keys = found["keys"]
    assert (keys["messages_read"], keys["without_key"], keys["different"]) == (200, 0, 141)
    assert keys["least_share_of_busiest_queue"] == 0.3
    assert keys["top"][0] | {"queue": ""} == {
        "key": EVIL,
        "messages_least": 60,
        "messages_most": 60,
        "share_least": 0.3,
        "share_most": 0.3,
        "queue": "",
        "in_several_queues": False,
    }
    now, other = found["what_if"]
    assert (now["queues"], now["moved_share"], now["moved_keys"]) == (4, 0.0, [])
    assert other["queues"] == 16
    assert other["skew"]["top_share"] >= 0.3
    assert all(int(moved["to"].split("/")[1]) >= 4 for moved in other["moved_keys"])
    assert yaml.safe_load(skew("-o", "yaml", "--what-if", "16")[1]) == found


def test_csv_is_one_table(skew):
    code, out, _ = skew("-o", "csv", "--what-if", "16")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["part"] for row in rows if row["part"] != "key"] == ["queue"] * 4 + ["what-if"] * 2
    assert sum(int(row["messages"]) for row in rows if row["part"] == "queue") == 200


@pytest.mark.parametrize("form", ["table", "json", "csv", "yaml"])
def test_redacted_keys_are_nowhere(skew, form):
    _, out, err = skew("-o", form, "--redact-keys", "hash")
    assert f"#{key_tag(EVIL)}" in out
    assert "hot" not in out + err
    assert "k1" not in out + err


def test_the_default_is_half_twice_and_four_times(skew):
    found = json.loads(skew("-o", "json")[1])
    assert [each["queues"] for each in found["what_if"]] == [4, 2, 8, 16]


def test_a_group_adds_its_backlog(skew, orderly_fake):
    with OrderlyProducer(namesrv=orderly_fake.namesrv) as producer:
        client = producer._client
        client.groups.group_config("shipping", "broker-a")
        for queue in client.routes.get("orders").read_queues():
            client.brokers.update_offset("shipping", queue, 10)
    found = json.loads(skew("-o", "json", "-g", "shipping")[1])
    assert found["group"] == "shipping"
    assert sum(queue["backlog"] for queue in found["inflow"]["queues"]) == 160
    assert "BACKLOG" in skew("-g", "shipping")[1]
    code, _, err = skew("-g", "nobody")
    assert (code, "there is no group nobody" in err) == (3, True)


def test_a_broker_that_cannot_be_read_is_3(skew, orderly_fake):
    orderly_fake.script(Fault(Code.GET_TOPIC_STATS_INFO, Fail(1, "not now"), times=None))
    code, out, err = skew("--what-if", "8")
    assert code == 3
    assert "not all of them could be read" in out
    assert "broker broker-a could not be read" in err


@pytest.mark.parametrize("numbers", ["x", "0", "16,", "5000", "-1"])
def test_what_if_takes_numbers_of_queues(skew, numbers):
    code, _, err = skew(f"--what-if={numbers}")
    assert code == 3
    assert "error: invalid value for '--what-if'" in err


def test_an_unknown_topic_is_one_line(orderly_fake, capsys):
    assert run(["skew", "-t", "nope", "--namesrv", orderly_fake.namesrv]) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "nope" in err
