"""What a report is about: the worst first, and bounded."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.backlog.snapshot import QueueSkew, TopicStatus
from orderly.monitoring.backlog.states import QueueState, Verdict
from orderly.monitoring.reporting.contents import contents, worked_off
from orderly.monitoring.reporting.top import first
from orderly.monitoring.reporting.troubles import troubles
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, group, row, snapshot


def chosen(*parts, top=20, **fields):
    return contents(snapshot(*parts, **fields), {}, samples=1, top=top)


@given(st.lists(st.integers()), st.integers(1, 20))
def test_the_first_and_the_rest_are_all(many, most):
    top = first(many, most, lambda it: it)
    assert list(top.shown) == sorted(many)[:most]
    assert len(top.shown) + top.left_out == len(many)


def test_groups_come_worst_first_then_furthest_behind():
    found = chosen(
        row(QueueState.GROWING, "growing", backlog=99_999),
        row(QueueState.UNKNOWN, "unknown"),
        row(QueueState.STALL, "stall-5", backlog=5),
        row(QueueState.STALL, "stall-9", backlog=9),
        row(group="well", backlog=10**9),
    )
    names = [each.status.group for each in found.groups.shown]
    assert names == ["stall-9", "stall-5", "unknown", "growing", "well"]
    assert [each.status.group for each in found.bad] == names[:-1]


def test_what_is_wrong_with_a_group_comes_worst_first_and_few_queues_stand_for_many():
    rows = [row(QueueState.UNKNOWN, queue_id=9), row(QueueState.GROWING, queue_id=8)]
    rows += [row(QueueState.STALL, queue_id=n, backlog=n) for n in range(1, 6)]
    found = troubles(group("shipping", rows, findings=("odd",)))
    assert [each.name for each in found] == ["STALL", "UNKNOWN", "GROWING", "ODD"]
    assert found[0].where == "5 queues"
    assert [fact.partition(":")[0] for fact in found[0].facts] == [
        "orders/broker-a/5",
        "orders/broker-a/4",
        "orders/broker-a/3",
        "and 2 queues more, with 3 messages",
    ]


def test_a_group_that_only_looks_odd_is_told_of_and_is_no_warning():
    found = chosen(
        group("odd", [row(group="odd")], findings=("two owners",)),
        group("plain", [row(group="plain")]),
    )
    assert found.verdict is Verdict.OK
    assert [each.status.group for each in found.bad] == ["odd"]


def test_the_oldest_heads_come_first_whether_or_not_their_message_was_read():
    head = Head(1, "k", "", AT - 50, AT, 0, 1)
    found = chosen(
        row(queue_id=0, backlog=1, head_age=40.0),
        row(queue_id=1, backlog=1, head_age=None, head=head),
        row(queue_id=2, backlog=1, head_age=None),
        row(queue_id=3, backlog=1, head_age=60.0),
        row(queue_id=4, backlog=0),
    )
    assert [each.queue.queue_id for each in found.heads.shown] == [3, 1, 0]


def test_skew_of_a_topic_is_told_once():
    skew = QueueSkew(2.0, 0.5, 1.0, 0.5, row().queue)

    def skewed(name):
        status = group(name, [row(group=name), row(group=name, queue_id=1)])
        topic = status.topics["orders"]
        of_topic = TopicStatus(name, "orders", topic.sums, skew, topic.make_rows)
        return replace(status, topics={"orders": of_topic})

    found = chosen(skewed("a"), skewed("b"))
    assert [each.topic for each in found.uneven.shown] == ["orders"]


def test_the_largest_parked_keys_come_first():
    keys = tuple(ParkedKey(f"k{n}", 0, 0, n) for n in (3, 9, 1))
    found = chosen(row(parked=keys), top=2)
    assert [each.key.key for each in found.parked.shown] == ["k9", "k3"]
    assert found.parked.left_out == 1


def test_topics_that_drain_last_come_first_and_unknown_ones_not_at_all():
    found = chosen(
        row(group="soon", backlog=5, drain_eta=5.0),
        row(QueueState.STALL, "never", backlog=5, drain_eta=math.inf),
        row(group="who-knows", backlog=5, drain_eta=None),
        row(group="idle"),
    )
    assert [each.group for each in found.draining.shown] == ["never", "soon"]


@pytest.mark.parametrize(
    ("state", "eta", "out_rate", "said"),
    [
        (QueueState.OK, math.inf, 9.9, "keeps up"),
        (QueueState.OK, math.inf, 5.0, "never"),
        (QueueState.OK, math.inf, None, "never"),
        (QueueState.STALL, math.inf, 9.9, "never"),
        (QueueState.OK, 7.0, 9.9, "7s"),
    ],
)
def test_messages_that_are_on_their_way_are_no_backlog_that_never_ends(state, eta, out_rate, said):
    queue = row(state, backlog=3, drain_eta=eta, in_rate=10.0, out_rate=out_rate)
    found = chosen(queue)
    assert worked_off(found.totals) == said
    assert bool(found.draining) == (said != "keeps up")
