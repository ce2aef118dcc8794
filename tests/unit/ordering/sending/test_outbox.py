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
from orderly.ordering.sending.batch import Entry, OutboxRules, Verdict
from orderly.ordering.sending.outbox import Outbox

QUEUE = MessageQueue("T", "broker-a", 3)
BUSY = BrokerBusy("busy", code=2)
TIMEOUT = RequestTimeout("no answer within 3 s")
ILLEGAL = BrokerError("illegal", code=13)


@dataclass(slots=True, eq=False)
class Named(Entry):
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


def test_what_waits_goes_out_as_one_batch_in_order():
    box = outbox()
    fill(box, "a1", "b1", "a2")
    assert names(take(box).entries) == ["a1", "b1", "a2"]


def test_nothing_is_taken_while_a_batch_is_in_flight():
    box = outbox()
    fill(box, "a1")
    batch = take(box)
    fill(box, "a2")
    assert take(box) is None
    assert box.stored(batch)
    assert names(take(box).entries) == ["a2"]


def test_a_batch_holds_no_more_messages_than_allowed():
    box = outbox(batch_messages=2)
    fill(box, "a1", "a2", "a3")
    assert names(take(box).entries) == ["a1", "a2"]


def test_a_batch_holds_no_more_bytes_than_allowed_and_does_not_reach_past_a_large_message():
    box = outbox(batch_bytes=100)
    fill(box, entry("a1", size=60), entry("b1", size=41), entry("c1", size=10))
    batch = take(box)
    assert names(batch.entries) == ["a1"]
    box.stored(batch)
    assert names(take(box).entries) == ["b1", "c1"]


def test_a_message_above_the_batch_size_goes_alone():
    box = outbox(batch_bytes=100)
    fill(box, entry("a1", size=5000), "a2")
    assert names(take(box).entries) == ["a1"]


def test_compressed_and_plain_messages_do_not_mix():
    box = outbox()
    fill(box, "a1", entry("a2", sys_flag=1), entry("a3", sys_flag=1), "a4")
    taken = []
    while (batch := take(box)) is not None:
        taken.append(names(batch.entries))
        box.stored(batch)
    assert taken == [["a1"], ["a2", "a3"], ["a4"]]


def test_a_backoff_doubles_up_to_a_bound():
    box = outbox(retries=9, retry_backoff=1.0, longest_backoff=3.0)
    fill(box, "a1")
    at = [0.0]
    for _ in range(4):
        box.refused(take(box, at[-1]), Verdict.NOT_STORED, BUSY, at[-1])
        at.append(box.wake_at())
    assert at == [0.0, 1.0, 3.0, 6.0, 9.0]


def test_a_retry_is_the_same_batch_after_a_doubling_backoff():
    box = outbox(retries=2, retry_backoff=0.3)
    fill(box, "a1", "b1")
    batch = take(box)
    fill(box, "a2")
    assert box.refused(batch, Verdict.NOT_STORED, BUSY, now=10.0) == []
    assert box.wake_at() == pytest.approx(10.3)
    assert take(box, now=10.29) is None
    again = take(box, now=10.3)
    assert (names(again.entries), again.attempt) == (["a1", "b1"], 2)
    box.refused(again, Verdict.NOT_STORED, BUSY, now=20.0)
    assert take(box, now=20.59) is None
    assert take(box, now=20.6).attempt == 3


def test_after_a_timeout_the_retry_waits_until_the_broker_dropped_the_first_copy():
    box = outbox(retry_backoff=0.0, settle=0.2)
    fill(box, "a1")
    box.refused(take(box), Verdict.UNKNOWN, TIMEOUT, now=3.0)
    assert take(box, now=3.19) is None
    assert take(box, now=3.2).attempt == 2


def test_after_the_last_timeout_the_queue_waits_as_well():
    box = outbox(retries=0, settle=0.2)
    fill(box, "a1", "b1")
    batch = take(box)
    fill(box, "c1")
    box.refused(batch, Verdict.UNKNOWN, TIMEOUT, now=3.0)
    box.resume("a")
    assert take(box, now=3.19) is None
    assert names(take(box, now=3.2).entries) == ["c1"]


def test_a_failed_key_takes_its_waiting_successors_with_it_and_leaves_other_keys_alone():
    box = outbox(retries=0)
    fill(box, "a1")
    batch = take(box)
    fill(box, "a2", "b1", "a3")
    failed = box.refused(batch, Verdict.NOT_STORED, BUSY, now=1.0)
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
    (_, first), (_, second) = box.refused(batch, Verdict.NOT_STORED, BUSY, now=1.0)
    assert first.__cause__ is BUSY
    assert second.__cause__ is first
    assert "key 'a'" in str(first)
    assert "T/broker-a/3" in str(first)
    assert "resume" in str(second)


