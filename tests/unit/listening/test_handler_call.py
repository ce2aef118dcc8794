"""One call of the user's function, and what it came to."""

from __future__ import annotations

import asyncio
import json
import pickle
from dataclasses import dataclass, replace

import pytest
from sqlalchemy import create_engine

import orderly
from orderly import (
    Ack,
    Attempt,
    Block,
    ConsumeContext,
    ConsumeResult,
    DeadLetter,
    Fail,
    Listener,
    Park,
    Skip,
    Suspend,
)
from orderly.errors import (
    BrokerBusy,
    ConfigError,
    ConnectionLost,
    LockLost,
    NotPicklable,
    RequestTimeout,
    UndecodableBody,
    WorkerDied,
)
from orderly.listening.handler_call import Delivery, ExceptionClasses, FailedCall, HandlerCall
from orderly.once import Once, Verdict
from orderly.ordering.poison import FailureKind
from tests.support.messages import QUEUE, message

# --- attempt --------------------------------------------------------------------------------------
# The function is told what a context knows, and can do nothing with it that acknowledges.


class QueueOwnership:
    token = 7
    deadline = 99.0

    def generation_of(self, key, replayed):
        return 3 if replayed else 4

    class lost:  # noqa: N801
        is_set = staticmethod(lambda: True)

    def extend(self):
        raise LockLost("gone")


def test_it_tells_what_the_context_knows():
    context = ConsumeContext(
        QUEUE, "shipping", key=("k", 1), ownership=QueueOwnership(), replayed=True, dry_run=True
    )
    given = replace(message(3, "k"), reconsume_times=4)
    attempt = Attempt(given, context)
    assert (attempt.message, attempt.number) == (given, 5)
    assert (attempt.group, attempt.key, attempt.token) == ("shipping", ("k", 1), 7)
    assert (attempt.message_queue, attempt.deadline) == (QUEUE, 99.0)
    assert (attempt.replayed, attempt.dry_run) == (True, True)
    assert attempt.generation == 3
    assert attempt.lost.is_set()
    with pytest.raises(LockLost):
        attempt.extend()


@pytest.mark.parametrize("name", ["done", "not_tried", "dead_letter", "park", "suspend"])
def test_it_cannot_acknowledge(name):
    assert not hasattr(Attempt(message(0), ConsumeContext(QUEUE)), name)


@pytest.mark.parametrize("redact", [False, True])
def test_once_takes_it_in_place_of_a_context(redact):
    context = ConsumeContext(
        QUEUE, "shipping", key="k", ownership=QueueOwnership(), redact_keys=redact
    )
    given, engine, once = message(3, "k"), create_engine("sqlite://"), Once()
    once.metadata.create_all(engine)
    for owner in (Attempt(given, context), context):
        with engine.begin() as db:
            verdict = once.apply(db, given, owner)
        assert verdict is (Verdict.APPLY if isinstance(owner, Attempt) else Verdict.REPEAT)
    engine.dispose()


# --- classes --------------------------------------------------------------------------------------
# What an exception's class says of its failure.


NONE = ExceptionClasses()


