"""The JSON of a backlog: unknown is null, no infinity, and keys can be hidden."""

import json
from math import inf, nan

import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.advice import advice
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.backlog.states import QueueState, Verdict
from orderly.monitoring.backlog_json import (
    Detail,
    document,
    finite,
    is_bad,
    queue_fields,
    topic_fields,
)
from orderly.protocol.parked_key import ParkedKey
from orderly.report.words import clock
from tests.support.snapshots import AT, every_state, group, row, snapshot, sums, topic_status

HEAD = Head(93, "cust-7", "paid", AT - 60, AT - 61, 2, 120, attempts=3, fingerprint="ab")


def strict(value):
    """Through JSON that has neither infinity nor NaN."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_the_document_tells_when_what_and_by_whom():
    brokers = {"a": BrokerReading("a", "time-out", 4, 0.5, 0.25, 3600.0)}
    one = group(
        rows=[row()], members=("m1", "m2"), idle=("m2",), model="CLUSTERING", order="key",
        dead=DeadLetters(3, AT, 9), dead_rate=0.5, owner_changes=2, findings=("odd",),
    )  # fmt: skip
    told = strict(document(snapshot(one, brokers=brokers)))
    assert told["schema"] == "orderly.backlog/v2"
    assert told["time"] == "2027-01-15T08:00:00.000Z"
    assert (told["scan_seconds"], told["window_seconds"]) == (0.1, 300.0)
    assert told["cluster"] == "DefaultCluster"
    assert told["brokers"] == [
        {
            "broker": "a", "up": False, "error": "time-out", "requests": 4, "scan_seconds": 0.5,
            "clock_offset_seconds": 0.25, "retention_seconds": 3600.0,
        }
    ]  # fmt: skip
    (found,) = told["groups"]
    topics = found.pop("topics")
    assert found.pop("totals")["queues"] == 1
    assert found == {
        "group": "shipping", "state": "OK", "state_verdict": "OK",
        "verdict": "OK", "cause": "", "model": "CLUSTERING",
        "order": "key", "members": ["m1", "m2"], "idle_members": ["m2"], "owner_changes": 2,
        "findings": ["odd"],
        "dead_letters": {"messages": 3, "oldest_time": "2027-01-15T08:00:00.000Z", "rate": 0.5},
    }  # fmt: skip
    assert [len(topic["queues"]) for topic in topics] == [1]


PARKED = (ParkedKey("a", 1, 0, 2, 9), ParkedKey("b", 1, 0, 3, 9))


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ([row(QueueState.OK), row(QueueState.STALL, queue_id=1, cause="it stands still")],
         "orders/broker-a/1: it stands still"),
        ([row(QueueState.OFFLINE, queue_id=n, cause="nobody") for n in range(3)],
         "3 queues, first orders/broker-a/0: nobody"),
        ([row(QueueState.LAGGING), row(QueueState.BLOCKED, queue_id=1, cause="hangs")],
         "orders/broker-a/1: hangs"),
        ([row(parked=PARKED)], "2 keys parked, with 5 messages"),
        ([row(QueueState.SUSPENDED, cause="it fails", parked=PARKED[:1])],
         "orders/broker-a/0: it fails; 1 key parked, with 2 messages"),
    ],
)  # fmt: skip
def test_a_group_says_why_in_one_sentence(rows, cause):
    (found,) = document(snapshot(group(rows=rows)), Detail.GROUP)["groups"]
    assert found["cause"] == cause


def test_a_queue_is_told_in_full():
    one = row(QueueState.SUSPENDED, head=HEAD, parked=(ParkedKey(17, 1, 1, 4),), parked_age=5.0)
    assert strict(queue_fields(one)) == {
        "topic": "orders", "broker": "broker-a", "queue": 0, "state": "SUSPENDED",
        "state_verdict": "WARNING", "verdict": "WARNING", "cause": "it is SUSPENDED",
        "advice": advice(one), "min": 0, "committed": 93, "max": 100,
        "span": 7, "backlog": 7, "lost": 0, "head_age_seconds": 60.0, "in_rate": 1.0,
        "out_rate": 2.0, "drain_eta_seconds": 7.0, "drains": True,
        "retention_eta_seconds": 259_140.0, "owner": "client-1",
        "parked": [{"key": 17, "messages": 4}], "parked_keys": 1, "parked_messages": 4,
        "parked_age_seconds": 5.0,
        "head": {
            "offset": 93, "key": "cust-7", "tags": "paid",
            "stored_time": "2027-01-15T07:59:00.000Z", "born_time": "2027-01-15T07:58:59.000Z",
            "reconsumed": 2, "size": 120, "attempts": 3, "fingerprint": "ab", "because": None,
        },
    }  # fmt: skip


def test_what_is_not_known_is_null():
    told = strict(queue_fields(row(QueueState.UNKNOWN)))
    known = {name for name, value in told.items() if value is not None}
    assert known == {
        "topic", "broker", "queue", "state", "state_verdict", "verdict", "cause", "advice", "lost",
    }  # fmt: skip
    (found,) = strict(document(snapshot(group())))["groups"]
    for name in ("model", "order", "members", "idle_members", "dead_letters"):
        assert found[name] is None
    assert found["totals"]["backlog"] is None


@pytest.mark.parametrize(
    ("eta", "seconds", "drains"), [(inf, None, False), (12.5, 12.5, True), (None, None, None)]
)
def test_what_never_drains_is_told_without_infinity(eta, seconds, drains):
    told = strict(queue_fields(row(drain_eta=eta, retention_eta=eta)))
    assert (told["drain_eta_seconds"], told["drains"]) == (seconds, drains)
    assert told["retention_eta_seconds"] == seconds


@pytest.mark.parametrize(("value", "told"), [(inf, None), (-inf, None), (nan, None), (0.0, 0.0)])
def test_only_finite_numbers_are_told(value, told):
    assert finite(value) == told


def test_only_trouble_needs_advice():
    assert queue_fields(row(QueueState.STALL))["advice"] != ""
    assert queue_fields(row(QueueState.NEW, backlog=0))["advice"] == ""


def test_skew_names_the_busiest_queue():
    skew = QueueSkew(3.5, 0.75, 1.25, 0.5, MessageQueue("orders", "broker-a", 2))
    assert strict(topic_fields(topic_status([row()], skew)))["skew"] == {
        "max_over_mean": 3.5, "top_share": 0.75, "variation": 1.25, "gini": 0.5,
        "busiest": "orders/broker-a/2",
    }  # fmt: skip


@pytest.mark.parametrize("detail", list(Detail))
def test_detail_says_how_far_down_it_goes(detail):
    (found,) = document(every_state(), detail)["groups"]
    queues = [queue for topic in found.get("topics", ()) for queue in topic.get("queues", ())]
    bad = len(QueueState) - 2  # OK and NOT_APPLICABLE are not
    expected = {"group": 0, "topic": 0, "bad-queues": bad, "queue": len(QueueState)}
    assert ("topics" in found) == (detail is not Detail.GROUP)
    assert len(queues) == expected[detail]


def test_only_the_groups_that_are_wanted_are_told():
    one = snapshot(row(), row(group="billing"))
    told = document(one, groups=[one.groups["billing"]])
    assert [found["group"] for found in told["groups"]] == ["billing"]


def test_a_new_queue_is_well_only_if_it_is_surely_empty():
    empty, unknown = row(QueueState.NEW, backlog=0), row(QueueState.NEW, queue_id=1)
    late = row(QueueState.LAGGING, queue_id=2)
    assert (empty.verdict, unknown.verdict) == (Verdict.OK, Verdict.UNKNOWN)
    assert [is_bad(each) for each in (empty, unknown, late, row())] == [False, True, True, False]
    assert sums([empty]).verdict is Verdict.OK
    assert sums([empty, late]).verdict is Verdict.WARNING
    assert sums([empty, unknown, late]).verdict is Verdict.UNKNOWN


FIRST, LAST = "0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.998Z"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(1e30, LAST), (inf, LAST), (-1e30, FIRST), (-inf, FIRST)]
)
def test_a_time_beyond_the_calendar_is_shown_as_its_first_or_last(seconds, shown):
    head = Head(93, "cust-7", "paid", seconds, seconds, 2, 120)
    dead = DeadLetters(3, seconds, 9)
    one = group(rows=[row(QueueState.BLOCKED, head=head)], dead=dead)
    told = strict(document(snapshot(one)))["groups"][0]
    assert told["dead_letters"]["oldest_time"] == shown
    (found,) = told["topics"][0]["queues"]
    assert (found["head"]["stored_time"], found["head"]["born_time"]) == (shown, shown)
    assert clock(seconds)[:4] == shown[:4]  # of a report
