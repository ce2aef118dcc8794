"""Who holds what, as members report it: what nobody said is not known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orderly.monitoring.backlog.reading import BrokerReading, GroupReading
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.locks import lock_report, locks, silent
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import QueueInfo, RunningInfo
from orderly.protocol.statistics import ConsumerConnection, ConsumerConnections
from tests.support.snapshots import queue, scan_of


def scan_with(running, online=("a", "b"), errors=None, read_at=900.0):
    members = tuple(ConsumerConnection(name, "", "JAVA", 1) for name in online)
    connections = ConsumerConnections(members, "", "CLUSTERING", "", {})
    infos = {name: RunningInfo({}, (), queues) for name, queues in running.items()}
    scan = scan_of({("g", "orders"): [(0, 0, 1), (0, 0, 1)], ("g", "%RETRY%g"): [(0, 0, 0)]})
    reading = GroupReading("g", read_at, connections, errors or {}, infos, 1000.0)
    return type(scan)(**{**{n: getattr(scan, n) for n in scan.__slots__}, "groups": {"g": reading}})


def held(**fields):
    return QueueInfo(**({"locked": True, "last_lock_time": 990.0} | fields))


def test_the_member_with_the_lock_owns_the_queue():
    first, second = locks(scan_with({"a": {queue(0): held()}, "b": {queue(1): held()}}), "g")
    assert (first.owner, first.locked, first.lock_age, first.claimants) == ("a", True, 10.0, ("a",))
    assert second.owner == "b"


def test_a_member_that_lost_the_lock_still_claims_the_queue():
    lost = held(locked=False)
    first, _ = locks(scan_with({"a": {queue(0): lost}, "b": {}}), "g")
    assert (first.owner, first.locked) == ("a", False)
    first, _ = locks(scan_with({"a": {queue(0): lost}, "b": {queue(0): held()}}), "g")
    assert (first.owner, first.locked, first.claimants) == ("b", True, ("a", "b"))


def test_of_two_with_the_lock_the_one_that_stays_then_the_later_owns_it():
    leaving = held(dropped=True, try_unlock_times=3, last_lock_time=999.0)
    first, _ = locks(scan_with({"a": {queue(0): leaving}, "b": {queue(0): held()}}), "g")
    assert (first.owner, first.dropped) == ("b", False)
    waiting = held(locked=False, last_lock_time=0.0)
    first, _ = locks(scan_with({"a": {queue(0): leaving}, "b": {queue(0): waiting}}), "g")
    assert (first.owner, first.claimants) == ("a", ("a", "b")), "it has the lock all the same"
    first, _ = locks(scan_with({"a": {queue(0): leaving}, "b": {}}), "g")
    assert (first.owner, first.failed_unlocks, first.dropped) == ("a", 3, True)


def test_nobody_has_it_only_if_everybody_said_so():
    assert [lock.locked for lock in locks(scan_with({"a": {}, "b": {}}), "g")] == [False, False]
    unsure = [
        scan_with({"a": {}}),
        scan_with({"a": {}, "b": {}}, errors={"broker-b": "away"}),
        scan_with({}, online=(), read_at=0.0),
    ]
    for scan in unsure:
        assert [lock.locked for lock in locks(scan, "g")] == [None, None]
    assert silent(unsure[0].groups["g"]) == ("b",)


def test_a_queue_that_was_never_locked_has_no_age():
    never = held(locked=False, last_lock_time=0.0)
    assert locks(scan_with({"a": {queue(0): never}, "b": {}}), "g")[0].lock_age is None


def test_queues_only_a_member_knows_are_shown_and_unknown_groups_have_none():
    found = locks(scan_with({"a": {queue(5): held()}, "b": {}}), "g")
    assert [lock.queue for lock in found] == [queue(0), queue(1), queue(5)]
    assert locks(scan_with({}), "nobody") == ()


ORDERED = {"PROP_CONSUMEORDERLY": "true"}
SUBSCRIBED = {"orders": Subscription("orders")}


def held_by(**fields):
    return QueueInfo(**({"locked": True, "last_lock_time": 990.0} | fields))


def report(running, online=("a", "b"), properties=ORDERED, model="CLUSTERING", **reading):
    """Of a group whose members tell that they have the queues of `running`."""
    members = tuple(ConsumerConnection(name, "", "JAVA", 1) for name in online)
    connections = ConsumerConnections(members, "", model, "", SUBSCRIBED) if members else None
    infos = {name: RunningInfo(properties, (), queues) for name, queues in running.items()}
    found = GroupReading("g", 900.0, connections, reading.pop("errors", {}), infos, 1000.0)
    scan = scan_of({("g", "orders"): [(0, 0, 1), (0, 0, 1)]})
    return lock_report(replace(scan, groups={"g": found}, **reading), "g")


BOTH = {"a": {queue(0): held_by()}, "b": {queue(1): held_by()}}


def test_all_is_well():
    found = report(BOTH)
    assert found.verdict is Verdict.OK
    assert [(it.lock.owner, it.why) for it in found.locks] == [("a", ""), ("b", "")]
    assert (found.members, found.idle, found.silent) == (("a", "b"), (), ())
    assert found.takes_locks is True


@pytest.mark.parametrize(
    ("running", "why"),
    [
        ({"a": {queue(0): held_by(locked=False)}}, "does not have the lock"),
        (
            {"a": {}},
            "no member claims it: it is allocated to no member, or a member that left or died",
        ),
        (
            {"a": {queue(0): held_by()}, "b": {queue(0): held_by(), queue(1): held_by()}},
            "several members",
        ),
        (
            {"a": {queue(0): held_by(last_lock_time=959.0)}},
            "not renewed for 41 s; if it is not: free within 19 s",
        ),
        (
            {"a": {queue(0): held_by(dropped=True, try_unlock_times=2)}},
            "giving it up; 2 times with",
        ),
    ],
)
def test_a_queue_that_is_not_held_by_one(running, why):
    found = report({"b": {queue(1): held_by()}} | running)
    assert found.verdict is Verdict.WARNING
    assert why in found.locks[0].why
    assert found.locks[1].verdict is Verdict.OK


@pytest.mark.parametrize(
    ("holds", "within"),
    [
        ({}, 60.0),
        ({queue(0): held_by(last_lock_time=959.0)}, 19.0),
        ({queue(0): held_by(last_lock_time=900.0)}, 0.0),
        ({queue(0): held_by()}, None),
        ({queue(0): held_by(dropped=True)}, None),
        ({queue(0): held_by(locked=False)}, None),
    ],
)
def test_until_when_a_queue_waits_at_the_most(holds, within):
    found = report({"a": holds, "b": {queue(1): held_by()}})
    assert [it.free_within for it in found.locks] == [within, None]


def test_a_lock_is_renewed_every_20_s_and_may_be_late_once():
    late = {"a": {queue(0): held_by(last_lock_time=961.0)}, "b": {queue(1): held_by()}}
    assert report(late).verdict is Verdict.OK


def test_what_a_silent_member_may_have_is_not_known():
    found = report({"a": {queue(0): held_by(locked=False)}})
    assert found.silent == ("b",)
    assert [it.verdict for it in found.locks] == [Verdict.WARNING, Verdict.UNKNOWN]
    assert found.verdict is Verdict.UNKNOWN, "it wins over what is wrong"
    assert found.locks[1].why.endswith("if that died: free within 60 s")
    everything = report({"a": {queue(0): held_by(), queue(1): held_by()}})
    assert (everything.verdict, everything.silent) == (Verdict.OK, ("b",)), "all are accounted for"


def test_members_without_a_queue():
    found = report(BOTH | {"c": {}}, online=("a", "b", "c"))
    assert (found.idle, found.verdict) == (("c",), Verdict.OK)


def test_nobody_online():
    found = report({}, online=())
    assert (found.members, found.verdict) == ((), Verdict.OK), "nobody waits for a lock"
    assert {it.why for it in found.locks} == {""}
    assert {it.lock.locked for it in found.locks} == {False}
    assert {it.free_within for it in found.locks} == {60.0}


def test_a_broker_that_did_not_answer():
    away = {"broker-b": BrokerReading("broker-b", "timed out")}
    found = report(BOTH, brokers=away)
    assert (found.errors, found.verdict) == ({"broker-b": "timed out"}, Verdict.UNKNOWN)
    found = report(BOTH, errors={"broker-b": "refused"})
    assert (found.errors, found.verdict) == ({"broker-b": "refused"}, Verdict.UNKNOWN)


@pytest.mark.parametrize(
    "kind", [{"properties": {"PROP_CONSUMEORDERLY": "false"}}, {"model": "BROADCASTING"}]
)
def test_a_group_that_takes_no_locks_misses_none(kind):
    unlocked = {"a": {queue(0): held_by(locked=False)}, "b": {}}
    found = report(unlocked, **kind)
    assert (found.takes_locks, found.verdict) == (False, Verdict.OK)


def test_offsets_of_a_topic_no_longer_consumed_are_no_trouble():
    members = (ConsumerConnection("a", "", "JAVA", 1),)
    connections = ConsumerConnections(members, "", "CLUSTERING", "", SUBSCRIBED)
    infos = {"a": RunningInfo(ORDERED, (), {queue(0): held_by()})}
    reading = GroupReading("g", 900.0, connections, {}, infos, 1000.0)
    scan = scan_of({("g", "orders"): [(0, 0, 1)], ("g", "old"): [(0, 0, 1)]})
    found = lock_report(replace(scan, groups={"g": reading}), "g")
    assert [(it.lock.queue.topic, it.lock.owner, it.why) for it in found.locks] == [
        ("old", None, ""),
        ("orders", "a", ""),
    ]
    assert found.verdict is Verdict.OK


def test_a_group_nobody_asked_about_is_not_known():
    found = lock_report(scan_of({("g", "orders"): [(0, 0, 1)]}), "g")
    assert (found.members, found.verdict) == (None, Verdict.UNKNOWN)
    assert lock_report(scan_of({}), "g").verdict is Verdict.UNKNOWN