@pytest.mark.parametrize(
    ("classes", "error", "kind"),
    [
        (NONE, ValueError(), FailureKind.ORDINARY),
        (NONE, OSError(), FailureKind.ORDINARY),
        (NONE, ConnectionResetError(), FailureKind.TRANSIENT),
        (NONE, TimeoutError(), FailureKind.TRANSIENT),
        (NONE, RequestTimeout("late"), FailureKind.TRANSIENT),
        (NONE, BrokerBusy("full"), FailureKind.TRANSIENT),
        (NONE, ConfigError("wrong"), FailureKind.ORDINARY),
        (NONE, WorkerDied("gone"), FailureKind.ORDINARY),
        (NONE, UndecodableBody("garbage"), FailureKind.FATAL),
        (NONE, UndecodableBody("an extra is missing", retriable=True), FailureKind.TRANSIENT),
        (ExceptionClasses(((UndecodableBody, True),)), UndecodableBody("garbage"),
         FailureKind.TRANSIENT),
        (ExceptionClasses(((ValueError, False),)), UnicodeError(), FailureKind.FATAL),
        (ExceptionClasses(((TimeoutError, False),)), TimeoutError(), FailureKind.FATAL),
        (ExceptionClasses(((TimeoutError, False),)), ConnectionError(), FailureKind.TRANSIENT),
        (ExceptionClasses(((KeyError, True),)), KeyError(), FailureKind.TRANSIENT),
        # the nearest named class decides
        (ExceptionClasses(((OSError, False), (BlockingIOError, True))), OSError(),
         FailureKind.FATAL),
        (ExceptionClasses(((OSError, False), (BlockingIOError, True))), BlockingIOError(),
         FailureKind.TRANSIENT),
        (ExceptionClasses(((OSError, False),)), ConnectionError(), FailureKind.FATAL),
        (ExceptionClasses(((FileNotFoundError, False), (OSError, True))), FileNotFoundError(),
         FailureKind.FATAL),
    ],
)  # fmt: skip
def test_cell(classes, error, kind):
    assert classes.kind(error) is kind


# --- trial ----------------------------------------------------------------------------------------
# One call of the function: what every answer, raise and body comes to.


def delivery(body=b"body", longest=30.0):
    return Delivery(replace(message(0), body=body), ConsumeContext(QUEUE, max_suspend=longest))


def tried(function, decode=None, body=b"body", fatal=(), longest=30.0):
    classes = ExceptionClasses(tuple((each, False) for each in fatal))
    return HandlerCall(function, decode, classes).run(delivery(body, longest))


def answers(answer):
    return tried(lambda message, attempt: answer)


@pytest.mark.parametrize(
    "answer",
    [Ack(), Suspend(), Suspend(30), DeadLetter("r"), Block("r"), Park("r"), Skip("r")],
)
def test_a_final_answer_is_kept(answer):
    assert answers(answer) == answer


@pytest.mark.parametrize(
    "answer", [None, True, 0, "Ack", b"body", Ack, ConsumeResult.SUCCESS, object(), Suspend(31)]
)
def test_anything_else_is_a_failure_told_by_its_kind(answer):
    failed = answers(answer)
    assert isinstance(failed, FailedCall)
    assert (failed.kind, failed.error, failed.answer) == (FailureKind.ORDINARY, None, None)
    assert answers(answer).fingerprint == failed.fingerprint


def test_a_foreign_answer_is_never_shown():
    assert "secret" not in repr(answers(b"secret"))
    assert "bytes" in answers(b"secret").text
    assert "Ack()" in answers(Ack).text


def test_fail_gives_its_own_reason():
    failed = answers(Fail("no such carrier"))
    assert (failed.text, failed.answer) == ("no such carrier", Fail("no such carrier"))


def test_a_coroutine_that_nobody_awaits_is_a_failure(recwarn):
    async def forgotten():
        return Ack()

    assert isinstance(tried(lambda message, attempt: forgotten()), FailedCall)
    assert not recwarn.list


def test_what_is_raised_is_a_failure_with_its_class_and_fingerprint():
    def ship(message, attempt):
        raise KeyError(message.body)

    failed = tried(ship, fatal=(KeyError,), body=b"secret")
    assert failed.kind is FailureKind.FATAL
    assert isinstance(failed.error, KeyError)
    assert "ship" in failed.fingerprint.text
    assert "secret" not in failed.fingerprint.text


@pytest.mark.parametrize(
    "error", [SystemExit(1), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit()])]
)
@pytest.mark.parametrize("where", ["function", "async function", "decoder"])
def test_leaving_the_function_in_whatever_way_is_a_failure(error, where):
    def ship(message, attempt):
        raise error

    async def ship_async(message, attempt):
        raise error

    def decode(body):
        raise error

    if where == "async function":
        failed = asyncio.run(
            HandlerCall(ship_async, None, ExceptionClasses()).run_async(delivery())
        )
    else:
        failed = tried(ship, decode if where == "decoder" else None)
    assert isinstance(failed, FailedCall)
    assert type(error).__name__ in failed.text


