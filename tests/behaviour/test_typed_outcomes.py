"""Each typed outcome does what it says, and whatever is none of them acknowledges nothing."""

import asyncio
import math

import pytest
import structlog

from orderly import Ack, ConsumeResult, DeadLetter, Fail, Suspend
from tests.support.consuming import send_numbers
from tests.support.topics import dead_numbers
from tests.support.waiting import eventually

ASKED = 0.4  # seconds; much more than the consumer's own wait
TOO_LONG = 31  # seconds; a queue waits for 30 at most


class Busy(Exception):
    retry_after = ASKED


FIRST_ANSWERS = {
    0: Ack(),
    1: Fail("no stock"),
    2: Suspend(ASKED),
    3: Busy("come back later"),
    4: DeadLetter("no such account"),
    5: None,
    6: Suspend(TOO_LONG),
    7: Ack(),
}


def act(messages, context):
    """Answer by the table the first time, Ack() afterwards."""
    answer = FIRST_ANSWERS[int(messages[0].body)] if context.attempt == 1 else Ack()
    if isinstance(answer, Exception):
        raise answer
    return answer


def test_what_is_not_acknowledged_comes_again_in_its_place(
    producer, topic, group, client, start_group
):
    seen = start_group(act, suspend=0.02, patient=True).seen
    send_numbers(producer, topic, ["a"], len(FIRST_ANSWERS))
    eventually(lambda: 7 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7]
    assert dead_numbers(client, group, 1) == [4]
    for number in (2, 3):
        first, again = (d for d in seen.deliveries if d.number == number)
        assert again.started - first.ended >= ASKED, f"{number} waited less than was asked for"


# --- whatever is none of them ------------------------------------------------------------------

SECRET = b"card=4111111111111111 \xff"


async def never_awaited():
    return Ack()


def fail_to_read():
    SECRET.decode()


NO_OUTCOMES = [
    None, True, False, 0, 1, "SUCCESS", "Ack", SECRET, (), object(), Ack, Suspend, [Ack()],
    ConsumeResult, never_awaited,
]  # fmt: skip
RAISED = [ValueError("no"), SystemExit(0), asyncio.CancelledError(), StopIteration()]


@pytest.fixture
def told():
    """The events about answers, by the number of the message."""
    with structlog.testing.capture_logs() as captured:
        yield lambda: {e["offset"]: e for e in captured if e["event"].startswith("handler.")}
    structlog.reset_defaults()


@pytest.fixture(params=["thread", "coroutine"])
def handled(request, told, producer, topic, start_member):
    """Have one message of a key handled for each answer, which are functions of the context.

    Each is answered with Ack() when it comes again. Returns how often each came, and the events.
    """

    def handled(answers, **settings):
        def act(messages, context):
            first = context.attempt == 1
            return answers[int(messages[0].body)](context) if first else Ack()

        async def act_async(messages, context):
            return act(messages, context)

        acts = {"thread": act, "coroutine": act_async}
        _, seen = start_member(acts[request.param], suspend=0.02, **settings)
        send_numbers(producer, topic, ["a"], len(answers) + 1)
        answers = [*answers, lambda context: Ack()]
        eventually(lambda: seen.numbers("a")[-1:] == [len(answers) - 1], within=20)
        numbers = seen.numbers("a")
        assert numbers == sorted(numbers)
        return [numbers.count(number) for number in range(len(answers) - 1)], told()

    return handled


def raising(error):
    def answer(context):
        raise error

    return answer


def test_whatever_is_no_outcome_acknowledges_nothing_and_is_told(handled):
    answers = [lambda context, value=value: value for value in NO_OUTCOMES]
    answers += [raising(error) for error in RAISED] + [lambda context: ValueError("returned")]
    answers += [lambda context: never_awaited(), lambda context: fail_to_read()]
    answers += [lambda context: Fail("no stock"), lambda context: Suspend(TOO_LONG)]
    answers += [lambda context: setattr(context, "auto_commit", SECRET) or Ack(), lambda c: Ack()]
    times, told = handled(answers)
    assert times == [2] * (len(answers) - 1) + [1]
    foreign = len(NO_OUTCOMES)
    raised = foreign + len(RAISED) + 1
    names = [told[number]["event"] for number in range(len(answers) - 1)]
    assert set(names[:foreign]) == {"handler.returned_no_outcome"}
    assert set(names[foreign:raised]) == {"handler.raised"}
    assert names[raised:] == [
        "handler.returned_coroutine",
        "handler.raised",
        "handler.answered_fail",
        "handler.wait_too_long",
        "handler.auto_commit_no_bool",
    ]
    assert {told[number]["log_level"] for number in told} == {"warning"}
    coroutine, unreadable, fail, wait, no_bool = (told[raised + place] for place in range(5))
    assert coroutine["hint"] == "make it `async def`"
    assert unreadable["error"].startswith("UnicodeDecodeError: 'utf-8' codec can't decode byte")
    assert (fail["reason"], no_bool["value"]) == ("no stock", "bytes")
    assert "0.01 to 30" in wait["error"]
    texts = [
        text for event in told.values() for field, text in event.items() if field != "exc_info"
    ]
    assert "4111" not in str(texts), "of what is foreign only the type is told"
    assert len(told) == len(answers) - 1, "of an outcome nothing is told"


class Asks(Exception):
    def __init__(self, seconds):
        self.retry_after = seconds


def test_an_exceptions_wish_to_wait_is_heeded_within_what_is_allowed(producer, topic, start_member):
    """The keys are in four queues."""
    wishes = {"a": 10_000, "b": -1, "c": math.nan, "d": 0}
    waits = {"a": 30.0, "b": 0.3, "c": 0.3, "d": 0.01}

    def act(messages, context):
        raise Asks(wishes[messages[0].sharding_key])

    with structlog.testing.capture_logs() as events:
        start_member(act, suspend=0.3)
        send_numbers(producer, topic, wishes, 1)
        suspended = lambda: [e for e in events if e["event"] == "queue.suspended"]  # noqa: E731
        eventually(lambda: {e["key"] for e in suspended()} == waits.keys(), within=20)
    structlog.reset_defaults()
    assert {e["key"]: e["seconds"] for e in suspended()} == waits
