"""Locks, offsets and members: the tables behind the answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.protocol.heartbeat import ConsumerData, Subscription
from orderly.testing.fake.state import (
    LOCK_LEASE,
    MEMBER_SILENCE,
    ConsumerOffsetTable,
    LockTable,
    MemberTable,
    OnlineMember,
)

QUEUE = MessageQueue("t", "broker-a", 0)
OTHER = MessageQueue("t", "broker-a", 1)


class TestLocks:
    def test_a_lock_lasts_exactly_its_lease(self):
        table = LockTable()
        table.lock("g", "one", [QUEUE], 0.0)
        assert table.lock("g", "two", [QUEUE], LOCK_LEASE) == []
        assert table.lock("g", "two", [QUEUE], LOCK_LEASE + 0.001) == [QUEUE]

    def test_each_renewal_begins_it_anew(self):
        table = LockTable()
        for now in (0.0, 50.0, 100.0):
            assert table.lock("g", "one", [QUEUE], now) == [QUEUE]
        assert table.lock("g", "two", [QUEUE], 160.0) == []

    def test_an_expired_lock_is_its_owners_until_somebody_takes_it(self):
        table = LockTable()
        table.lock("g", "one", [QUEUE], 0.0)
        assert not table.any_live("g", LOCK_LEASE + 1)
        assert table.lock("g", "one", [QUEUE], LOCK_LEASE + 1) == [QUEUE]
        assert table.any_live("g", LOCK_LEASE + 1)

    def test_groups_and_brokers_do_not_see_each_other(self):
        table = LockTable()
        table.lock("g", "one", [QUEUE], 0.0)
        elsewhere = MessageQueue("t", "broker-b", 0)
        assert table.lock("h", "two", [QUEUE], 0.0) == [QUEUE]
        assert table.lock("g", "two", [QUEUE, OTHER, elsewhere], 0.0) == [OTHER, elsewhere]

    def test_only_the_owner_unlocks(self):
        table = LockTable()
        table.lock("g", "one", [QUEUE], 0.0)
        table.unlock("g", "two", [QUEUE, OTHER])
        assert table.any_live("g", 0.0)
        table.unlock("g", "one", [QUEUE])
        assert not table.any_live("g", 0.0)


class TestOffsets:
    @given(st.lists(st.tuples(st.sampled_from(["commit", "reset", "pull"]), st.integers(-5, 9))))
    def test_a_reset_holds_until_it_is_pulled(self, steps):
        offsets = ConsumerOffsetTable()
        stored, pending = None, None
        for step, value in steps:
            if step == "reset":
                offsets.reset("g", "t", 0, value)
                stored = pending = value
            elif step == "pull":
                assert offsets.take_reset("g", "t", 0) == pending
                pending = None
            else:
                assert offsets.commit("g", "t", 0, value) == (pending is None)
                stored = value if pending is None else stored
            assert offsets.stored("g", "t", 0) == stored

    def test_queues_topics_and_groups_are_apart(self):
        offsets = ConsumerOffsetTable()
        offsets.commit("g", "t", 0, 5)
        assert [offsets.stored(*key) for key in (("g", "t", 1), ("g", "u", 0), ("h", "t", 0))] == (
            [None] * 3
        )
        assert (offsets.topics_of("g"), offsets.groups_of("t")) == ({"t"}, {"g"})

    def test_a_topic_is_forgotten_with_its_resets(self):
        offsets = ConsumerOffsetTable()
        offsets.reset("g", "t", 0, 5)
        offsets.commit("g", "u", 0, 6)
        offsets.note_pulled("g", "t", 0, 7)
        offsets.forget("t")
        assert offsets.stored("g", "t", 0) is None
        assert offsets.take_reset("g", "t", 0) is None
        assert offsets.pulled("g", "t", 0) == 0
        assert offsets.stored("g", "u", 0) == 6

    def test_a_killed_broker_has_what_was_flushed(self):
        offsets = ConsumerOffsetTable()
        told = []
        for moment in (0.0, 9.9, 10.0, 14.9, 15.1, 26.0):
            offsets.elapse(moment)
            offsets.commit("g", "t", 0, int(moment * 10))
            on_disk = offsets._on_disk.get(("g", "t"), {})
            told.append(on_disk.get(0))
        assert told == [None, None, 99, 99, 149, 151]
        offsets.elapse(29.9)
        offsets.lose()
        assert offsets.stored("g", "t", 0) == 151
        offsets.commit("g", "t", 0, 7)
        offsets.lose()
        assert offsets.stored("g", "t", 0) == 151

    def test_the_first_flush_is_late(self):
        offsets = ConsumerOffsetTable()
        offsets.elapse(100.0)
        offsets.boot()
        offsets.elapse(106.0)
        offsets.commit("g", "t", 0, 7)
        offsets.elapse(115.9)
        offsets.lose()
        assert offsets.stored("g", "t", 0) is None

    def test_a_clock_put_back_does_not_end_the_flushes(self):
        offsets = ConsumerOffsetTable()
        offsets.elapse(1000.0)
        offsets.elapse(0.0)
        offsets.commit("g", "t", 0, 7)
        offsets.elapse(10.0)
        offsets.lose()
        assert offsets.stored("g", "t", 0) == 7

    def test_a_mark_of_a_reset_is_memory_only(self):
        offsets = ConsumerOffsetTable()
        offsets.reset("g", "t", 0, 5)
        offsets.note_pulled("g", "t", 0, 7)
        offsets.flush()
        offsets.boot()
        assert offsets.stored("g", "t", 0) == 5
        assert offsets.take_reset("g", "t", 0) is None
        assert offsets.pulled("g", "t", 0) == 0


def member(connection_id, client_id="c", seen=0.0):
    return OnlineMember(connection_id, client_id, "127.0.0.1:1", 3, 513, seen)


def subscribed(*topics, version=1, expression="*"):
    data = tuple(Subscription(t, expression, version=version) for t in topics)
    return ConsumerData("g", data)


class TestMembers:
    def test_who_is_told(self):
        members = MemberTable()
        assert members.register(subscribed("t"), member(1)) == {1}
        assert members.register(subscribed("t"), member(1)) == set()
        assert members.register(subscribed("t"), member(2)) == {1, 2}
        assert members.register(subscribed("t", "u"), member(2)) == {1, 2}
        assert members.register(subscribed("t"), member(1)) == {1, 2}
        assert members.remove("g", 1) == {2}
        assert members.remove("g", 1) == set()
        assert members.remove("g", 2) == set()
        assert members.group("g") is None

    def test_the_newer_expression_wins_and_nobody_is_told(self):
        members = MemberTable()
        members.register(subscribed("t", version=5, expression="a"), member(1))
        assert members.register(subscribed("t", version=4, expression="b"), member(1)) == set()
        assert members.group("g").subscriptions["t"].expression == "a"
        members.register(subscribed("t", version=6, expression="b"), member(1))
        assert members.group("g").subscriptions["t"].expression == "b"

    def test_the_silent_are_found(self):
        members = MemberTable()
        assert members.next_silence() is None
        members.register(subscribed("t"), member(1, seen=10.0))
        members.register(subscribed("t"), member(2, seen=20.0))
        assert members.next_silence() == 10.0 + MEMBER_SILENCE
        assert members.silent(10.0 + MEMBER_SILENCE) == [("g", 1)]
        members.register(subscribed("t"), member(1, seen=30.0))
        assert members.silent(10.0 + MEMBER_SILENCE) == []
