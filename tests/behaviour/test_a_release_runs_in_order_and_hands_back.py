"""A released key: what is parked runs in order while live traffic goes on; no gap, no overlap."""

import itertools
import threading

import pytest
from structlog.testing import capture_logs

from orderly import Ack, ConsumeResult, DeadLetter, Fail, Park, Suspend
from orderly.consumer import replay
from orderly.protocol.park_record import Result
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

BAD, GOOD = "bad", "good"


class Account:
    """Parks or fails for one key until it is mended; notes what it applied, in order."""

    def __init__(self, seconds=0.0):
        self.applied, self.mended, self.broken_at = [], False, None
        self.calls = []
        self.may_begin = threading.Event()
        self.may_begin.set()
        self._slow = threading.Event()
        self._seconds = seconds

    def __call__(self, messages, context):
        if context.key != BAD:
            return Ack()
        (message,) = messages
        self.calls.append((message.queue_offset, context.replayed, context.attempt))
        if not self.mended:
            return Park("no such account")
        if message.queue_offset == self.broken_at:
            return Fail("still no such account")
        self.may_begin.wait(30)
        self._slow.wait(self._seconds)
        self.applied.append(message.queue_offset)
        return Ack()


class AsyncAccount(Account):
    async def __call__(self, messages, context):
        return super().__call__(messages, context)


def strictly_rises(offsets):
    return all(a < b for a, b in itertools.pairwise(offsets))


@pytest.fixture
def parked_key(producer, topic, start_group, parks):
    """A group with one key parked; returns (account, group, its queue, offsets parked)."""

    def start(account=None, count=5, **settings):
        account = account or Account()
        act = account.__call__
        members = start_group(act, order="key", **settings)
        stored = send_numbers(producer, topic, [BAD], count)
        queue, offsets = stored[0].queue, [s.queue_offset for s in stored]
        eventually(lambda: parks.parked(queue, BAD) == offsets, within=20)
        return account, members, queue, offsets

    return start


@pytest.mark.parametrize("kind", [Account, AsyncAccount], ids=["thread", "async"])
def test_live_traffic_waits_behind_what_is_replayed(
    kind, parked_key, producer, topic, parks, monkeypatch
):
    monkeypatch.setattr(replay, "SLICE", 0.1)
    account, members, queue, offsets = parked_key(kind(seconds=0.002), count=130)
    account.mended = True
    account.may_begin.clear()
    identity = parks.command(queue, "release", BAD)
    offsets += [s.queue_offset for s in send_numbers(producer, topic, [BAD], 1)]
    eventually(lambda: parks.parked(queue, BAD) == offsets)
    account.may_begin.set()
    while not any(r.done for r in parks.results(queue, identity)):  # it goes on all the time
        offsets += [s.queue_offset for s in send_numbers(producer, topic, [BAD], 1)]
    offsets += [s.queue_offset for s in send_numbers(producer, topic, [BAD], 3)]
    eventually(lambda: len(account.applied) >= len(offsets), within=30)
    assert account.applied == offsets, "each once, in order, across the hand-over"
    result = parks.ended(queue, identity)
    replayed = [o for o, was_replayed, _ in account.calls if was_replayed]
    assert result == Result(identity, done=True, settled=len(replayed))
    assert 130 < len(replayed) < len(offsets)
    assert any(not r.done and r.settled for r in parks.results(queue, identity)), "progress is told"
    assert not any(c.parked() for c in members.consumers)


def test_a_failure_stops_it_and_the_next_release_goes_on_there(
    parked_key, producer, topic, parks, client, group
):
    account, _, queue, offsets = parked_key()
    account.mended, account.broken_at = True, offsets[2]
    with capture_logs() as logs:
        result = parks.carried_out(queue, "release", BAD)
        eventually(lambda: "key.release_stopped" in [e["event"] for e in logs])  # after the result
    assert (result.settled, result.failed_at, result.reason) == (
        2,
        offsets[2],
        "still no such account",
    )
    assert account.applied == offsets[:2]
    offsets += [s.queue_offset for s in send_numbers(producer, topic, [BAD], 1)]
    eventually(lambda: parks.parked(queue, BAD)[-1] == offsets[-1])
    assert account.applied == offsets[:2], "it stays parked"
    account.broken_at = None
    result = parks.carried_out(queue, "release", BAD)
    assert (result.settled, result.reason) == (4, None)
    assert account.applied == offsets


