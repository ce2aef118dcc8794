"""What-if equals really selecting, message for message."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.model import Message
from orderly.monitoring.skew.what_if import Trial, at_work, queues_if, worth_telling
from orderly.selectors import KEYED, Layout, hash_mod, numeric_mod, parse_layout, queues_of

TWO = parse_layout("broker-a:3;broker-b:1")
KEYS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
NUMBERS = st.integers(-(2**63), 2**63 - 1)


def tried(selector, queues, keys, now):
    trial = Trial(selector, queues)
    for key in keys:
        trial.add(str(key), now(key))
    return trial.outcome()


def really(selector, queues, keys):
    return [selector(queues, Message("T", b"x", sharding_key=key), key) for key in keys]


@given(st.lists(st.one_of(KEYS, NUMBERS), min_size=1), st.integers(1, 40), st.integers(1, 40))
def test_hash_mod(keys, before, after):
    old, new = queues_if(TWO, "T", before), queues_if(TWO, "T", after)
    outcome = tried("hash_mod", new, keys, lambda key: hash_mod(old, None, key))
    check(outcome, really(hash_mod, new, keys), really(hash_mod, old, keys), keys)


@given(st.lists(NUMBERS, min_size=1), st.integers(1, 40), st.integers(1, 40))
def test_numeric_mod(keys, before, after):
    old, new = queues_if(TWO, "T", before), queues_if(TWO, "T", after)
    outcome = tried("numeric_mod", new, keys, lambda key: numeric_mod(old, None, key))
    check(outcome, really(numeric_mod, new, keys), really(numeric_mod, old, keys), keys)


def check(outcome, new, old, keys):
    loads = Counter(new)
    assert outcome.skew.top_share == pytest.approx(max(loads.values()) / len(keys))
    assert loads[outcome.skew.busiest] == max(loads.values())
    mean = len(keys) / outcome.queues
    assert outcome.skew.max_over_mean == pytest.approx(max(loads.values()) / mean)
    moved = sum(a != b for a, b in zip(new, old, strict=True))
    assert outcome.moved == pytest.approx(moved / len(keys))
    assert [outcome.place(str(key)) for key in keys] == new


@given(st.lists(NUMBERS), KEYS)
def test_numeric_mod_is_told_of_only_if_it_takes_every_key(numbers, key):
    queues = queues_of(TWO, "T")
    try:
        numeric_mod(queues, None, int(key))
        is_number = str(int(key)) == key
    except (ConfigError, ValueError):
        is_number = False
    outcome = tried("numeric_mod", queues, [*numbers, key], lambda _: queues[0])
    assert (outcome is not None) == is_number


@pytest.mark.parametrize("key", ["007", "+1", " 1", "1_0", "1.0", "", "-", "٣", str(2**63)])
def test_a_text_no_producer_writes_for_a_number_is_none(key):
    queues = queues_of(TWO, "T")
    assert tried("numeric_mod", queues, [key], lambda _: queues[0]) is None


@given(st.integers(1, 100))
def test_queues_are_spread_over_the_same_brokers(number):
    queues = queues_if(TWO, "T", number)
    assert len(set(queues)) == number
    counts = Counter(queue.broker_name for queue in queues)
    if number != 4:
        assert max(counts.values()) - min(counts["broker-a"], counts["broker-b"]) <= 1
    else:
        assert queues == queues_of(TWO, "T"), "as they are"


def test_nothing_tried_has_no_figures():
    outcome = Trial("hash_mod", queues_of(Layout((("a", 2),)), "T")).outcome()
    assert (outcome.skew, outcome.moved) == (None, 0.0)


@pytest.mark.parametrize("name", ["proxy_hash", "cpp_hash_mod", "go_hash_mod"])
@given(st.lists(KEYS, min_size=1), st.integers(1, 40), st.integers(1, 40))
def test_the_others(name, keys, before, after):
    selector = KEYED[name].selector
    old, new = queues_if(TWO, "T", before), queues_if(TWO, "T", after)
    outcome = tried(name, new, keys, lambda key: selector(old, None, key))
    check(outcome, really(selector, new, keys), really(selector, old, keys), keys)


@dataclass
class Tried:
    selector: str
    moved: float | None


def test_another_language_is_at_work_only_if_it_explains_nearly_all():
    java, go = Tried("hash_mod", 0.5), Tried("go_hash_mod", 0.05)
    assert at_work([java, go]) is go
    assert at_work([java, Tried("go_hash_mod", 0.06)]) is java
    assert at_work([Tried("go_hash_mod", 0.06)]) is None


def test_of_equals_the_more_usual_one_is_at_work():
    names = ["cpp_hash_mod", "go_hash_mod", "hash_mod", "numeric_mod", "proxy_hash"]
    assert at_work(Tried(name, 0.0) for name in names).selector == "hash_mod"


def test_a_selector_that_is_neither_usual_nor_at_work_is_not_told_of():
    every = [Tried(name, 0.0) for name in KEYED]
    assert [it.selector for it in worth_telling(every, every[-1])] == [
        "hash_mod", "numeric_mod", "go_hash_mod",
    ]  # fmt: skip
    assert [it.selector for it in worth_telling(every, None)] == ["hash_mod", "numeric_mod"]
