"""Explanations: sentences, worst first, and what to do next; the command: `golden/backlog.txt`."""

import re

from orderly.cli.backlog.explain import explanation
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, every_state, group, row, snapshot


def joined(text):
    return re.sub(r"\s+", " ", text)


def test_the_worst_group_comes_first_and_the_rest_in_one_line():
    told = explanation(
        snapshot(
            group("a", [row(group="a")]),
            group("b", [row(QueueState.AHEAD, group="b")]),
            group("c", [row(QueueState.OFFLINE, group="c")]),
            group("d", [row(QueueState.UNKNOWN, group="d")]),
        )
    )
    assert [text.split(":")[0].split(" is ")[0] for text in told] == ["c", "d", "b", "a"]
    assert told[-1] == "a is in order: nothing waits."


def test_many_groups_in_order_are_one_line():
    many = [group(f"g{n}", [row(group=f"g{n}")]) for n in range(9)]
    assert explanation(snapshot(*many)) == ["9 groups are in order."]


def test_a_suspended_queue_is_told_with_key_attempts_and_failure():
    head = Head(93, "order\x1b-7", "", AT - 60, AT, 0, 10, 4, "ValueError: no such carrier", "why")
    found = row(QueueState.SUSPENDED, head=head, backlog=1200, cause="4 tries in 60 s")
    (text,) = explanation(snapshot(found))
    assert text.startswith("shipping: WARNING. 1,200 messages wait in 1 queue, the oldest for 1m")
    assert (
        "SUSPENDED orders/broker-a/0: 4 tries in 60 s. Backlog 1,200, the oldest 1m old. The first"
        r" is offset 93, key order\x1b-7, tried 4 times, failure ValueError: no such carrier, not"
        " given up yet: why."
    ) in joined(text)
    assert "Next: Fix the handler, or what it depends on" in text


def test_queues_where_nothing_waits_are_not_counted_as_behind():
    found = [row(QueueState.OFFLINE, backlog=4), row(queue_id=1, backlog=0)]
    (text,) = explanation(snapshot(*found))
    assert "4 messages wait in 1 queue," in text


def test_what_the_cause_says_is_not_said_again():
    found = row(QueueState.OFFLINE, cause="7 messages wait, and no member is connected")
    (text,) = explanation(snapshot(found))
    assert "Backlog 7" not in text
    assert "The oldest 1m old." in joined(text)


def test_of_many_queues_alike_the_worst_are_told():
    rows = [row(QueueState.OFFLINE, queue_id=n, backlog=n + 1) for n in range(9)]
    (text,) = explanation(snapshot(*rows))
    assert re.findall(r"broker-a/(\d)", text) == ["8", "7", "6"]
    assert "and 6 more: OFFLINE, backlog 21." in text
    assert text.count("Next:") == 1


def test_all_that_waits_is_accounted_for():
    parked = (ParkedKey("a", 1, 1, 3), ParkedKey("b", 1, 1, 1))
    found = snapshot(
        row(QueueState.SUSPENDED, backlog=5, cause="5 tries in 60 s"),
        row(queue_id=1, backlog=4, parked=parked, parked_age=60.0),
        row(queue_id=2, backlog=1),
        row(queue_id=3, backlog=2, owner=None),
    )
    (text,) = explanation(found)
    for told in (
        "12 messages wait in 4 queues and 4 messages parked",
        "SUSPENDED orders/broker-a/0: 5 tries in 60 s. Backlog 5,",
        "- in order, with an owner: 5 messages wait in 2 queues.",
        "- 2 messages wait in 1 queue whose owner is not known. Next: Find their owners: orderly",
        "- PARKED 2 keys with 4 messages, the oldest 1m old. Next: When the cause is fixed,",
    ):
        assert told in joined(text)


def test_that_nothing_waits_is_not_said_while_keys_are_parked():
    keys = (ParkedKey("a", 1, 1, 1), ParkedKey("b", 1, 1, 1))
    (text,) = explanation(snapshot(row(parked=keys)))
    assert text.startswith("shipping: WARNING. Nothing waits but 2 messages parked.\n  - PARKED 2")


def test_a_group_in_order_whose_queues_have_an_unknown_owner_is_told_so():
    (text,) = explanation(snapshot(row(backlog=9, owner=None)))
    assert text.endswith(
        "the oldest for 1m; at this rate cleared in 9s; the owner of 1 queue is not known."
    )


def test_every_bad_state_is_told_with_what_to_do_within_100_columns():
    (text,) = explanation(every_state())
    for state in QueueState:
        assert (f"- {state} orders" in text) is (VERDICTS[state] is not Verdict.OK)
    assert text.count("Next: ") == sum(VERDICTS[state] is not Verdict.OK for state in QueueState)
    assert max(map(len, text.splitlines())) <= 100


def test_a_command_is_on_a_line_of_its_own_however_long_it_is():
    key = "customer-of-the-northern-branch-" * 3
    found = row(parked=(ParkedKey(key, 1, 0, 2),))
    (text,) = explanation(snapshot(found))
    assert f"orderly parked release shipping {key} -t orders" in map(str.strip, text.splitlines())


def test_dead_letters_findings_and_silent_brokers_are_told():
    found = snapshot(
        group("shipping", [row()], dead=DeadLetters(2, None, 2), findings=("two owners",)),
        brokers={"b": BrokerReading("b", error="gone\nfor good")},
    )
    broker, text = explanation(found)
    assert broker == r"Broker b could not be read: gone\nfor good. Its queues are UNKNOWN."
    assert "2 messages in %DLQ%shipping. Next:\n      orderly dlq list shipping" in text
    assert "- two owners" in text