def roll_back(message, context):
    context.auto_commit = False
    return ConsumeResult.ROLLBACK


NO_ACKNOWLEDGEMENTS = [
    (lambda *_: Fail("still"), "still"),
    (lambda *_: Park("again"), "again"),
    (lambda message, context: context.park(message, "aside") and Ack(), "aside"),
    (lambda *_: DeadLetter("bury"), "bury"),
    (lambda *_: Suspend(5), "Suspend"),
    (lambda *_: None, "NoneType"),
    (lambda *_: 1 / 0, "ZeroDivisionError"),
    (roll_back, "ROLLBACK"),
]


class Failing(Account):
    """Answers as the table says to each message's first replay."""

    replayed = frozenset()

    def __call__(self, messages, context):
        (message,) = messages
        number = int(message.body)
        if context.replayed and number not in self.replayed:
            self.replayed |= {number}
            return NO_ACKNOWLEDGEMENTS[number][0](message, context)
        return super().__call__(messages, context)


def test_whatever_is_no_acknowledgement_stops_it_there(parked_key, parks):
    account, _, queue, offsets = parked_key(Failing(), count=len(NO_ACKNOWLEDGEMENTS))
    account.mended = True
    for place, (_, reason) in enumerate(NO_ACKNOWLEDGEMENTS):
        result = parks.carried_out(queue, "release", BAD)
        assert (result.settled, result.failed_at) == (min(place, 1), offsets[place])
        assert reason in result.reason
    assert parks.carried_out(queue, "release", BAD).settled == 1
    assert account.applied == offsets


def test_a_command_for_a_key_that_is_not_parked_is_refused_and_the_next_one_is_taken(
    parked_key, parks
):
    account, _, queue, offsets = parked_key()
    account.mended = True
    result = parks.carried_out(queue, "release", "nobody")
    assert (result.settled, result.failed_at) == (0, None)
    assert "'nobody' is not parked" in result.reason
    first, second = (parks.command(queue, "release", BAD) for _ in range(2))
    assert parks.ended(queue, first).settled == len(offsets)
    eventually(lambda: account.applied == offsets)
    assert "is not parked" in parks.ended(queue, second).reason


def test_a_command_of_the_past_never_touches_a_key_parked_later(parked_key, producer, topic, parks):
    account, _, queue, offsets = parked_key()
    account.mended = True
    parks.carried_out(queue, "release", BAD)
    parks.command(queue, "drop", BAD)  # nobody answers: nothing is parked
    account.mended = False
    later = [s.queue_offset for s in send_numbers(producer, topic, [BAD], 2)]
    eventually(lambda: parks.parked(queue, BAD)[-2:] == later)
    account.mended = True
    assert parks.carried_out(queue, "release", BAD).settled == 2
    assert account.applied == offsets + later


def test_a_handler_that_commits_by_hand_must_commit_the_last_one(parked_key, parks):
    class Keeping(Account):
        last = None

        def __call__(self, messages, context):
            answer = super().__call__(messages, context)
            if isinstance(answer, Park):
                return answer
            context.auto_commit = False
            done = messages[0].queue_offset == self.last
            return ConsumeResult.COMMIT if done else ConsumeResult.SUCCESS

    account, _, queue, offsets = parked_key(Keeping())
    account.mended = True
    result = parks.carried_out(queue, "release", BAD)
    assert (result.settled, result.failed_at) == (0, offsets[0])
    assert "COMMIT" in result.reason
    account.last = offsets[-1]
    result = parks.carried_out(queue, "release", BAD)
    assert (result.settled, result.reason) == (5, None)
    assert account.applied == offsets * 2
