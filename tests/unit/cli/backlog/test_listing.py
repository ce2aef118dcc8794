"""A listing's lines: filtered, sorted, cut; and every format tells of the same ones."""

from __future__ import annotations

import pytest

from orderly.cli.backlog.listing import (
    FIELDS,
    ORDERS,
    Level,
    ListingOptions,
    fields_of,
    lines_of,
    narrowed,
)
from orderly.monitoring.backlog.reading import DeadLetters
from orderly.monitoring.backlog.states import QueueState
from tests.support.snapshots import AT, every_state, group, row, snapshot

CLUSTER = snapshot(
    group("billing", [row(group="billing", topic="paid", backlog=3)]),
    group(
        "shipping",
        [
            row(QueueState.STALL, queue_id=0, backlog=40, head_age=5.0),
            row(queue_id=1, backlog=2, head_age=900.0),
            row(QueueState.UNKNOWN, queue_id=2),
            row(topic="%RETRY%shipping", backlog=0),
        ],
        members=("a", "b"),
        dead=DeadLetters(3, AT - 60, 5),
    ),
)


def names(cut, of=CLUSTER):
    return [
        "/".join(
            [
                line.group.group,
                *([line.topic.topic] if line.topic else []),
                *([str(line.row.queue.queue_id)] if line.row else []),
            ]
        )
        for line in lines_of(of, cut)
    ]


def test_levels_go_down_to_queues_and_idle_retry_topics_are_left_out():
    assert names(ListingOptions(Level.GROUP)) == ["billing", "shipping"]
    assert names(ListingOptions(Level.TOPIC)) == ["billing/paid", "shipping/orders"]
    assert names(ListingOptions(Level.QUEUE))[1:] == [f"shipping/orders/{n}" for n in range(3)]
    assert names(ListingOptions(Level.TOPIC, retry=True))[1] == "shipping/%RETRY%shipping"


def test_a_retry_topic_with_a_backlog_is_never_left_out():
    rows = [row(QueueState.OFFLINE, topic="%RETRY%shipping"), row()]
    found = snapshot(group("shipping", rows))
    assert names(ListingOptions(Level.TOPIC), found) == [
        "shipping/%RETRY%shipping",
        "shipping/orders",
    ]


def test_only_bad_keeps_what_is_not_in_order():
    assert names(ListingOptions(Level.TOPIC, only_bad=True)) == ["shipping/orders"]
    assert names(ListingOptions(Level.QUEUE, only_bad=True)) == [
        "shipping/orders/0",
        "shipping/orders/2",
    ]


def test_a_finding_makes_a_group_bad():
    found = snapshot(group("billing", [row(group="billing")], findings=("two owners",)))
    assert names(ListingOptions(Level.GROUP, only_bad=True), found) == ["billing"]
    assert names(ListingOptions(Level.TOPIC, only_bad=True), found) == []


def test_empty_new_queues_are_in_order():
    found = snapshot(group("shipping", [row(QueueState.NEW, backlog=0)]))
    assert names(ListingOptions(Level.QUEUE, only_bad=True), found) == []
    found = snapshot(group("shipping", [row(QueueState.NEW)]))
    assert names(ListingOptions(Level.QUEUE, only_bad=True), found) == ["shipping/orders/0"]


@pytest.mark.parametrize(
    ("order", "first", "last"),
    [("backlog", "0", "2"), ("age", "1", "2"), ("state", "0", "1"), ("retention", "0", "2")],
)
def test_the_worst_is_first_and_what_is_not_known_last(order, first, last):
    found = names(ListingOptions(Level.QUEUE, sort_by=order), snapshot(CLUSTER.groups["shipping"]))
    assert found[0].endswith(first)
    assert found[-1].endswith(last)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("level", Level)
def test_every_order_sorts_every_level(order, level):
    for found in (CLUSTER, every_state(), snapshot()):
        assert sorted(names(ListingOptions(level, sort_by=order), found)) == sorted(
            names(ListingOptions(level), found)
        )


def test_top_cuts_after_sorting_by_backlog():
    assert names(ListingOptions(Level.QUEUE, top=2)) == ["shipping/orders/0", "billing/paid/0"]


@pytest.mark.parametrize("level", Level)
def test_what_is_narrowed_has_nothing_but_the_lines(level):
    cut = ListingOptions(level, only_bad=True)
    told = narrowed(CLUSTER, lines_of(CLUSTER, cut))
    assert set(told.groups) == {"shipping"}
    topics = told.groups["shipping"].topics
    if level is Level.TOPIC:
        assert set(topics) == {"orders"}
    if level is Level.QUEUE:
        assert [r.queue.queue_id for r in topics["orders"].rows()] == [0, 2]
        assert [r.queue.queue_id for r in topics["orders"].rows()] == [0, 2], "again"


@pytest.mark.parametrize("level", Level)
def test_every_cell_can_be_made_of_every_line(level):
    for found in (CLUSTER, every_state()):
        for line in lines_of(found, ListingOptions(level, retry=True)):
            for field in fields_of(level):
                assert field.of(line) is None or isinstance(field.of(line), str | int | float)


def test_every_column_belongs_to_a_level():
    assert {field.column.name for level in Level for field in fields_of(level)} == {
        field.column.name for field in FIELDS
    }


def test_ages_are_of_the_snapshots_time():
    (_, line) = lines_of(CLUSTER, ListingOptions(Level.GROUP))
    assert line.dead_age == 60
