"""What a native listener refuses, and what it answers; without a library."""

import logging

import pytest

from orderly import Ack
from orderly.config import ClientConfig
from orderly.errors import ConfigError, ConnectionLost, UnsupportedByDriver
from orderly.foreign_text import hidden
from orderly.listening import AsyncListener, Listener, Retry, Skip
from orderly.model import MessageQueue
from orderly.native.library import CONSUMING
from orderly.native.listeners import ConsumeStatus, NativeListener, listener
from orderly.ordering.results import DeadLetter, Park
from tests.support.messages import message
from tests.support.waiting import eventually

ONE = message(7, key="a")
DONE, LATER = ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.RECONSUME_LATER


class Everything:
    """A library that has every call, and is asked for none."""

    path = "everything"

    def __contains__(self, name):
        return True

    def require(self, names):
        assert names is CONSUMING


class Reading:
    """Reads the test's own message from any handle."""

    def __init__(self, found=ONE):
        self.found = found

    def message(self, handle):
        if isinstance(handle, BaseException):
            raise handle
        return self.found


class Grave:
    group = "shipping"

    def __init__(self, error=None, **settings):
        self.config = ClientConfig(namesrv="nobody:1", **settings)
        self.error, self.buried = error, []

    def bury(self, dead):
        if self.error is not None:
            raise self.error
        self.buried.append(dead)


def made(function, dead_letters=None, found=ONE, **settings):
    handler = listener(function, library=Everything(), **settings)._handler
    return NativeListener(handler, Reading(found), dead_letters)


def answering(answer):
    return lambda _message, attempt: answer(attempt) if callable(answer) else answer


@pytest.mark.parametrize(
    ("function", "settings", "what"),
    [
        (lambda message, attempt: Ack(), {"on_poison": "park_key"}, "parking"),
        (lambda message, attempt: Ack(), {"retry": Retry(extend=True)}, "renewing"),
        (Listener(lambda message, attempt: Ack(), on_poison="park_key"), {}, "parking"),
    ],
)
def test_settings_that_the_driver_cannot_have_are_refused(function, settings, what):
    with pytest.raises(
        UnsupportedByDriver, match=rf"not support {what}.*use orderly\.OrderlyConsumer"
    ):
        listener(function, library=Everything(), **settings)


def test_coroutines_are_refused():
    async def act(_message, _attempt):
        return Ack()

    for function in (act, AsyncListener(act)):
        with pytest.raises(UnsupportedByDriver, match="async functions"):
            listener(function, library=Everything())


def test_a_listener_keeps_its_settings_and_takes_no_others():
    ours = Listener(lambda _message, _attempt: Skip("given up"), on_poison="skip", suspend=7.0)
    assert listener(ours, library=Everything())._handler.rules == ours.rules
    assert made(ours)(1) is DONE
    with pytest.raises(ConfigError, match="already has settings"):
        listener(ours, library=Everything(), on_poison="block")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Ack(), DONE),
        (Skip("given up"), DONE),
        (None, LATER),
        (0, LATER),
        (True, LATER),
        (ConsumeStatus.CONSUME_SUCCESS, LATER),
        (Park("aside"), LATER),
        (DeadLetter("nobody takes it"), LATER),
        (lambda attempt: attempt.extend(), LATER),
        (lambda attempt: attempt.lost.is_set(), LATER),
        (lambda attempt: attempt.deadline, LATER),
    ],
)
def test_only_an_ack_or_a_skip_is_done(answer, status):
    assert made(answering(answer))(1) is status


@pytest.mark.parametrize("error", [ValueError(), SystemExit(), KeyboardInterrupt(), MemoryError()])
def test_nothing_is_raised_whatever_happens(error, caplog):
    def act(_message, _attempt):
        raise error

    assert made(act)(1) is LATER
    assert made(act)(error) is LATER  # it could not even be read
    assert "native.callback_failed" in caplog.text


class Full(logging.Handler):
    """A log that cannot be written."""

    def emit(self, record):
        raise SystemExit


def test_not_even_logging_is_raised():
    log, full = logging.getLogger("orderly.native"), Full()
    log.addHandler(full)
    try:
        assert made(lambda _message, _attempt: Ack())(ValueError()) is LATER
    finally:
        log.removeHandler(full)


def test_the_verdict_hears_nothing_of_what_the_driver_cannot_do(caplog):
    """Or a message could be found poisoned, and skipped, for a call that is not there."""
    callback = made(answering(lambda attempt: attempt.extend()), on_poison="skip")
    assert callback(1) is LATER
    assert "message.blocked" in caplog.text
    assert "message.retry" not in caplog.text


def test_a_dead_letter_is_done_once_it_is_stored(caplog):
    grave = Grave()
    assert made(answering(DeadLetter("no such account")), grave)(1) is DONE
    assert [dead.queue_offset for dead in grave.buried] == [7]
    assert "native.dead_lettered" in caplog.text
    assert made(answering(DeadLetter("x")), Grave(ConnectionLost("gone")))(1) is LATER
    assert "native.not_dead_lettered" in caplog.text


AT_ONCE = Retry(wait=lambda _state: 0.0)


def numbered(tries, answers):
    """A function that keeps the number of each try."""

    def act(_message, attempt):
        tries.append(attempt.number)
        return answers.pop(0)

    return act


def tried(callback, tries):
    """The answer of the next try: a message is turned away until its wait is over."""
    before, answers = len(tries), []
    eventually(lambda: answers.append(callback(1)) or len(tries) > before)
    return answers[-1]


def test_a_call_in_which_the_message_was_not_tried_counts_no_attempt():
    """An outage holds a message back, say: what is tried next is the same attempt."""
    tries = []

    def handler(messages, context):
        tries.append((context.attempt, messages[0].reconsume_times))
        if len(tries) == 2:
            context.not_tried(messages[0])
        return context.suspend(0.01)

    callback = NativeListener(handler, Reading(), None)
    assert [tried(callback, tries) for _ in range(4)] == [LATER] * 4
    assert tries == [(1, 0), (2, 1), (2, 1), (3, 2)]


def test_what_is_done_is_forgotten():
    tries = []
    callback = made(numbered(tries, [None, None, Ack(), None]), retry=AT_ONCE)
    assert [tried(callback, tries) for _ in range(4)] == [LATER, LATER, DONE, LATER]
    assert tries == [1, 2, 3, 1]


def test_a_consumers_listener_remembers_for_itself(caplog):
    tries = []
    first = made(numbered(tries, [None, DeadLetter("x"), None]), retry=AT_ONCE)
    calls = (first, first.serving(Grave()), first)
    assert [tried(call, tries) for call in calls] == [LATER, DONE, LATER]
    assert tries == [1, 1, 2]
    assert "event='native.dead_lettered' group='shipping'" in caplog.text


def test_a_topic_is_named_as_the_program_names_it():
    seen = []
    wrapped = message(7, queue=MessageQueue("shop%orders", "", 0))
    made(lambda message, _attempt: seen.append(message.topic), Grave(namespace="shop"), wrapped)(1)
    assert seen == ["orders"]


def test_keys_are_hashed_where_the_settings_say_so(caplog):
    grave, seen = Grave(redact_keys="hash"), []

    def act(_message, attempt):
        seen.append(attempt._context.redact_keys)
        return DeadLetter("the reason")

    made(act, grave)(1)
    assert seen == [True]
    [record] = [each for each in caplog.records if "native.dead_lettered" in each.getMessage()]
    assert f"key='{hidden('a')}'" in record.getMessage()