@pytest.mark.parametrize("stop", [KeyboardInterrupt, GeneratorExit])
def test_what_ends_the_program_is_passed_on(stop):
    def ship(message, attempt):
        raise stop

    with pytest.raises(stop):
        tried(ship)


def test_an_async_function_is_awaited():
    async def ship(message, attempt):
        await asyncio.sleep(0)
        return Ack()

    async def fails(message, attempt):
        raise OSError("down")

    assert asyncio.run(HandlerCall(ship, None, ExceptionClasses()).run_async(delivery())) == Ack()
    failed = asyncio.run(HandlerCall(fails, None, ExceptionClasses()).run_async(delivery()))
    assert failed.text == "OSError: down"


def test_a_call_that_is_asked_to_stop_stops():
    async def ship(message, attempt):
        await asyncio.sleep(60)

    async def stopped():
        task = asyncio.create_task(
            HandlerCall(ship, None, ExceptionClasses()).run_async(delivery())
        )
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped())


class Busy(Exception):
    def __init__(self, seconds):
        super().__init__("busy")
        self.retry_after = seconds


def test_an_error_that_asks_for_a_wait_is_heard_and_says_that_it_passes():
    def ship(message, attempt):
        raise Busy(int(message.body))

    failed = tried(ship, body=b"300")
    assert (failed.asked, failed.kind) == (300, FailureKind.TRANSIENT)
    assert tried(ship, body=b"0").kind is FailureKind.ORDINARY
    assert tried(ship, body=b"5", fatal=(Busy,)).kind is FailureKind.FATAL
    assert tried(lambda v, a: Ack(), lambda body: ship(message(0), None)).kind is FailureKind.FATAL


# --- decode -------------------------------------------------------------------------------------


@dataclass
class Model:
    """As a pydantic model is: made by this class method, and its errors show the input."""

    order: str

    @classmethod
    def model_validate_json(cls, data):
        found = json.loads(data)
        if "order" not in found:
            raise ValueError(f"no order in {found}")
        return cls(found["order"])


def value_of(decode, body):
    seen = []
    tried(lambda value, attempt: seen.append(value) or Ack(), decode, body)
    return seen[0]


@pytest.mark.parametrize(
    ("decode", "value"),
    [
        ("json", {"order": "7"}),
        ("bytes", b'{"order": "7"}'),
        (Model, Model("7")),
        (bytes.decode, '{"order": "7"}'),
    ],
    ids=["json", "bytes", "model", "function"],
)
def test_the_function_gets_the_decoded_body_and_the_attempt_the_message(decode, value):
    assert value_of(decode, b'{"order": "7"}') == value
    messages = []
    tried(lambda value, attempt: messages.append(attempt.message) or Ack(), decode, b"{}1"[:2])
    assert all(found.queue_offset == 0 for found in messages)


@pytest.mark.parametrize(
    ("decode", "body"),
    [
        ("json", b'{"secret"'),
        ("json", b"secret\xff"),
        (Model, b'{"secret": "mine"}'),
        (Model, b'{"secret"'),
        (bytes.decode, b"secret\xff"),
    ],
)
def test_what_cannot_be_decoded_is_fatal_and_nothing_of_it_is_told(decode, body):
    failed = tried(lambda value, attempt: Ack(), decode, body)
    assert failed.kind is FailureKind.FATAL
    assert failed.error is None
    assert "secret" not in repr(failed)
    assert "mine" not in repr(failed)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionError("registry"), FailureKind.TRANSIENT),
        (ConnectionLost("registry"), FailureKind.TRANSIENT),
        (OSError("registry"), FailureKind.ORDINARY),
        (MemoryError(), FailureKind.ORDINARY),
        (KeyError("field"), FailureKind.FATAL),
    ],
)
def test_a_decoder_that_could_not_ask_says_nothing_against_the_body(error, kind):
    def decode(body):
        raise error

    failed = tried(lambda value, attempt: Ack(), decode)
    assert (failed.kind, failed.error) == (kind, None)
    assert failed.unreadable == (kind is FailureKind.FATAL)
    assert "registry" not in repr(failed)


