"""The function runs in place as often as it may; then the queue waits, or the policy decides."""

import threading
from dataclasses import replace

import pytest

from orderly.listener import Attempt, Block, Listener, Retry
from orderly.ordering.context import ConsumeContext
from orderly.ordering.outcomes import Ack, DeadLetter, Fail, Suspend
from orderly.ordering.results import ConsumeResult
from tests.support.messages import QUEUE, message

SUCCESS, SUSPEND = ConsumeResult.SUCCESS, ConsumeResult.SUSPEND
FAILURES = [OSError("down"), Fail("not yet"), Suspend(31), None, "Ack", Ack, SUCCESS]


class Script:
    """A function that gives one answer after another, the last one for ever; errors are raised."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.attempts = []

    def __call__(self, message, attempt):
        self.attempts.append(attempt)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer


def listener(function, slept=None, **settings):
    settings.setdefault("retry", Retry(attempts=3))
    return Listener(function, sleep=[].append if slept is None else slept.append, **settings)


def delivered(times, offset=0):
    """A message that failed `times` deliveries before."""
    return replace(message(offset, "k"), reconsume_times=times)


# --- in place -----------------------------------------------------------------------------------


def test_done_acknowledges_at_the_first_attempt(context):
    slept = []
    script = Script(Ack())
    assert listener(script, slept)([message(0)], context) is SUCCESS
    assert script.attempts == [Attempt(number=1, delivery=1)]
    assert slept == []
    assert context.rejected == {}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_is_tried_again_in_place(failure, context):
    script = Script(failure, failure, Ack())
    assert listener(script)([delivered(4)], context) is SUCCESS
    assert script.attempts == [Attempt(1, 5), Attempt(2, 5), Attempt(3, 5)]


@pytest.mark.parametrize("failure", FAILURES)
def test_failing_in_place_to_the_end_suspends_and_never_acknowledges(failure, context):
    script = Script(failure)
    assert listener(script)([message(0)], context) is SUSPEND
    assert len(script.attempts) == 3
    assert context.suspend_seconds == 1.0
    assert (context.finished, context.rejected) == (set(), {})


def test_the_waits_in_place_double_with_some_chance_in_them(context):
    slept = []
    retry = Retry(attempts=6, first_wait=0.1, max_wait=1.0)
    listener(Script(Fail("not yet")), slept, retry=retry)([message(0)], context)
    doublings = [0.1, 0.2, 0.4, 0.8, 1.0]
    for wait, doubled in zip(slept, doublings, strict=True):
        assert doubled <= wait <= doubled + 0.1
    assert slept != doublings


def test_no_attempt_begins_after_max_seconds(context):
    slept = []
    script = Script(Fail("not yet"))
    retry = Retry(attempts=100, first_wait=5.0, max_wait=60.0, max_seconds=4.0)
    assert listener(script, slept, retry=retry)([message(0)], context) is SUSPEND
    assert (len(script.attempts), slept) == (1, [])


def test_a_fatal_exception_is_not_tried_again(context):
    script = Script(UnicodeError("bad"))
    retry = Retry(attempts=3, fatal=(ValueError,))
    assert listener(script, retry=retry, then=DeadLetter)([message(7)], context) is SUSPEND
    assert len(script.attempts) == 1
    assert context.rejected == {7: "UnicodeError: bad"}


@pytest.mark.parametrize("answer", [Suspend(7.0), DeadLetter("r"), Block("r")])
def test_a_final_answer_is_not_tried_again(answer, context):
    script = Script(answer)
    assert listener(script)([message(0)], context) is SUSPEND
    assert len(script.attempts) == 1


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(1)])
def test_what_ends_the_program_is_passed_on(stop, context):
    script = Script(Ack(), stop)
    with pytest.raises(type(stop)):
        listener(script)([message(0), message(1), message(2)], context)
    assert len(script.attempts) == 2
    assert context.finished == {0}


class Unshowable(Exception):
    def __str__(self):
        raise ValueError("no")


def test_an_exception_that_cannot_even_be_shown_is_a_failure(context):
    assert listener(Script(Unshowable()))([message(0)], context) is SUSPEND


# --- the queue waits ----------------------------------------------------------------------------


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0.5), (1, 1.0), (3, 4.0), (4, 6.0), (99, 6)])
def test_the_queue_waits_longer_each_time(failures, seconds, context):
    waiting = listener(Script(Fail("not yet")), suspend=0.5, max_suspend=6.0, limit=None)
    assert waiting([delivered(failures)], context) is SUSPEND
    assert context.suspend_seconds == seconds


def test_a_key_may_wait_longer_than_a_queue():
    waiting = listener(Script(Fail("not yet")), suspend=20, max_suspend=600, limit=None)
    by_queue, by_key = ConsumeContext(QUEUE), ConsumeContext(QUEUE, max_suspend=3600)
    waiting([delivered(9)], by_queue)
    waiting([delivered(9)], by_key)
    assert (by_queue.suspend_seconds, by_key.suspend_seconds) == (30, 600)


def test_suspend_is_obeyed_even_at_the_limit(context):
    stubborn = listener(Script(Suspend(7.0)), limit=0, then=DeadLetter)
    assert stubborn([delivered(5)], context) is SUSPEND
    assert context.suspend_seconds == 7.0
    assert context.rejected == {}


def test_at_the_limit_the_message_is_dead_lettered(context):
    giving_up = listener(Script(OSError("down")), limit=2, then=DeadLetter)
    assert giving_up([delivered(1, offset=7)], context) is SUSPEND
    assert context.rejected == {}
    assert giving_up([delivered(2, offset=7)], context) is SUSPEND
    assert context.rejected == {7: "OSError: down"}
    assert context.finished == set()


def test_at_the_limit_block_goes_on_waiting_and_says_so_each_time(context, events):
    blocking = listener(Script(OSError("down")), limit=2)
    for failures in (2, 3, 50):
        assert blocking([delivered(failures, offset=7)], context) is SUSPEND
        assert context.suspend_seconds == 30.0
    assert context.rejected == {}
    errors = [event for event in events if event["log_level"] == "error"]
    assert [event["event"] for event in errors] == ["the message blocks its queue"] * 3
    assert [event["attempt"] for event in errors] == [3, 4, 51]
    assert (errors[0]["topic"], errors[0]["queue_id"]) == (QUEUE.topic, QUEUE.queue_id)
    assert (errors[0]["offset"], errors[0]["key"]) == (7, "k")
    assert errors[0]["reason"] == "OSError: down"


# --- events -------------------------------------------------------------------------------------


def test_each_failed_attempt_is_an_event(context, events):
    listener(Script(OSError("down"), Fail("not yet"), Ack()))([delivered(4, offset=7)], context)
    assert [(e["event"], e["attempt_in_place"], e["reason"]) for e in events] == [
        ("attempt failed", 1, "OSError: down"),
        ("attempt failed", 2, "not yet"),
    ]
    assert {(e["offset"], e["key"], e["attempt"]) for e in events} == {(7, "k", 5)}


def test_by_key_an_event_names_what_the_message_is_ordered_by(events):
    listener(Script(Fail("no")))([delivered(0)], ConsumeContext(QUEUE, key=("account", 7)))
    assert {event["key"] for event in events} == {"('account', 7)"}


def test_no_event_shows_the_body(context, events):
    secret = replace(message(0), body=b"secret\xff")

    def decode(message, attempt):
        return message.body if attempt.number > 1 else message.body.decode()

    listener(decode)([secret], context)
    assert len(events) == 3
    shown = [{**event, "exc_info": str(event["exc_info"])} for event in events]
    assert "secret" not in str(shown)


# --- threads ------------------------------------------------------------------------------------


def test_queues_side_by_side_do_not_mix_their_attempts():
    together = threading.Barrier(4, timeout=10)
    seen = {offset: [] for offset in range(4)}

    def ship(message, attempt):
        together.wait()
        seen[message.queue_offset].append(attempt.number)
        return Ack() if attempt.number == 3 else Fail("not yet")

    shared = listener(ship)
    results = {}

    def run(offset):
        results[offset] = shared([message(offset)], ConsumeContext(QUEUE))

    threads = [threading.Thread(target=run, args=(offset,)) for offset in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert results == dict.fromkeys(seen, SUCCESS)
    assert list(seen.values()) == [[1, 2, 3]] * 4
