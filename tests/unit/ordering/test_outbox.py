"""The outbox by example; `test_outbox_model.py` runs it through random histories."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from orderly.errors import (
    BrokerBusy,
    BrokerError,
    ConnectFailed,
    PrecedingSendFailed,
    RequestTimeout,
    SendFailed,
)
from orderly.model import MessageQueue
from orderly.ordering.outbox import (
    Outbox,
    OutboxEntry,
    OutboxRules,
    SendVerdict,
    preceding_failed,
    send_failed,
)
from tests.support.interruptions import interrupted

# --- outbox ---------------------------------------------------------------------------------------
# The outbox by example; `test_outbox_model.py` runs it through random histories.


QUEUE = MessageQueue("T", "broker-a", 3)
BUSY = BrokerBusy("busy", code=2)
TIMEOUT = RequestTimeout("no answer within 3 s")
ILLEGAL = BrokerError("illegal", code=13)


@dataclass(slots=True, eq=False)
class Named(OutboxEntry):
    name: str = ""

    def __repr__(self) -> str:
        return self.name


def entry(name: str, *, size: int = 10, sys_flag: int = 0, deadline: float = 1000.0) -> Named:
    """An entry whose lane is the letter of its name: "a1" is the first message of key a."""
    lane = None if name.startswith("-") else name[0]
    return Named(lane, size, sys_flag, deadline, name=name)


def outbox(**rules) -> Outbox[Named]:
    return Outbox(QUEUE, OutboxRules(**rules))


def names(entries) -> list[str]:
    return [found.name for found in entries]


def failures(failed) -> dict[str, type[SendFailed]]:
    return {found.name: type(error) for found, error in failed}


def fill(box: Outbox[Named], *entries: str | Named, now: float = 0.0) -> None:
    for found in entries:
        assert box.submit(entry(found) if isinstance(found, str) else found, now) == []


def take(box: Outbox[Named], now: float = 0.0):
    return box.take(now, lambda _: True)


def test_a_backoff_doubles_up_to_a_bound():
    box = outbox(retries=9, retry_backoff=1.0, longest_backoff=3.0)
    fill(box, "a1")
    at = [0.0]
    for _ in range(4):
        box.refused(take(box, at[-1]), SendVerdict.NOT_STORED, BUSY, at[-1])
        at.append(box.wake_at())
    assert at == [0.0, 1.0, 3.0, 6.0, 9.0]


def test_a_retry_is_the_same_batch_after_a_doubling_backoff():
    box = outbox(retries=2, retry_backoff=0.3)
    fill(box, "a1", "b1")
    batch = take(box)
    fill(box, "a2")
    assert box.refused(batch, SendVerdict.NOT_STORED, BUSY, now=10.0) == []
    assert box.wake_at() == pytest.approx(10.3)
    assert take(box, now=10.29) is None
    again = take(box, now=10.3)
    assert (names(again.entries), again.attempt) == (["a1", "b1"], 2)
    box.refused(again, SendVerdict.NOT_STORED, BUSY, now=20.0)
    assert take(box, now=20.59) is None
    assert take(box, now=20.6).attempt == 3


def test_a_failed_key_takes_its_waiting_successors_with_it_and_leaves_other_keys_alone():
    box = outbox(retries=0)
    fill(box, "a1")
    batch = take(box)
    fill(box, "a2", "b1", "a3")
    failed = box.refused(batch, SendVerdict.NOT_STORED, BUSY, now=1.0)
    assert failures(failed) == {
        "a1": SendFailed,
        "a2": PrecedingSendFailed,
        "a3": PrecedingSendFailed,
    }
    assert names(take(box, now=1.0).entries) == ["b1"]


def test_the_causes_are_kept_in_a_chain():
    box = outbox(retries=0)
    fill(box, "a1")
    batch = take(box)
    fill(box, "a2")
    (_, first), (_, second) = box.refused(batch, SendVerdict.NOT_STORED, BUSY, now=1.0)
    assert first.__cause__ is BUSY
    assert second.__cause__ is first
    assert "key 'a'" in str(first)
    assert "T/broker-a/3" in str(first)
    assert "resume" in str(second)


def test_what_comes_while_a_key_is_held_names_the_failure_as_its_cause():
    box = outbox(retries=0, hold_failed_key=60.0)
    fill(box, "a1")
    ((_, first),) = box.refused(take(box), SendVerdict.NOT_STORED, BUSY, now=0.0)
    ((_, later),) = box.submit(entry("a2"), 1.0)
    assert isinstance(later, PrecedingSendFailed)
    assert later.__cause__ is first


def test_a_held_key_opens_by_itself_when_the_time_is_over():
    box = outbox(retries=0, hold_failed_key=60.0)
    fill(box, "a1")
    box.refused(take(box), SendVerdict.NOT_STORED, BUSY, now=0.0)
    assert box.submit(entry("a2"), 60.0) == []


def test_an_impatient_successor_does_not_take_its_predecessor_along():
    box = outbox()
    fill(box, "b1")
    batch = take(box)
    fill(box, "a1", entry("a2", deadline=5.0), "a3")
    assert failures(box.expire(5.0)) == {"a2": SendFailed, "a3": PrecedingSendFailed}
    box.stored(batch)
    assert names(take(box, now=5.0).entries) == ["a1"]


def test_an_entry_failed_by_time_says_what_its_queue_suffers_from():
    box = outbox(retries=9)
    fill(box, "b1")
    box.refused(take(box), SendVerdict.NOT_STORED, ConnectFailed("connection refused"), now=0.0)
    fill(box, entry("a1", deadline=0.1))
    ((_, error),) = box.expire(0.1)
    assert "connection refused" in str(error)
    assert isinstance(error.__cause__, TimeoutError)
    assert not isinstance(error.__cause__, RequestTimeout), "it was never sent"


@pytest.mark.parametrize(
    "attempts",
    [(SendVerdict.UNKNOWN, SendVerdict.NO_BATCH), (SendVerdict.FAILED_BATCH,)],
    ids=["no answer, then refused as a batch", "failed without a reason"],
)
@pytest.mark.parametrize("end", ["too late", "behind a failure", "given up"])
def test_what_may_be_stored_is_never_said_to_be_unsent(end, attempts):
    """Of a batch that is split after an attempt that may have stored it."""
    box = outbox(retries=9)
    fill(box, entry("a1", deadline=5.0), entry("a2", deadline=5.0 if end == "too late" else 50.0))
    for number, verdict in enumerate(attempts):
        now = 4.0 * number
        assert box.refused(take(box, now), verdict, BUSY, now) == []
    failed = box.give_up(BUSY) if end == "given up" else box.expire(5.0)
    assert [type(error) for _, error in failed] == [SendFailed, SendFailed]
    assert not any("was not sent" in str(error) for _, error in failed)


def test_an_entry_failed_by_time_behind_many_says_so():
    box = outbox()
    fill(box, "b1")
    take(box)
    fill(box, entry("a1", deadline=0.1))
    ((_, error),) = box.expire(0.1)
    assert "more messages wait for the queue than it takes in that time" in str(error)


def test_no_retry_begins_after_the_deadline_of_the_most_patient_member():
    box = outbox(retries=9, retry_backoff=1.0)
    fill(box, entry("a1", deadline=0.5), entry("b1", deadline=2.0))
    batch = take(box)
    assert box.refused(batch, SendVerdict.NOT_STORED, BUSY, now=0.0) == []
    again = take(box, now=1.0)
    failed = box.refused(again, SendVerdict.NOT_STORED, BUSY, now=1.0)
    assert failures(failed) == {"a1": SendFailed, "b1": SendFailed}


def test_who_finds_no_room_is_failed_and_its_key_held_but_not_its_predecessors():
    box = outbox()
    fill(box, "a1")
    assert failures(box.turn_away(entry("a2"), TimeoutError("full"), 1.0)) == {"a2": SendFailed}
    assert failures(box.submit(entry("a3"), 1.0)) == {"a3": PrecedingSendFailed}
    assert names(take(box, now=1.0).entries) == ["a1"]


def test_giving_up_fails_everything_once_and_ignores_late_answers():
    box = outbox(batch_messages=1)
    fill(box, "a1", "b1")
    batch = take(box)
    assert failures(box.give_up(TimeoutError("closed"))) == {"a1": SendFailed, "b1": SendFailed}
    assert not box.stored(batch)
    assert box.refused(batch, SendVerdict.UNKNOWN, TIMEOUT, now=1.0) == []
    assert box.give_up(TimeoutError("closed")) == []
    assert box.empty


def test_an_idle_outbox_asks_for_no_wake_up():
    box = outbox()
    assert box.wake_at() is None
    fill(box, entry("a1", deadline=9.0))
    batch = take(box)
    assert box.wake_at() is None
    box.stored(batch)
    assert box.wake_at() is None


def test_holds_that_ran_out_are_forgotten():
    box = outbox(retries=0, hold_failed_key=1.0)
    for number in range(100):
        found = Named(f"key-{number}", 10, 0, 1000.0, name="x")
        box.submit(found, float(number))
        box.refused(take(box, float(number)), SendVerdict.NOT_STORED, BUSY, now=float(number))
    assert len(box._held) <= 2


# --- linger ------------------------------------------------------------------------------------


def test_a_batch_waits_for_more_as_long_as_its_first_message_may():
    box = outbox(linger=0.5)
    fill(box, "a1", now=0.0)
    fill(box, "b1", now=0.3)
    assert take(box, now=0.4) is None
    assert box.wake_at() == 0.5
    assert names(take(box, now=0.5).entries) == ["a1", "b1"]


def test_a_full_batch_and_what_somebody_waits_for_go_at_once():
    full = outbox(linger=0.5, batch_messages=2)
    fill(full, "a1", "a2", "a3")
    assert names(take(full).entries) == ["a1", "a2"]
    urgent = outbox(linger=0.5)
    waited_for = entry("b1")
    waited_for.urgent = True
    fill(urgent, "a1", waited_for)
    assert names(take(urgent).entries) == ["a1", "b1"]


def test_a_retry_does_not_linger():
    box = outbox(linger=5.0, retry_backoff=1.0)
    fill(box, "a1")
    batch = take(box, now=5.0)
    assert box.refused(batch, SendVerdict.NOT_STORED, BUSY, 5.0) == []
    assert take(box, now=6.0).attempt == 2


# --- send failures --------------------------------------------------------------------------------
# What the errors of messages that were not sent say.


HELD = "are refused until producer.resume() or hold_failed_key is over"


@pytest.mark.parametrize(
    ("lane", "attempts", "told"),
    [
        ("k", 0, f"a message of key 'k' for {QUEUE} was not sent: no. Later messages of its key"),
        ("k", 3, f"a message of key 'k' for {QUEUE} failed at attempt 3: no. Later messages of"),
        ("", 1, f"a message for {QUEUE} failed at attempt 1: no. Later messages of its queue"),
    ],
)
def test_a_failure_says_what_was_tried_and_what_is_held(lane, attempts, told):
    cause = ValueError("no")
    error = send_failed(OutboxEntry(lane, 1, 0, 9.0), QUEUE, cause, attempts)
    assert str(error).startswith(told)
    assert str(error).endswith(HELD)
    assert error.__cause__ is cause


def test_a_failure_without_a_key_holds_nothing():
    error = send_failed(OutboxEntry(None, 1, 0, 9.0), QUEUE, ValueError("no"), 1)
    assert str(error) == f"a message for {QUEUE} failed at attempt 1: no"


def test_what_is_held_back_names_what_failed_before_it():
    entry = OutboxEntry("k", 1, 0, 9.0)
    ahead = send_failed(entry, QUEUE, ValueError("no"), 1)
    error = preceding_failed(entry, QUEUE, ahead)
    assert str(error).startswith(f"a message of key 'k' for {QUEUE} was not sent: an earlier one")
    assert error.__cause__ is ahead


def test_who_hurries_ends_the_wait_for_company():
    box = outbox(linger=5.0)
    fill(box, "a1", "b1")
    assert take(box, 0.1) is None
    box.hurry()
    assert names(take(box, 0.1).entries) == ["a1", "b1"]


# --- interruptions -----------------------------------------------------------------------------


def drained(box: Outbox[Named], now: float) -> list[str]:
    """All that is still to be sent, in order."""
    found = []
    while not box.empty:
        batch = take(box, now)
        found += names(batch.entries)
        assert box.stored(batch)
    return found


def waiting_and_cancelled(claimed):
    box = outbox(batch_messages=4)
    fill(box, "a1", "x1", "b1", "x2", "a2", "c1", "c2")
    return box, lambda found: found.name[0] != "x" and not claimed.append(found.name)


@pytest.mark.parametrize("again", [False, True], ids=["a new batch", "a retry"])
def test_a_take_that_is_cut_off_anywhere_loses_nothing_and_sends_nothing_twice(again):
    step = 1
    while True:
        box, claim = waiting_and_cancelled([])
        if again:
            box.refused(box.take(0.0, claim), SendVerdict.NOT_STORED, BUSY, 0.0)
        cut = interrupted(lambda b=box, c=claim: b.take(100.0, c), step)
        box.mend()
        box.put_back()  # if it was taken: it was not sent
        left = [name for name in drained(box, 100.0) if name[0] != "x"]
        assert left == ["a1", "b1", "a2", "c1", "c2"], cut
        if cut is None:
            break
        step += 1
    assert step > 20


def test_what_was_put_back_goes_out_at_once_and_was_no_attempt():
    box = outbox(retries=0)
    fill(box, "a1")
    first = take(box)
    box.put_back()
    again = take(box)
    assert (again.entries, again.attempt) == (first.entries, 1)
    assert not box.stored(first), "its late answer means nothing"
    assert box.stored(again)


@pytest.mark.parametrize("verdict", SendVerdict)
def test_what_may_be_stored_counts_as_a_copy_and_is_sent_again_later(verdict):
    box = outbox(retry_backoff=0.0, settle=0.2)
    fill(box, "a1", "a2")
    batch = take(box)
    box.refused(batch, verdict, BUSY, now=0.0)
    may_be_stored = verdict in (SendVerdict.UNKNOWN, SendVerdict.FAILED_BATCH)
    assert {found.copies for found in batch.entries} == {int(may_be_stored)}
    assert not (may_be_stored and take(box, 0.19))


def test_copies_are_counted_through_retries_and_a_split():
    box = outbox(retries=9, retry_backoff=0.0)
    fill(box, "a1", "a2")
    box.refused(take(box), SendVerdict.NOT_STORED, BUSY, now=0.0)
    box.refused(take(box), SendVerdict.UNKNOWN, TIMEOUT, now=0.0)
    box.refused(take(box, 1.0), SendVerdict.FAILED_BATCH, BUSY, now=1.0)
    alone = take(box, 2.0)
    assert (names(alone.entries), alone.attempt, alone.entries[0].copies) == (["a1"], 1, 2)
    box.put_back()
    box.refused(take(box, 2.0), SendVerdict.NOT_STORED, BUSY, now=2.0)
    assert take(box, 2.0).entries[0].copies == 2


def test_a_born_time_is_kept_through_retries_and_a_split():
    box = outbox(retry_backoff=0.0)
    fill(box, "a1", "a2")
    assert take(box).born(50.0019) == 50_001
    box.put_back()
    assert take(box).born(60.0) == 50_001
    box.refused(box.in_flight, SendVerdict.UNKNOWN, TIMEOUT, now=0.0)
    assert take(box, 1.0).born(70.0) == 50_001
    box.refused(box.in_flight, SendVerdict.NO_BATCH, ILLEGAL, now=1.0)
    fill(box, "a3")
    for born in (50_001, 50_001, 80_000):
        batch = take(box, 1.0)
        assert batch.born(80.0) == born
        box.stored(batch)


def test_a_submit_that_is_cut_off_anywhere_was_made_or_was_not():
    step = 1
    while True:
        box, more = outbox(linger=1.0), entry("a2")
        fill(box, "a1")
        cut = interrupted(lambda b=box, m=more: b.submit(m, 0.0), step)
        box.mend()
        accepted = ["a2"] if box.has(more) else []
        fill(box, "a3")
        assert drained(box, 100.0) == ["a1", *accepted, "a3"]
        if cut is None:
            assert accepted
            break
        step += 1


def test_a_stored_batch_leaves_once_however_often_it_is_told():
    step = 1
    while True:
        box = outbox()
        fill(box, "a1")
        batch = take(box)
        cut = interrupted(lambda b=box, t=batch: b.stored(t), step)
        box.mend()
        box.stored(batch)
        assert box.empty
        if cut is None:
            break
        step += 1
