"""`orderly backlog describe`: all that is known about a group, and nothing that is not."""

import json

from orderly.cli.root import run
from orderly.monitoring.backlog.reading import DeadLetters, Head
from orderly.monitoring.backlog.states import QueueState
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, group, row, snapshot

GROUP = group(
    "shipping",
    [
        row(
            QueueState.SUSPENDED,
            parked=(ParkedKey("order-7", 12, 3, 14),),
            parked_age=3600.0,
            head=Head(93, "order\n8", "paid", AT - 60, AT - 61, 0, 10, 4, "ValueError: x"),
            owner=None,
            drain_eta=float("inf"),
        ),
        row(QueueState.UNKNOWN, queue_id=1),
        row(topic="%RETRY%shipping"),
    ],
    members=("c1", "c2"),
    idle=("c2",),
    order="key",
    model="CLUSTERING",
    dead=DeadLetters(3, AT - 120, 3),
    findings=("subscriptions differ\x1b[31m",),
)


def described(surveyed, capsys, *args, code=3):
    surveyed.found = snapshot(GROUP)
    assert run(["backlog", "describe", *args]) == code
    return capsys.readouterr().out


def test_everything_is_told(surveyed, capsys):
    out = described(surveyed, capsys, "shipping")
    assert out.splitlines()[0] == "shipping  UNKNOWN"
    for text in (
        "7 messages in 3 queues (not known of 1); the oldest 1m old; worked off: never",
        "2 online: c1, c2; without a queue: c2",
        "order by key, CLUSTERING",
        "1 key, 14 messages, the oldest 1h old",
        "3 messages, the oldest 2m old",
        "finding    subscriptions differ\n",
        r"order\n8",
        "ValueError: x",
        "order-7",
        "UNKNOWN orders/broker-a/1: it is UNKNOWN",
    ):
        assert text in out
    assert "%RETRY%" not in out


def test_a_group_may_be_an_argument_or_an_option(surveyed, capsys):
    assert described(surveyed, capsys, "shipping") == described(surveyed, capsys, "-g", "shipping")
    assert surveyed.asked[0][0] == surveyed.asked[1][0]


def test_json_has_the_retry_topic_too(surveyed, capsys):
    found = json.loads(described(surveyed, capsys, "shipping", "-o", "json"))
    assert [it["topic"] for it in found["groups"][0]["topics"]] == ["%RETRY%shipping", "orders"]


def test_what_is_not_known_is_not_told_as_0(surveyed, capsys):
    surveyed.found = snapshot(group("shipping", [row(QueueState.NEW)]))
    assert run(["backlog", "describe", "shipping"]) == 0
    out = capsys.readouterr().out
    assert "backlog    not known in 1 queue\n" in out
    assert "members    not known" in out
    assert "parked " not in out.partition("\n\n")[0]
    assert "dead " not in out
