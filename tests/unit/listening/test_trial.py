"""One call of the function: what every answer, raise and body comes to."""

import asyncio
import json
import pickle
from dataclasses import dataclass, replace

import pytest

from orderly import Ack, Block, ConsumeContext, ConsumeResult, DeadLetter, Fail, Park, Skip, Suspend
from orderly.errors import ConnectionLost, NotPicklable
from orderly.listening.classes import Classes
from orderly.listening.delivery import Delivery
from orderly.listening.trial import Failed, Trial
from orderly.ordering.verdict import Kind
from tests.support.messages import QUEUE, message


def delivery(body=b"body", longest=30.0):
    return Delivery(replace(message(0), body=body), ConsumeContext(QUEUE, max_suspend=longest))


def tried(function, decode=None, body=b"body", fatal=(), longest=30.0):
    return Trial(function, decode, Classes(fatal)).run(delivery(body, longest))


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
    assert isinstance(failed, Failed)
    assert (failed.kind, failed.error, failed.answer) == (Kind.ORDINARY, None, None)
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

    assert isinstance(tried(lambda message, attempt: forgotten()), Failed)
    assert not recwarn.list


def test_what_is_raised_is_a_failure_with_its_class_and_fingerprint():
    def ship(message, attempt):
        raise KeyError(message.body)

    failed = tried(ship, fatal=(KeyError,), body=b"secret")
    assert failed.kind is Kind.FATAL
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
        failed = asyncio.run(Trial(ship_async, None, Classes()).run_async(delivery()))
    else:
        failed = tried(ship, decode if where == "decoder" else None)
    assert isinstance(failed, Failed)
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

    assert asyncio.run(Trial(ship, None, Classes()).run_async(delivery())) == Ack()
    failed = asyncio.run(Trial(fails, None, Classes()).run_async(delivery()))
    assert failed.text == "OSError: down"


def test_a_call_that_is_asked_to_stop_stops():
    async def ship(message, attempt):
        await asyncio.sleep(60)

    async def stopped():
        task = asyncio.create_task(Trial(ship, None, Classes()).run_async(delivery()))
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
    assert (failed.asked, failed.kind) == (300, Kind.TRANSIENT)
    assert tried(ship, body=b"0").kind is Kind.ORDINARY
    assert tried(ship, body=b"5", fatal=(Busy,)).kind is Kind.FATAL
    assert tried(lambda v, a: Ack(), lambda body: ship(message(0), None)).kind is Kind.FATAL


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
    assert failed.kind is Kind.FATAL
    assert failed.error is None
    assert "secret" not in repr(failed)
    assert "mine" not in repr(failed)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionError("registry"), Kind.TRANSIENT),
        (ConnectionLost("registry"), Kind.TRANSIENT),
        (OSError("registry"), Kind.ORDINARY),
        (MemoryError(), Kind.ORDINARY),
        (KeyError("field"), Kind.FATAL),
    ],
)
def test_a_decoder_that_could_not_ask_says_nothing_against_the_body(error, kind):
    def decode(body):
        raise error

    failed = tried(lambda value, attempt: Ack(), decode)
    assert (failed.kind, failed.error) == (kind, None)
    assert "registry" not in repr(failed)


def test_bodies_that_fail_to_decode_alike_have_one_fingerprint():
    one, other = (tried(lambda v, a: Ack(), Model, body) for body in (b'{"a": 1}', b'{"b": 22}'))
    assert one.fingerprint == other.fingerprint


# --- to another process -------------------------------------------------------------------------


class Unportable(Exception):
    def __reduce__(self):
        raise TypeError("never")


def test_an_error_that_cannot_travel_is_named_and_the_rest_of_the_failure_kept():
    failed = Trial(print, None, Classes(fatal=(Unportable,))).raised(Unportable("why"))
    portable = pickle.loads(pickle.dumps(failed.portable()))
    assert isinstance(portable.error, NotPicklable)
    assert (portable.kind, portable.fingerprint) == (Kind.FATAL, failed.fingerprint)
    kept = Trial(print, None, Classes()).raised(OSError("down")).portable()
    assert isinstance(pickle.loads(pickle.dumps(kept)).error, OSError)
