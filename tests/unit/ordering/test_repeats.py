"""What repeats something in one queue: by marks alone, and never before the first is finished."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.owned_queue import Drop, Lease, OwnedQueue
from orderly.ordering.repeats import LATE, MOST, Repeats, copies_of, is_marked, sent_again
from orderly.ordering.results import Disposition
from orderly.protocol.properties import ATTEMPT, mark
from tests.support.messages import QUEUE, message

NONE = {}


def send(offset, number=0, attempt=1, *, key="a", body=b"7", born=1.0, stored=2.0):
    marks = {ATTEMPT: mark(attempt, int(born * 1000))} if attempt > 1 else {}
    made = message(offset, key)
    return made.changed(
        message_id=f"id-{number}",
        body=body,
        born_time=born,
        store_time=stored,
        properties={**made.properties, **marks},
    )


def looked_up(messages, log):
    """What the shell finds out about the marked ones."""
    marked = [m for m in messages if is_marked(m)]
    return dict.fromkeys(m.queue_offset for m in marked) | {
        offset: places[0] for offset, places in copies_of(marked, log).items()
    }


# --- what is a copy -------------------------------------------------------------------------------


def test_a_copy_has_the_same_id_born_time_and_body_and_stands_before():
    marked = send(5, attempt=2)
    others = [
        send(3, number=1),
        send(3, born=9.0),
        send(3, body=b"8"),
        send(5, attempt=2),
        send(6),
    ]
    assert copies_of([marked], others) == {}
    assert copies_of([marked], [*others, send(4), send(2), send(3)]) == {5: [2, 3, 4]}


# --- the book -------------------------------------------------------------------------------------


def test_a_late_first_attempt_is_known_by_the_book():
    repeats = Repeats()
    repeats.arrived([send(0, attempt=2)], {0: None})
    repeats.arrived([send(1, number=1), send(2)], NONE)
    assert repeats.firsts == {2: 0}


def test_what_nobody_marked_is_no_repeat():
    repeats = Repeats()
    repeats.arrived([send(0), send(1), send(2)], NONE)
    assert (repeats.firsts, repeats.book) == ({}, ())


def test_a_copy_below_what_somebody_asked_for_is_none():
    repeats = Repeats(floor=1)
    repeats.arrived([send(5, attempt=2)], {5: 0})
    assert repeats.firsts == {}
    repeats.arrived([send(6)], NONE)
    assert repeats.firsts == {6: 5}


def test_the_book_of_former_owners_counts():
    repeats = Repeats(book=[sent_again(send(0, attempt=2))])
    repeats.arrived([send(0, attempt=2), send(1)], {0: None})
    assert repeats.firsts == {1: 0}


def test_what_the_broker_lost_unhandled_is_no_first_copy():
    repeats = Repeats()
    repeats.arrived([send(0, attempt=2), send(1, number=1, attempt=2), send(2)], {0: None, 1: None})
    repeats.lost([0])
    repeats.arrived([send(3), send(4, number=1)], NONE)
    assert repeats.firsts == {4: 1}


def test_an_old_entry_is_forgotten():
    repeats = Repeats()
    repeats.arrived([send(0, attempt=2)], {0: None})
    repeats.arrived([send(1, number=1, stored=2.0 + LATE)], NONE)
    assert len(repeats.book) == 1
    repeats.arrived([send(2, number=1, stored=3.5 + LATE)], NONE)
    assert repeats.book == ()


def test_the_book_is_bounded_and_keeps_the_newest():
    repeats = Repeats()
    several = [send(n, number=n, attempt=2) for n in range(MOST + 10)]
    repeats.arrived(several, dict.fromkeys(range(MOST + 10)))
    assert [entry.offset for entry in repeats.book] == list(range(10, MOST + 10))


def test_candidates_are_forgotten_once_all_is_finished_below_them():
    repeats = Repeats()
    repeats.arrived([send(5, attempt=2), send(9, attempt=3)], {5: 1, 9: 1})
    repeats.passed(9)
    assert repeats.firsts
    repeats.passed(10)
    assert not repeats.firsts


# --- a queue --------------------------------------------------------------------------------------


def owned(start=0, *, by_key, **settings):
    limits = {"max_messages": 1000, "max_bytes": 10**9}
    return OwnedQueue(QUEUE, start, Lease(0.0, math.inf), by_key=by_key, **limits, **settings)


def feed(queue, messages, log):
    keys = [m.sharding_key for m in messages] if queue.by_key else None
    end = messages[-1].queue_offset + 1
    queue.pulled(messages, end, end, keys, marked=looked_up(messages, log))


@pytest.mark.parametrize("by_key", [False, True])
def test_of_a_topic_that_was_made_anew_nothing_is_handed_on(by_key):
    """An offset of the former one says nothing of a copy in the next one."""
    queue = owned(by_key=by_key, repeats=Repeats(floor=3))
    log = [send(4, attempt=2), send(5, number=1, attempt=2)]
    feed(queue, log, log)
    while (batch := queue.take(1, 1.0)) is not None:
        queue.finish(batch, Disposition.COMMIT, 1.0)
    assert (queue.floor, len(queue.sent_again)) == (3, 2)
    queue.drop(Drop.RECREATED)
    assert (queue.floor, queue.sent_again) == (0, ())


def test_the_first_copy_must_be_finished_before_a_repeat_is_one():
    """A key function that gives copies different keys: the second may be handled before."""
    queue = owned(by_key=True)
    queue.pulled([send(0, key="a"), send(1, attempt=2, key="b")], 2, 2, ["a", "b"], marked={1: 0})
    first, second = queue.take(1, 0.0), queue.take(1, 0.0)
    assert [m.queue_offset for m in (*first.messages, *second.messages)] == [0, 1]
    assert second.repeats is None, "nobody knows what comes of the first"
    queue.finish(second, Disposition.PUT_BACK, 0.0)
    queue.finish(first, Disposition.COMMIT, 0.0)
    again = queue.take(1, 0.0)
    assert again.repeats == 0
    assert again.began is None


def test_what_is_on_record_is_finished():
    queue = owned(by_key=True)
    log = [send(0, 0, attempt=2), send(1, 1, attempt=2, key="b"), send(2, 2, attempt=2, key="c")]
    feed(queue, log, log)
    assert queue.sent_again == ()
    assert queue.take(1, 0.0).key == "a"
    batch = queue.take(1, 0.0)
    queue.finish(batch, Disposition.COMMIT, 0.0)
    assert [entry.offset for entry in queue.sent_again] == [1]


def test_after_a_restart_elsewhere_nothing_is_known_to_be_finished():
    queue = owned(by_key=True)
    feed(queue, [send(0, attempt=2)], [])
    queue.finish(queue.take(1, 0.0), Disposition.COMMIT, 0.0)
    assert queue.sent_again
    assert queue.floor == 0
    queue.restart_at(7, Drop.MOVED)
    assert queue.sent_again == ()
    assert queue.floor == 7


def stored(attempts):
    """Messages for (number, attempt) pairs; one attempt of a send, at most, is not marked."""
    seen, log = {}, []
    for number, wanted in attempts:
        before = seen.setdefault(number, [])
        attempt = 2 + len(before) if wanted == 1 and 1 in before else wanted
        before.append(attempt)
        log.append(send(len(log), number, attempt, key=f"k{number % 2}"))
    return log


attempts = st.tuples(st.integers(0, 5), st.integers(1, 3))


@given(
    attempts=st.lists(attempts, max_size=30),
    pulls=st.lists(st.integers(1, 5), max_size=30),
    size=st.integers(1, 4),
    by_key=st.booleans(),
    answers=st.lists(st.booleans(), max_size=60),
    hand_over=st.integers(0, 40),
)
def test_each_send_is_handled_once_in_the_order_of_first_copies(
    attempts, pulls, size, by_key, answers, hand_over
):
    """Whatever is stored, however it is pulled, taken and handed on; failures come again."""
    log = stored(attempts)
    queue, handled, at, answer = owned(by_key=by_key), [], 0, iter(answers)
    for step in range(200):
        if at < len(log):
            count = pulls[step % len(pulls)] if pulls else 3
            feed(queue, log[at : at + count], log)
            at += len(log[at : at + count])
        batch = queue.take(size, float(step))
        if batch is None:
            if at >= len(log):
                break
            continue
        if batch.repeats is not None:
            assert len(batch.messages) == 1
            queue.finish(batch, Disposition.COMMIT, 0.0)
        elif next(answer, True):
            handled += [(m.sharding_key, m.message_id) for m in batch.messages]
            queue.finish(batch, Disposition.COMMIT, 0.0)
        else:
            queue.finish(batch, Disposition.PUT_BACK, 0.0)
        if step == hand_over and by_key:
            at = queue.offset
            heir = Repeats(book=queue.sent_again)
            queue = owned(at, by_key=by_key, repeats=heir, finished=queue.finished_ahead)
    first = dict.fromkeys((m.sharding_key, m.message_id) for m in log)
    assert sorted(handled) == sorted(first)
    lanes = ["k0", "k1"] if by_key else [None]
    for lane in lanes:
        assert [h for h in handled if lane in (None, h[0])] == [
            f for f in first if lane in (None, f[0])
        ]
