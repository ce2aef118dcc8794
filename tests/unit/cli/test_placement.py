"""`orderly placement` on a fake broker: verdicts, formats, and keys that are not shown."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from orderly import Message, OrderlyProducer
from orderly.cli.output import Format
from orderly.cli.placement import PlacementReport, report_answer, report_text
from orderly.cli.root import run
from orderly.foreign_text import hidden
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.placement import Sightings, judge
from orderly.protocol.codes import RequestCode as Code
from orderly.selectors import KEYED, parse_layout, queues_of
from orderly.testing.fake.faults import Fail, Fault
from tests.support.waiting import patient_producer

EVIL = "\x1b[2Jhot\n"
KEYS = [EVIL, *(f"order-{number}" for number in range(39))]


@pytest.fixture
def send(orderly_fake):
    orderly_fake.create_topic("orders", queues=8)

    def send(selector, keys=KEYS):
        with OrderlyProducer(
            namesrv=orderly_fake.namesrv, selector=KEYED[selector].selector
        ) as producer:
            for key in keys:
                producer.send(Message("orders", b"x", sharding_key=key))

    return send


@pytest.fixture
def audit(orderly_fake, capsys):
    def call(*args):
        where = ["--namesrv", orderly_fake.namesrv]
        code = run(["placement", "orders", *where, *args])
        return (code, *capsys.readouterr())

    return call


@pytest.mark.parametrize("name", sorted(KEYED.keys() - {"numeric_mod"}))
def test_one_selector_is_named_and_fine(send, audit, name):
    send(name)
    code, out, _ = audit("-o", "json")
    found = json.loads(out)
    assert (code, found["verdict"], found["schema"]) == (0, "OK", "orderly.placement/v1")
    assert [each["selectors"] for each in found["placements"]] == [[name]]
    assert (found["keys"], found["keys_in_several_queues"]) == (40, 0)
    assert (found["split"], found["unexplained_keys"]) == ([], 0)


def test_mixed_producers_are_told_with_the_keys_they_split(send, audit):
    send("hash_mod")
    send("go_hash_mod")
    code, out, err = audit()
    assert code == 1
    assert "were seen in several queues" in out
    rows = [line.split() for line in out.splitlines() if "broker-a/" in line]
    assert {row[-1] for row in rows} == {"hash_mod", "go_hash_mod"}
    assert "\x1b" not in out + err
    code, out, _ = audit("-o", "json")
    found = json.loads(out)
    assert (code, found["verdict"]) == (1, "WARNING")
    both = [KEYED[name].selector for name in ("hash_mod", "go_hash_mod")]
    split = {key["key"] for key in found["split"]}
    places = range(8)
    assert split == {key for key in KEYS if len({it(places, None, key) for it in both}) == 2}
    assert {queue["first_stored"][-1] for key in found["split"] for queue in key["queues"]} == {"Z"}


@pytest.mark.parametrize("form", ["table", "json"])
def test_redacted_keys_are_nowhere(send, audit, form):
    send("hash_mod")
    send("cpp_hash_mod", [EVIL, *KEYS[1:]])
    _, out, err = audit("-o", form, "--redact-keys", "hash")
    assert "hot" not in out + err
    assert "order-" not in out + err
    if form == "json":
        assert hidden("order-1") in out or hidden("order-2") in out


def test_a_key_is_found_where_gos_client_writes_it(audit, orderly_fake):
    orderly_fake.create_topic("orders", queues=8)
    go = KEYED["go_hash_mod"].selector
    with patient_producer(orderly_fake.namesrv, selector=go) as producer:
        for key in KEYS[1:]:
            message = Message("orders", b"x", properties={"SHARDING_KEY": key})
            producer.send(message, arg=key)
    found = json.loads(audit("-o", "json")[1])
    assert (found["keys"], found["without_key"]) == (39, 0)
    assert [each["selectors"] for each in found["placements"]] == [["go_hash_mod"]]


def test_a_sample_is_no_larger_than_asked_for(send, audit):
    send("hash_mod")
    assert json.loads(audit("-o", "json", "-n", "10")[1])["messages_read"] == 10


def test_nothing_to_judge_by_is_3(send, audit, orderly_fake):
    with patient_producer(orderly_fake.namesrv) as producer:
        producer.send(Message("orders", b"x"))
    code, out, _ = audit()
    assert (code, "None of 1 message that could be read has a sharding key" in out) == (3, True)


def test_a_broker_that_cannot_be_read_is_3_and_named(send, audit, orderly_fake):
    send("hash_mod")
    orderly_fake.script(Fault(Code.GET_TOPIC_STATS_INFO, Fail(1, "not now"), times=None))
    code, _, err = audit()
    assert code == 3
    assert "broker broker-a could not be read" in err


def test_a_sample_that_is_not_whole_says_so(send, audit, orderly_fake):
    send("hash_mod")
    orderly_fake.script(Fault(Code.VIEW_MESSAGE_BY_ID, Fail(1, "can not find message")))
    code, out, err = audit("-o", "json")
    found = json.loads(out)
    assert (code, found["messages_planned"], found["messages_read"]) == (0, 40, 39)
    assert "39 of 40 messages were read" in err


PLAIN = Format("table", headers=True, raw=False)


def findings(layout, *seen):
    sightings = Sightings()
    for key, queue in seen:
        sightings.add(key, queue, 0.0)
    return judge(layout, "orders", sightings)


def test_a_brokers_name_cannot_paint_the_screen():
    layout = parse_layout("\x1b[2Jbroker:2")
    places = queues_of(layout, "orders")
    found = findings(layout, *(("k", place) for place in places))
    shown = report_text(PlacementReport(found, {}, 2, redact=False), PLAIN, color=False)
    assert shown.startswith("orders: broker:2; 2 messages read.")
    assert "the most frequent first:" in shown
    assert "\x1b" not in shown


def test_a_key_in_several_queues_that_nothing_explains_is_one_key():
    layout = parse_layout("broker-a:8")
    places = queues_of(layout, "orders")
    found = findings(layout, *((key, place) for key in ("a", "b") for place in places))
    document = report_answer(PlacementReport(found, {}, 16, redact=False)).document()
    assert (document["keys"], document["unexplained_keys"]) == (2, 2)


def test_an_unknown_topic_and_a_bad_number_are_one_line(orderly_fake, capsys):
    where = ["--namesrv", orderly_fake.namesrv]
    for args in (["nope"], ["orders", "-n", "0"]):
        assert run(["placement", *args, *where]) == 3
        err = capsys.readouterr().err
        assert err.startswith("error: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("found", "errors", "verdict"),
    [
        (Verdict.OK, {}, Verdict.OK),
        (Verdict.OK, {"broker-b": "silent"}, Verdict.UNKNOWN),
        (Verdict.WARNING, {"broker-b": "silent"}, Verdict.WARNING),
    ],
)
def test_nothing_found_counts_only_if_every_broker_was_read(found, errors, verdict):
    assert (
        PlacementReport(SimpleNamespace(verdict=found), errors, 0, redact=False).verdict is verdict
    )
