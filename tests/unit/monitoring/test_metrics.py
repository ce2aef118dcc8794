"""Lost messages add up over snapshots, whatever is read in between."""

from __future__ import annotations

import re
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog_json import Detail, is_bad
from orderly.monitoring.metrics import (
    COUNTER,
    GAUGE,
    INFO,
    LEVELS,
    LONGEST_LABEL,
    MOST_SERIES,
    Blocks,
    GroupSubject,
    Labelled,
    LostTotals,
    Metric,
    label,
    metrics_of,
)
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import AT, every_state, group, row, snapshot

UNREAD = None
PLACE = ("shipping", "orders")


def seen(*lost):
    """A snapshot with as many lost messages in each queue; UNREAD: nobody could tell."""
    rows = [
        row(QueueState.UNKNOWN, queue_id=n)
        if count is UNREAD
        else row(QueueState.LOST if count else QueueState.OK, queue_id=n, lost=count)
        for n, count in enumerate(lost)
    ]
    return snapshot(*rows)


def total(*snapshots):
    lost = LostTotals()
    for each in snapshots:
        lost = lost.after(each)
    return lost.totals.get(PLACE, 0)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([(0,), (0,)], 0),
        ([(5,)], 5),
        ([(5,), (5,), (8,)], 8),
        ([(5,), (0,), (3,)], 8),
        ([(5,), (UNREAD,), (5,)], 5),
        ([(5,), (UNREAD,), (7,)], 7),
        ([(5, 0), (0, 5)], 10),
        ([(5, 0), (5,)], 5),
    ],
    ids=["none", "at first", "more", "again", "unread", "unread, more", "two queues", "one goes"],
)
def test_what_is_lost_is_counted_once(history, expected):
    assert total(*(seen(*counts) for counts in history)) == expected


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(0, 9))] * 2), max_size=8))
def test_a_total_never_falls(history):
    totals = [total(*(seen(*c) for c in history[:n])) for n in range(len(history) + 1)]
    assert totals == sorted(totals)


def test_a_group_that_is_gone_is_forgotten():
    lost = LostTotals().after(seen(5)).after(snapshot(row(group="billing")))
    assert lost == LostTotals()


@pytest.mark.parametrize(
    ("dead", "age"),
    [
        (None, None),
        (DeadLetters(0, None, 4), None),
        (DeadLetters(2, AT - 90, 4), 90),
        (DeadLetters(2, AT + 3, 4), 0),  # by a broker whose clock is ahead
    ],
)
def test_the_age_of_dead_letters_is_known_or_none(dead, age):
    assert GroupSubject(group(dead=dead), AT).dead_letters_age == age


PARSERS = [
    (False, lambda text: list(prometheus_families(text))),
    (True, lambda text: list(openmetrics_families(text + "# EOF\n"))),
]
formats = pytest.mark.parametrize(("openmetrics", "parse"), PARSERS, ids=["text", "openmetrics"])
LEVEL = (
    Metric("size", GAUGE, "How big.", lambda number: number),
    Labelled("size_state", GAUGE, "Which.", "state", lambda number: (("a", 1), ("b", number))),
    Metric("seen_total", COUNTER, "How often.", lambda number: number),
    Labelled("size_owner_info", INFO, "Whose.", "client", lambda _: (("c", 1),)),
)
ANY_TEXT = st.text(st.characters(), max_size=400)  # lone surrogates and controls, too


def samples(families):
    return [(s.name, s.labels, s.value) for family in families for s in family.samples]


@formats
@given(names=st.lists(ANY_TEXT, min_size=1, max_size=4, unique=True))
def test_any_names_make_series_of_their_own(openmetrics, parse, names):
    blocks = Blocks(openmetrics=openmetrics)
    blocks.add(LEVEL[:1], [label("group", name) for name in names], range(len(names)))
    text = blocks.text()
    text.encode()  # no lone surrogates
    assert len(text.splitlines()) == 2 + len(names)
    found = samples(parse(text))
    assert [value for _, _, value in found] == list(range(len(names)))
    shown = [labels["group"] for _, labels, _ in found]
    assert all(value.isprintable() and len(value) <= LONGEST_LABEL for value in shown)


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=LONGEST_LABEL))
def test_what_is_printable_is_read_back_as_it_was(name):
    blocks = Blocks()
    blocks.add(LEVEL[:1], [label("group", name)], [1])
    shown = samples(prometheus_families(blocks.text()))[0][1]["group"]
    assert shown == name or not name.isprintable()


def test_long_names_that_begin_alike_stay_apart():
    one, other = (label("group", "g" * 300 + end) for end in "ab")
    assert one != other
    assert len(one) == len('group=""') + LONGEST_LABEL


@formats
@pytest.mark.parametrize("value", [0, 7, -3, 2**63, 0.25, float("inf"), 1_795_284_960.125])
def test_numbers_are_read_back(openmetrics, parse, value):
    blocks = Blocks(openmetrics=openmetrics)
    assert blocks.add(LEVEL[:1], [""], [value]) == blocks.series == 1
    assert samples(parse(blocks.text())) == [("size", {}, value)]


@formats
def test_a_level_is_one_block_a_metric_with_its_kind(openmetrics, parse):
    blocks = Blocks(openmetrics=openmetrics)
    blocks.add(LEVEL, ['group="x"', 'group="y"'], [3, 4])
    families = parse(blocks.text())
    kinds = {family.name: (family.type, family.documentation) for family in families}
    assert kinds == {
        "size": ("gauge", "How big."),
        "size_state": ("gauge", "Which."),
        "seen": ("counter", "How often."),
        **(
            {"size_owner": ("info", "Whose.")}
            if openmetrics
            else {"size_owner_info": ("gauge", "Whose.")}
        ),
    }
    assert ("size_state", {"group": "y", "state": "b"}, 4) in samples(families)
    assert ("seen_total", {"group": "x"}, 3) in samples(families)
    assert blocks.series == len(samples(families)) == 10


@formats
def test_what_is_not_known_makes_no_series_and_no_empty_block(openmetrics, parse):
    blocks = Blocks(openmetrics=openmetrics)
    assert blocks.add(LEVEL[:1], ['group="x"'], [None]) == 0
    assert blocks.text() == ""


def test_a_counter_named_as_a_gauge_is_of_unknown_type_in_openmetrics():
    level = (
        Metric("dead", GAUGE, "Now.", lambda number: number),
        Metric("dead_total", COUNTER, "Ever.", lambda number: number),
    )
    blocks = Blocks(openmetrics=True)
    blocks.add(level, [""], [2])
    families = list(openmetrics_families(blocks.text() + "# EOF\n"))
    assert [(f.name, f.type) for f in families] == [("dead", "gauge"), ("dead_total", "unknown")]


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
    found = read(metrics_of(second, Detail.TOPIC, lost=LostTotals().after(first).after(second)))
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
