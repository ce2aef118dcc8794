"""`orderly skew` on a fake broker: figures, formats, exit codes, and keys that are not shown."""

import csv
import io
import json

import pytest
import yaml

from orderly import Message
from orderly.cli.root import run
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.parked_key import key_tag
from orderly.testing.fake.faults import Fail, Fault
from tests.support.waiting import patient_producer

EVIL = "\x1b[2Jhot\n"


@pytest.fixture
def orders(orderly_fake):
    """Of four queues; 60 messages of one key and 140 others."""
    orderly_fake.create_topic("orders", queues=4)
    with patient_producer(orderly_fake.namesrv) as producer:
        for key in [EVIL] * 60 + [f"k{number}" for number in range(140)]:
            producer.send(Message("orders", b"x", sharding_key=key))


@pytest.fixture
def skew(orderly_fake, orders, capsys):
    def call(*args):
        where = ["--namesrv", orderly_fake.namesrv]
        code = run(["skew", "orders", *where, *args])
        return (code, *capsys.readouterr())

    return call


def test_a_table_for_a_reader(skew):
    code, out, err = skew()
    assert (code, err) == (0, "")
    assert out.startswith("orders: 4 queues; 200 messages stored.\nThe fullest queue holds ")
    queues = [line.split() for line in out.splitlines() if line.startswith("orders/broker-a/")]
    assert sum(int(cells[1]) for cells in queues) == 200
    assert [int(cells[1]) for cells in queues] == sorted((int(c[1]) for c in queues), reverse=True)
    assert "141 keys in 200 messages read of 200 stored." in out
    (hot,) = [line.split() for line in out.splitlines() if line.startswith("\\x1b[2Jhot\\n ")]
    assert hot[1:4] == ["60", "30", "%"]
    assert "\x1b" not in out


def test_json_and_yaml_have_it_all(skew):
    code, out, _ = skew("-o", "json")
    found = json.loads(out)
    assert (code, found["schema"], found["layout"]) == (0, "orderly.skew/v1", "broker-a:4")
    assert (found["messages"], found["skew"]["top_share"] >= 0.3) == (200, True)
    keys = found["keys"]
    assert (keys["messages_read"], keys["without_key"], keys["different"]) == (200, 0, 141)
    queue = found["skew"]["busiest"].removeprefix("orders/")
    hot = {"key": EVIL, "messages": 60, "share": 0.3, "queues": [queue]}
    assert keys["top"][0] == hot
    assert yaml.safe_load(skew("-o", "yaml")[1]) == found


def test_it_reads_and_shows_no_more_than_asked_for(skew):
    keys = json.loads(skew("-o", "json", "-n", "50", "--top", "3")[1])["keys"]
    assert (keys["messages_planned"], keys["messages_read"], len(keys["top"])) == (50, 50, 3)
    assert "50 messages read of 200 stored" in skew("-n", "50")[1]


def test_a_key_in_several_queues_is_told(skew, orderly_fake):
    with patient_producer(orderly_fake.namesrv) as producer:
        for at in range(4):
            message = Message("orders", b"x", sharding_key=EVIL)
            producer.send(message, selector=lambda queues, _, at: queues[at], arg=at)
    out = skew()[1]
    assert "1 key in several queues: orderly placement shows why" in out
    assert [line.split()[-1] for line in out.splitlines() if "hot" in line] == ["several"]


def test_csv_is_one_table(skew):
    code, out, _ = skew("-o", "csv", "--top", "1")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["part"] for row in rows] == ["queue"] * 4 + ["key"]
    assert sum(int(row["messages"]) for row in rows if row["part"] == "queue") == 200


def test_an_empty_topic_is_no_failure(orderly_fake, capsys):
    orderly_fake.create_topic("quiet", queues=2)
    assert run(["skew", "quiet", "--namesrv", orderly_fake.namesrv]) == 0
    assert "quiet: 2 queues; nothing is stored." in capsys.readouterr().out


@pytest.mark.parametrize("form", ["table", "json", "csv", "yaml"])
def test_redacted_keys_are_nowhere(skew, form):
    _, out, err = skew("-o", form, "--redact-keys", "hash")
    assert f"#{key_tag(EVIL)}" in out
    assert "hot" not in out + err
    assert "k1" not in out + err


def test_a_broker_that_cannot_be_read_is_3(skew, orderly_fake):
    orderly_fake.script(Fault(Code.GET_TOPIC_STATS_INFO, Fail(1, "not now"), times=None))
    code, out, err = skew()
    assert code == 3
    assert "not all of them could be read" in out
    assert "broker broker-a could not be read" in err


def test_an_unknown_topic_is_one_line(orderly_fake, capsys):
    assert run(["skew", "nope", "--namesrv", orderly_fake.namesrv]) == 3
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "nope" in err
