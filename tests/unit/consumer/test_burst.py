"""Several calls for one taking: nothing is handed out twice, left out, or counted too early."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.clock import now
from orderly.consumer.handler_caller import Called
from orderly.consumer.session import HeldQueue
from orderly.consumer.statistics import ReturnType, Statistics
from orderly.consumer.workers import LONGEST_BURST, QUICK_BURST, Burst
from orderly.ordering.context import ConsumeContext
from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.results import (
    FAILURE,
    PLAIN_SUCCESS,
    Disposition,
    Effect,
)
from orderly.protocol.heartbeat import Subscription
from tests.support.messages import QUEUE, message


def held_queue(count, *, by_key=False, keys=None):
    owned = OwnedQueue(
        QUEUE, 0, Lease(now(), 3600.0), max_messages=1000, max_bytes=10**6, by_key=by_key
    )
    owned.pulled([message(offset) for offset in range(count)], count, keys=keys)
    assert owned.request_run()
    return HeldQueue(owned, Subscription("orders"), None)


def outcome(effect=PLAIN_SUCCESS, seconds=0.0):
    called = Called(None, (message(0),), ConsumeContext(QUEUE), now() - seconds)
    called.effect, called.seconds = effect, seconds
    return called


def take(held, size):
    with held.lock:
        return held.owned.take(size, now(), held.burst)


def finish(held, batch, called):
    """As `Finisher` does it, without a wait."""
    with held.lock:
        held.owned.finish(batch, called.effect.disposition, now())


@given(
    count=st.integers(1, 60),
    size=st.integers(1, 3),
    stretch=st.integers(1, LONGEST_BURST),
    ends=st.lists(st.sampled_from(["well", "slowly", "badly"]), max_size=80),
)
def test_a_message_comes_again_only_if_its_own_call_failed(count, size, stretch, ends):
    held, ends = held_queue(count), deque(ends)
    held.burst = stretch
    waiting, attempts = deque(range(count)), dict.fromkeys(range(count), 0)
    while (batch := take(held, size)) is not None:
        with Burst(held, batch, size, Statistics()) as calls:
            while messages := calls.next_call():
                offsets = [m.queue_offset for m in messages]
                assert offsets == list(waiting)[: len(offsets)], "in order, none left out"
                assert [m.reconsume_times for m in messages] == [attempts[o] for o in offsets]
                with held.lock:
                    assert held.owned.offset == offsets[0], "what is done counts for all at once"
                end = ends.popleft() if ends else "well"
                if end == "badly":
                    calls.called = outcome(FAILURE)
                    attempts |= {offset: attempts[offset] + 1 for offset in offsets}
                else:
                    calls.called = outcome(seconds=QUICK_BURST if end == "slowly" else 0.0)
                    for _ in offsets:
                        waiting.popleft()
        finish(held, batch, calls.outcome)
        assert held.owned.offset == (waiting[0] if waiting else count)
        assert not held.bursts
    assert not waiting
    assert (held.owned.messages.count, held.owned.messages.size, len(held.owned.messages)) == (
        0,
        0,
        0,
    )


def test_quick_calls_take_more_at_once_and_a_slow_or_failed_one_takes_one():
    held, taken = held_queue(200), []
    for _ in range(6):
        batch = take(held, 1)
        taken.append(len(batch.messages))
        with Burst(held, batch, 1, Statistics()) as calls:
            while calls.next_call():
                calls.called = outcome()
        finish(held, batch, calls.outcome)
    assert taken == [1, 2, 4, 8, 16, 16]
    for spoiled in (outcome(seconds=QUICK_BURST), outcome(FAILURE)):
        held.burst = LONGEST_BURST
        batch = take(held, 1)
        with Burst(held, batch, 1, Statistics()) as calls:
            assert calls.next_call()
            calls.called = spoiled
            assert not calls.next_call()
        finish(held, batch, calls.outcome)
        assert held.burst == 1


def test_its_calls_are_counted_as_one_by_one():
    held, statistics = held_queue(10), Statistics()
    held.burst = 8
    batch = take(held, 1)
    slow = outcome(seconds=90.0)
    slow.kind = ReturnType.TIME_OUT
    with Burst(held, batch, 1, statistics) as calls:
        for each in (outcome(seconds=0.0001), outcome(seconds=0.0003), slow):
            assert calls.next_call()
            calls.called = each
        assert not calls.next_call()
    found = statistics.of("orders", now())
    assert found.calls[ReturnType.SUCCESS] == 2
    assert found.calls[ReturnType.TIME_OUT] == 1
    assert found.consume_seconds == pytest.approx(90.0004 / 3)
    assert found.consumed_per_second == pytest.approx(3 / 10)


@pytest.mark.parametrize("stop", ["pause", "pause the key", "drop", "lose"])
def test_a_queue_that_is_stopped_hands_out_nothing_more(stop):
    held = held_queue(10)
    held.burst = 8
    batch = take(held, 1)
    with Burst(held, batch, 1, Statistics()) as calls:
        for _ in range(3):
            assert calls.next_call()
            calls.called = outcome()
        stops = {
            "pause": held.owned.pause,
            "pause the key": lambda: held.owned.pause_key(None),
            "drop": lambda: held.owned.drop(Drop.REVOKED),
            "lose": held.owned.lease.lose,
        }
        stops[stop]()
        assert not calls.next_call()
    finish(held, batch, calls.outcome)
    assert held.owned.offset == 3, "what was handled while it was ours counts"
    assert held.owned.idle


def test_after_a_reset_nothing_of_a_stretch_counts():
    held = held_queue(10)
    held.burst = 8
    batch = take(held, 1)
    with Burst(held, batch, 1, Statistics()) as calls:
        for _ in range(3):
            assert calls.next_call()
            calls.called = outcome()
        with held.lock:
            assert held.owned.restart_at(7, Drop.MOVED)
        assert not calls.next_call()
    finish(held, batch, calls.outcome)
    assert held.owned.offset == 7
    assert held.owned.idle


def test_an_interrupted_stretch_keeps_what_was_done():
    held = held_queue(10)
    held.burst = 8
    batch = take(held, 1)

    def interrupted():
        with Burst(held, batch, 1, Statistics()) as calls:
            for _ in range(3):
                assert calls.next_call()
                calls.called = outcome()
            assert calls.next_call(), "the fourth, which is cancelled"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with held.lock:  # as `Engine._failed` puts the rest back
        held.owned.finish(batch, Disposition.ROLLBACK, now(), wait=0.0)
        held.owned.wake(now())
    assert held.owned.offset == 3
    batch = take(held, 1)
    assert [m.queue_offset for m in batch.messages] == [3]
    assert batch.messages[0].reconsume_times == 0
    assert held.burst == 1


def test_a_plain_success_that_names_messages_is_applied_by_itself():
    held = held_queue(6)
    held.burst = 6
    batch = take(held, 1)
    with Burst(held, batch, 1, Statistics()) as calls:
        for number in range(3):
            (handed,) = calls.next_call()
            calls.called = outcome()
            if number == 2:
                calls.called.context.done(handed)
        assert not calls.next_call()
    assert [m.queue_offset for m in batch.messages] == [2], "left for the finisher to look at"


KEPT = Effect(Disposition.KEEP)


def has_turn(held, effect):
    """One turn of a run, each call of which comes to this; returns how many messages it took."""
    batch = take(held, 1)
    taken = len(batch.messages)
    with Burst(held, batch, 1, Statistics()) as calls:
        while calls.next_call():
            calls.called = outcome(effect)
    finish(held, batch, calls.outcome)
    return taken


@pytest.mark.parametrize("last", [KEPT, FAILURE, Effect(Disposition.ROLLBACK)])
def test_a_burst_commits_nothing_that_was_kept_however_quick_other_keys_are(last):
    held = held_queue(12, by_key=True, keys=["a", "b"] * 6)
    has_turn(held, KEPT)
    has_turn(held, PLAIN_SUCCESS)
    assert held.burst == 2, "b was quick, and went well"
    assert has_turn(held, last) == 1, "of a lane that has something in hand"
    assert held.owned.offset == 0, "nobody committed a's first"
    assert held.owned.finished_ahead == ((1, 2),)


def test_a_burst_that_is_cancelled_commits_nothing_that_was_kept():
    held = held_queue(12, by_key=True, keys=["a", "b"] * 6)
    has_turn(held, KEPT)
    has_turn(held, PLAIN_SUCCESS)
    batch = take(held, 1)

    def interrupted():
        with Burst(held, batch, 1, Statistics()) as calls:
            assert calls.next_call()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with held.lock:  # as `Engine._failed` does it
        held.owned.finish(batch, Disposition.ROLLBACK, now(), wait=0.0)
    assert held.owned.offset == 0
    assert held.owned.messages.in_hand == 0, "all of it comes again"


def test_by_key_the_lanes_stay_apart():
    held = held_queue(12, by_key=True, keys=["a", "b"] * 6)
    held.burst = 4
    first, second = take(held, 1), take(held, 1)
    assert [m.queue_offset for m in first.messages] == [0, 2, 4, 6]
    assert [m.queue_offset for m in second.messages] == [1, 3, 5, 7]
    with Burst(held, first, 1, Statistics()) as one, Burst(held, second, 1, Statistics()) as two:
        for _ in range(2):
            assert one.next_call()
            one.called = outcome()
        assert one.next_call()
        assert two.next_call()
        with held.lock:
            assert held.owned.offset == 1, "b's first is not done"
        two.called = outcome()
        assert two.next_call()
        with held.lock:
            assert held.owned.offset == 3
            assert held.owned.finished_ahead == ()
        two.called = one.called = outcome(FAILURE)
        assert not two.next_call()
        assert not one.next_call()
    for batch in (first, second):
        with held.lock:
            held.owned.finish(batch, Disposition.PUT_BACK, now())
    assert held.owned.messages.unfinished() == [3, 4, 5, 6, 7, 8, 9, 10, 11]
