"""What a collector remembers from scan to scan, and for how long."""

from orderly.monitoring.collecting.memory import FORGET_AFTER, Memory
from orderly.monitoring.collecting.parts import Part

PART = Part("a", committed={("pay", "orders"): {0: 1}}, pairs=(("pay", "orders"),), configs={})


def test_a_remembered_part_has_no_offsets():
    memory = Memory()
    memory.learn(PART, 0.0)
    assert memory.recall("a").committed is None
    assert memory.recall("a").pairs == PART.pairs
    assert memory.recall("b") == Part("b")


def test_a_broker_is_missed_until_it_counts_as_removed():
    memory = Memory()
    memory.learn(PART, 0.0)
    assert memory.missed({"a"}, 10.0) == {}
    assert memory.missed((), 10.0) == {"a": 10.0}
    assert memory.missed((), FORGET_AFTER + 1.0) == {}
    assert memory.recall("a") == Part("a")


def test_minima_and_retention_grow_old():
    memory = Memory()
    memory.keep_minima("orders", "a", {0: 5}, 100.0)
    memory.keep_retention("a", 60.0, 100.0)
    assert memory.minima("orders", "a", 110.0) == {0: 5}
    assert memory.minima("orders", "a", 10_000.0) is None
    assert not memory.retention_due("a", 110.0)
    assert memory.retention_due("a", 10_000.0)
    assert memory.retention("a") == 60.0


def test_a_broker_that_does_not_tell_its_retention_is_not_asked_at_every_scan():
    memory = Memory()
    assert memory.retention_due("a", 0.0)
    memory.keep_retention("a", None, 0.0)
    assert not memory.retention_due("a", 1.0)
    assert memory.retention("a") is None


def test_minima_of_vanished_topics_are_dropped():
    memory = Memory()
    memory.keep_minima("orders", "a", {0: 5}, 0.0)
    memory.forget_topics({"parcels"})
    assert memory.minima("orders", "a", 0.0) is None
