"""A snapshot as metrics: the agreed names, what is unknown is absent, and how far down it goes."""

import re
from math import inf

import pytest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog_json import Detail, is_bad
from orderly.monitoring.exporting.metrics import COUNTER, INFO, LEVELS
from orderly.monitoring.exporting.render import MOST_SERIES, metrics_of
from orderly.monitoring.exporting.told import Lost
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, every_state, group, row, snapshot

NAMES = {metric.name: metric for level in LEVELS.values() for metric in level}
PARKED = (ParkedKey("a", 1, 1, 4), ParkedKey("b", 1, 1, 3))
WHERE = {"cluster": "DefaultCluster", "group": "shipping"}
TOPIC = WHERE | {"topic": "orders"}
QUEUE = TOPIC | {"broker": "broker-a", "queue": "3"}


def read(metrics):
    """{name: [(labels, value)]}, by the parser of Prometheus' own client."""
    found = {}
    for family in text_string_to_metric_families(metrics.text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    assert sum(map(len, found.values())) == metrics.series
    return found


def value(found, name, labels):
    return next((number for at, number in found.get(name, []) if at == labels), None)


def test_names_follow_the_rules():
    assert len(NAMES) == sum(map(len, LEVELS.values())), "each is there once"
    for name, metric in NAMES.items():
        assert re.fullmatch(r"orderly_(broker|group|topic|queue|scan|series)[a-z_]*", name)
        assert (metric.kind is COUNTER) == name.endswith("_total")
        assert (metric.kind is INFO) == name.endswith("_info")
        assert metric.help.endswith(".") or "else 0" in metric.help


def test_every_figure_of_a_queue_is_a_series():
    found = read(
        metrics_of(
            snapshot(
                row(
                    QueueState.LOST, queue_id=3, backlog=7, head_age=60.5, lost=3, drain_eta=inf,
                    retention_eta=12.25, in_rate=0.5, out_rate=0.125, parked=PARKED, owner="c-1",
                )
            ),
            Detail.QUEUE,
        )
    )  # fmt: skip
    expected = {
        "backlog_messages": 7, "head_age_seconds": 60.5, "committed_offset": 93, "max_offset": 100,
        "min_offset": 0, "lost_messages": 3, "drain_eta_seconds": inf,
        "retention_eta_seconds": 12.25, "in_rate": 0.5, "out_rate": 0.125, "parked_keys": 2,
        "parked_messages": 7,
    }  # fmt: skip
    for name, number in expected.items():
        assert found[f"orderly_queue_{name}"] == [(QUEUE, number)]
    assert found["orderly_queue_state"] == [(QUEUE | {"state": "LOST"}, 1)]
    assert found["orderly_queue_owner_info"] == [(QUEUE | {"client": "c-1"}, 1)]


def test_every_figure_of_a_group_and_its_topics_is_a_series():
    rows = [row(backlog=5, parked=PARKED, parked_age=40.0), row(queue_id=1)]
    one = group(
        rows=rows, members=("a", "b", "c"), idle=("c",), dead=DeadLetters(4, AT - 90, 11),
        owner_changes=6, findings=("odd", "odder"),
    )  # fmt: skip
    found = read(metrics_of(snapshot(one), Detail.GROUP))
    expected = {
        "backlog_messages": 5, "head_age_seconds": 60, "drain_eta_seconds": 5,
        "retention_eta_seconds": 259_140, "members": 3, "idle_members": 1, "parked_keys": 2,
        "parked_messages": 7, "parked_oldest_age_seconds": 40, "dead_letters": 4,
        "dead_letters_total": 11, "dead_letters_oldest_age_seconds": 90,
        "owner_changes_total": 6, "findings": 2,
    }  # fmt: skip
    for name, number in expected.items():
        assert found[f"orderly_group_{name}"] == [(WHERE, number)], name
    assert found["orderly_group_state"] == [(WHERE | {"state": "OK"}, 1)]
    states = {at["state"]: number for at, number in found["orderly_group_queues"]}
    assert states == {"OK": 2}
    assert not [name for name in found if "_topic_" in name or "_queue_" in name]

    of_topics = read(metrics_of(snapshot(one), Detail.TOPIC))
    assert of_topics["orderly_topic_backlog_messages"] == [(TOPIC, 5)]
    assert of_topics["orderly_topic_in_rate"] == [(TOPIC, 2)]
    assert of_topics["orderly_topic_lost_messages_total"] == [(TOPIC, 0)]
    assert not [name for name in of_topics if "_queue_" in name]


def test_what_is_not_known_is_absent_and_never_0():
    found = read(metrics_of(snapshot(row(QueueState.UNKNOWN)), Detail.QUEUE))
    of_queue = {name for name in found if name.startswith("orderly_queue_")}
    assert of_queue == {"orderly_queue_state", "orderly_queue_lost_messages"}
    assert "orderly_group_backlog_messages" not in found
    assert "orderly_topic_backlog_messages" not in found
    for name in ("members", "idle_members", "dead_letters", "dead_letters_total", "parked_keys"):
        assert f"orderly_group_{name}" not in found


def test_a_broker_that_does_not_answer_is_down():
    brokers = {
        "a": BrokerReading("a", seconds=0.2, clock_offset=-0.5),
        "b": BrokerReading("b", error="time-out"),
    }
    found = read(metrics_of(snapshot(brokers=brokers)))
    cluster = {"cluster": "DefaultCluster"}
    assert found["orderly_broker_up"] == [
        (cluster | {"broker": "a"}, 1),
        (cluster | {"broker": "b"}, 0),
    ]
    offsets = found["orderly_broker_clock_offset_seconds"]
    assert offsets == [(cluster | {"broker": "a"}, -0.5)]


def test_lost_totals_are_those_given():
    first, second = snapshot(row(QueueState.LOST, lost=5)), snapshot(row(lost=0))
    found = read(metrics_of(second, Detail.TOPIC, lost=Lost().after(first).after(second)))
    assert found["orderly_topic_lost_messages_total"] == [(TOPIC, 5)]


def test_bad_queues_are_those_whose_verdict_is_not_ok():
    one = snapshot(*every_state().rows(), row(QueueState.NEW, queue_id=77, backlog=0))
    found = read(metrics_of(one, Detail.BAD_QUEUES))
    shown = {int(at["queue"]) for at, _ in found["orderly_queue_state"]}
    assert shown == {r.queue.queue_id for r in one.rows() if is_bad(r)}
    healthy = {QueueState.OK, QueueState.NOT_APPLICABLE}
    states = {QueueState(at["state"]) for at, _ in found["orderly_queue_state"]}
    assert states == set(QueueState) - healthy
    assert 77 not in shown
    assert len(found["orderly_topic_lost_messages_total"]) == 1


def many(groups, topics, queues=4, state=QueueState.OFFLINE):
    """Groups with a backlog that is the larger the later a topic comes."""
    return snapshot(
        *(
            row(state, f"g{g}", f"t{t:03}", queue_id=q, backlog=1 + t)
            for g in range(groups)
            for t in range(topics)
            for q in range(queues)
        )
    )


@pytest.mark.parametrize("state", [QueueState.OFFLINE, QueueState.OK])
def test_bad_queues_keep_to_their_limit_and_all_groups_are_there(state):
    metrics = metrics_of(many(40, 20, state=state))
    assert MOST_SERIES * 0.8 < metrics.series <= MOST_SERIES
    found = read(metrics)
    assert len(found["orderly_group_backlog_messages"]) == 40
    assert ("orderly_queue_state" in found) == (state is QueueState.OFFLINE)


def test_over_the_limit_the_worst_are_told():
    found = read(metrics_of(many(1, 999)))
    topics = {at["topic"]: number for at, number in found["orderly_topic_backlog_messages"]}
    assert 200 < len(topics) < 999
    assert min(topics.values()) == 4 * (1 + 999 - len(topics))
    worst = {at["topic"] for at, _ in found["orderly_queue_state"]}
    assert worst <= set(sorted(topics)[-len(worst) :])


def test_groups_beyond_the_limit_are_never_left_out():
    found = read(metrics_of(many(700, 1, queues=1)))
    assert len(found["orderly_group_backlog_messages"]) == 700
    assert "orderly_topic_backlog_messages" not in found


def test_without_trouble_and_within_the_limit_everything_but_queues_is_told():
    one = snapshot(row(), row(group="billing", topic="invoices"))
    assert metrics_of(one).text == metrics_of(one, Detail.TOPIC).text


@pytest.mark.parametrize("detail", list(Detail))
def test_openmetrics_says_the_same(detail):
    one = snapshot(*every_state().rows(), group("billing", [row(group="billing")], members=()))
    plain, other = metrics_of(one, detail), metrics_of(one, detail, openmetrics=True)
    assert plain.series == other.series
    series = [
        (sample.name, sample.labels, sample.value)
        for family in openmetrics_families(other.text + "# EOF\n")
        for sample in family.samples
    ]
    assert sorted(map(repr, series)) == sorted(
        repr((name, labels, number))
        for name, found in read(plain).items()
        for labels, number in found
    )
