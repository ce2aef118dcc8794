from dataclasses import replace

import pytest

from orderly.foreign_text import hidden
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.skew.keys import HotKey
from orderly.monitoring.skew.what_if import Trial
from orderly.selectors import parse_layout
from orderly.spark.jobs.origin import origin
from orderly.spark.jobs.skew.counted import Counted, QueueLoad
from orderly.spark.jobs.skew.judging import findings
from orderly.spark.jobs.skew.report import report
from orderly.spark.jobs.skew.trying import plan, tried
from tests.unit.spark.jobs.skew.test_trying import batch

TOPIC = "orders"
LAYOUT = parse_layout("a:4")
QUEUES = [MessageQueue(TOPIC, "a", number) for number in range(4)]


def counted(keys, keyless=0, where=None):
    """Counts of a topic whose keys ({key: messages}) lie where hash_mod puts them."""
    place = where or Trial("hash_mod", QUEUES).place
    rows = [(key, place(key), n) for key, n in keys.items()]
    loads = {queue: sum(n for _, at, n in rows if at == queue) for queue in QUEUES}
    found = {}
    for told in tried([batch(rows)], plan(LAYOUT, TOPIC, QUEUES, range(1, 17))):
        for row in told.to_pylist():
            if row["queues"]:
                key = row["selector"], row["queues"]
                messages, moved = found.get(key, ([], 0))
                found[key] = ([*messages, row["messages"]], moved + row["moved"])
    sizes = list(keys.values())
    return Counted(
        topic=TOPIC,
        layout=LAYOUT,
        queues={q: QueueLoad(n + keyless * (q == QUEUES[0]), n, 0) for q, n in loads.items()},
        keys=len(keys),
        splits=0,
        head=[
            HotKey(key, n, n, at) for key, at, n in sorted(rows, key=lambda row: -row[2])
        ],
        sizes={size: sizes.count(size) for size in sizes},
        tried=found if keys else {},
    )  # fmt: skip


EVEN = {f"customer-{n}": 10 for n in range(1000)}
HOT = EVEN | {"whale": 5000}


def test_an_even_topic_is_in_order_and_stays_as_it_is():
    it = findings(counted(EVEN), "", redact=False)
    assert it.verdict is Verdict.OK
    assert (it.recommendation.queues, it.recommendation.change) == (4, False)
    assert "no key and no queue stands out" in it.headline
    assert it.gini == 0


def test_a_hot_key_is_told_with_the_bound_that_no_selector_beats():
    it = findings(counted(HOT), "", redact=False)
    assert it.verdict is Verdict.WARNING
    assert it.hot
    assert it.counted.top_share == pytest.approx(1 / 3)
    assert "one key alone has 33 %" in it.headline
    ordered = [each for each in it.what_if if each.keeps_order]
    assert all(each.bound == pytest.approx(max(1, each.queues / 3)) for each in ordered)
    assert all(each.skew.max_over_mean >= each.bound - 1e-9 for each in ordered)


def test_pinning_is_never_worse_than_the_selector_and_never_beats_the_bound():
    for each in findings(counted(HOT), "", redact=False).what_if:
        if each.pinned is not None:
            assert each.bound - 1e-9 <= each.pinned <= each.skew.max_over_mean + 1e-9


def test_every_selector_is_there_with_every_number_of_queues():
    names = {
        (each.selector, each.queues) for each in findings(counted(EVEN), "", redact=False).what_if
    }
    assert names == {
        (name, number)
        for name in ("hash_mod", "single_queue", "round_robin")
        for number in range(1, 17)
    }
    numeric = findings(counted({str(n): 1 for n in range(500)}), "", redact=False)
    assert ("numeric_mod", 7) in {(each.selector, each.queues) for each in numeric.what_if}


def test_single_queue_and_round_robin_are_what_they_are():
    it = findings(counted(EVEN), "", redact=False)
    by = {(each.selector, each.queues): each for each in it.what_if}
    assert by["single_queue", 8].skew.max_over_mean == 8
    assert by["round_robin", 8].skew.max_over_mean == 1
    assert not by["round_robin", 8].keeps_order
    in_first = it.counted.queues[QUEUES[0]].keyed / it.counted.keyed
    assert by["single_queue", 8].moved == pytest.approx(1 - in_first)


def test_keys_that_fall_unevenly_get_a_number_that_helps():
    place = Trial("hash_mod", QUEUES).place
    crowd = [f"k{n}" for n in range(400) if place(f"k{n}") == QUEUES[2]]
    it = findings(counted(dict.fromkeys(crowd, 10)), "", redact=False)
    assert it.verdict is Verdict.WARNING
    assert it.recommendation.change
    best = next(
        each for each in it.what_if
        if (each.selector, each.queues) == ("hash_mod", it.recommendation.queues)
    )  # fmt: skip
    assert best.skew.top_share <= 0.8
    assert f"Take {it.recommendation.queues} queues" in it.advice[0]


def test_the_advice_is_that_of_the_sample_and_names_the_recommended_number_alone():
    said = " ".join(findings(counted(HOT), "queue", redact=False).advice)
    assert "Key 'whale' alone has" not in said  # it is escaped, not repr
    assert "Key whale alone has 33 %" in said
    assert "--sample" not in said


def test_hashes_stand_for_keys_everywhere():
    it = findings(counted(HOT), "", redact=True)
    assert "whale" not in str(it.figures()) + str(it.advice) + it.headline
    assert it.counted.head[0].key == hidden("whale")


def test_messages_without_keys_count_as_load_alone():
    it = findings(counted(EVEN, keyless=30_000), "", redact=False)
    assert (it.counted.messages, it.counted.keyed) == (40_000, 10_000)
    assert it.load.max_over_mean > 3
    assert it.verdict is Verdict.WARNING
    assert it.now.skew.max_over_mean < 1.2


def test_without_keys_nothing_is_judged():
    it = findings(counted({}, keyless=50), "", redact=False)
    assert it.verdict is Verdict.UNKNOWN
    assert (it.now, it.recommendation, it.gini) == (None, None, None)
    assert "has a sharding key" in it.headline


def test_an_empty_topic_is_not_judged():
    it = findings(counted({}), "", redact=False)
    assert it.verdict is Verdict.UNKNOWN
    assert "no message" in it.headline


def test_a_plot_of_some_of_the_queues_says_so():
    many = {MessageQueue(TOPIC, "a", number): QueueLoad(1, 1, 0) for number in range(100)}
    some = findings(replace(counted(EVEN), queues=many), "", redact=False)
    assert "The first 64 of 100 queues." in str(report(some, origin("skew")))
    every = findings(counted(EVEN), "", redact=False)
    assert "The first" not in str(report(every, origin("skew")))