@pytest.mark.parametrize(
    ("error", "classes", "unreadable"),
    [
        (UndecodableBody("garbage"), NONE, True),
        (UndecodableBody("garbage"), ExceptionClasses(((UndecodableBody, False),)), True),
        (UndecodableBody("garbage"), ExceptionClasses(((UndecodableBody, True),)), False),
        (UndecodableBody("an extra is missing", retriable=True), NONE, False),
        (ValueError("its content"), ExceptionClasses(((ValueError, False),)), False),
    ],
)
def test_only_what_the_bytes_decide_is_unreadable(error, classes, unreadable):
    failed = HandlerCall(print, None, classes).raised(error)
    assert failed.unreadable is unreadable
    assert pickle.loads(pickle.dumps(failed.portable())).unreadable is unreadable


def test_bodies_that_fail_to_decode_alike_have_one_fingerprint():
    one, other = (tried(lambda v, a: Ack(), Model, body) for body in (b'{"a": 1}', b'{"b": 22}'))
    assert one.fingerprint == other.fingerprint


# --- to another process -------------------------------------------------------------------------


class Unportable(Exception):
    def __reduce__(self):
        raise TypeError("never")


def test_an_error_that_cannot_travel_is_named_and_the_rest_of_the_failure_kept():
    failed = HandlerCall(print, None, ExceptionClasses(((Unportable, False),))).raised(
        Unportable("why")
    )
    portable = pickle.loads(pickle.dumps(failed.portable()))
    assert isinstance(portable.error, NotPicklable)
    assert (portable.kind, portable.fingerprint) == (FailureKind.FATAL, failed.fingerprint)
    kept = HandlerCall(print, None, ExceptionClasses()).raised(OSError("down")).portable()
    assert isinstance(pickle.loads(pickle.dumps(kept)).error, OSError)


# --- work -----------------------------------------------------------------------------------------
# The part of a listener that runs in a worker process: found by name, judged at home.


@orderly.listener(decode="bytes", on_error={ValueError: "park_key"})
def decorated(value, attempt):
    if attempt.message.queue_offset == 7:
        raise ValueError("bad")
    return Ack()


def plain(message, attempt):
    return Ack()


def elsewhere(listener):
    """The listener through another copy of its work, as through a process."""
    work = pickle.loads(pickle.dumps(listener.work))

    def call(messages, context):
        return pickle.loads(pickle.dumps(work(messages, context)))

    return listener.through(call)


@pytest.mark.parametrize("made", [decorated, Listener(plain)], ids=["decorated", "wrapped"])
def test_it_runs_there_and_acknowledges_here(made):
    context = ConsumeContext(QUEUE, key="k")
    assert elsewhere(made)([message(0), message(1)], context) is ConsumeResult.SUCCESS
    assert context.finished == {0, 1}


def test_the_failure_is_judged_here_with_the_fingerprint_made_there():
    away = elsewhere(decorated)
    context = ConsumeContext(QUEUE, "work", key="k")
    away([message(7)], context)
    assert "test_handler_call:decorated" in context.parked[7].fingerprint
    assert isinstance(decorated.run(message(7)), Park)


def test_it_keeps_its_memory_and_its_settings():
    away = decorated.through(lambda messages, context: Ack())
    assert (away.parks, away.rules) == (True, decorated.rules)
    assert away._judge is decorated._judge


@pytest.mark.parametrize("error", [WorkerDied("gone"), NotPicklable("no"), SystemExit(1)])
def test_that_the_process_died_is_a_failure_of_the_message(error):
    def call(messages, context):
        raise error

    context = ConsumeContext(QUEUE, key="k")
    assert decorated.through(call)([message(0)], context) is ConsumeResult.SUSPEND
    assert context.finished == set()


def test_a_function_without_a_name_cannot_be_found_there():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Listener(lambda message, attempt: Ack()).work)
