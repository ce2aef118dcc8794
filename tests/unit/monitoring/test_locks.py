"""Who holds what, as members report it: what nobody said is not known."""

from orderly.monitoring.backlog.reading import GroupReading
from orderly.monitoring.locks import locks, silent
from orderly.protocol.running_info import QueueInfo, RunningInfo
from orderly.protocol.stats_bodies import ConsumerConnection, ConsumerConnections
from tests.support.scans import queue, scan_of


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