def test_a_held_key_refuses_new_messages_until_it_is_resumed():
    box = outbox(retries=0, hold_failed_key=60.0)
    fill(box, "a1")
    ((_, first),) = box.refused(take(box), Verdict.NOT_STORED, BUSY, now=0.0)
    assert "failed at attempt 1" in str(first)
    ((_, held),) = box.submit(entry("a2"), 59.9)
    assert isinstance(held, PrecedingSendFailed)
    assert held.__cause__ is first
    box.resume("a")
    assert box.submit(entry("a3"), 59.9) == []


def test_a_held_key_opens_by_itself_when_the_time_is_over():
    box = outbox(retries=0, hold_failed_key=60.0)
    fill(box, "a1")
    box.refused(take(box), Verdict.NOT_STORED, BUSY, now=0.0)
    assert box.submit(entry("a2"), 60.0) == []


def test_refused_messages_do_not_prolong_the_hold():
    box = outbox(retries=0, hold_failed_key=60.0)
    fill(box, "a1")
    box.refused(take(box), Verdict.NOT_STORED, BUSY, now=0.0)
    box.submit(entry("a2"), 50.0)
    assert box.submit(entry("a3"), 60.0) == []


def test_messages_without_a_lane_hold_nobody():
    box = outbox(retries=0)
    fill(box, "-1")
    batch = take(box)
    fill(box, "-2")
    assert failures(box.refused(batch, Verdict.NOT_STORED, BUSY, now=0.0)) == {"-1": SendFailed}
    assert names(take(box).entries) == ["-2"]


def test_of_a_refused_batch_only_the_bad_message_and_its_successors_fail():
    box = outbox()
    fill(box, "a1", "b1", "a2", "b2")
    batch = take(box)
    fill(box, "c1", "c2")
    assert box.refused(batch, Verdict.BAD_MESSAGE, ILLEGAL, now=0.0) == []
    sent, failed = [], {}
    while (batch := take(box)) is not None:
        sent.append(names(batch.entries))
        if sent[-1] == ["b1"]:
            failed |= failures(box.refused(batch, Verdict.BAD_MESSAGE, ILLEGAL, now=0.0))
        else:
            box.stored(batch)
    assert sent == [["a1"], ["b1"], ["a2"], ["c1", "c2"]]
    assert failed == {"b1": SendFailed, "b2": PrecedingSendFailed}


def test_a_refusal_of_the_queue_fails_the_whole_batch_without_a_retry():
    box = outbox(retries=5)
    fill(box, "a1", "b1")
    failed = box.refused(take(box), Verdict.REFUSED, BrokerError("no", code=16), now=0.0)
    assert failures(failed) == {"a1": SendFailed, "b1": SendFailed}
    assert box.empty


def test_an_entry_that_waited_too_long_fails_unsent_with_its_successors():
    box = outbox()
    fill(box, "b1")
    batch = take(box)
    fill(box, entry("a1", deadline=5.0), entry("a2", deadline=9.0), "b2")
    assert box.expire(4.9) == []
    assert box.wake_at() == 5.0
    assert failures(box.expire(5.0)) == {"a1": SendFailed, "a2": PrecedingSendFailed}
    assert failures(box.submit(entry("a3"), 5.0)) == {"a3": PrecedingSendFailed}
    box.stored(batch)
    assert names(take(box, now=5.0).entries) == ["b2"]


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
    box.refused(take(box), Verdict.NOT_STORED, ConnectFailed("connection refused"), now=0.0)
    fill(box, entry("a1", deadline=0.1))
    ((_, error),) = box.expire(0.1)
    assert "connection refused" in str(error)
    assert isinstance(error.__cause__, TimeoutError)
    assert not isinstance(error.__cause__, RequestTimeout), "it was never sent"


def test_no_retry_begins_after_the_deadline_of_the_most_patient_member():
    box = outbox(retries=9, retry_backoff=1.0)
    fill(box, entry("a1", deadline=0.5), entry("b1", deadline=2.0))
    batch = take(box)
    assert box.refused(batch, Verdict.NOT_STORED, BUSY, now=0.0) == []
    again = take(box, now=1.0)
    failed = box.refused(again, Verdict.NOT_STORED, BUSY, now=1.0)
    assert failures(failed) == {"a1": SendFailed, "b1": SendFailed}


def test_a_cancelled_entry_is_left_out_and_holds_nobody():
    box = outbox()
    fill(box, "a1", "a2", "a3")
    batch = box.take(0.0, lambda found: found.name != "a2")
    assert names(batch.entries) == ["a1", "a3"]


def test_if_all_are_cancelled_there_is_nothing_to_send():
    box = outbox()
    fill(box, "a1", "a2")
    assert box.take(0.0, lambda _: False) is None
    assert box.empty


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
    assert box.refused(batch, Verdict.UNKNOWN, TIMEOUT, now=1.0) == []
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
        box.refused(take(box, float(number)), Verdict.NOT_STORED, BUSY, now=float(number))
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
    assert box.refused(batch, Verdict.NOT_STORED, BUSY, 5.0) == []
    assert take(box, now=6.0).attempt == 2
