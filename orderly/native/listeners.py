"""The listener over librocketmq: a callback whose answer says what came of the message.

For our NativeConsumer, and for `rocketmq.client.PushConsumer(group, orderly=True).subscribe(topic,
callback)` of rocketmq-client-python. In that package a raise ends in whatever the C call's return
slot holds, and a 0 there acknowledges the message; so nothing is ever raised here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, replace
from enum import IntEnum
from functools import wraps
from typing import Any, Unpack, cast

from orderly.config import is_async
from orderly.errors import ConfigError, OrderlyError, UnsupportedByDriver
from orderly.listening import AsyncListener, Attempt, Block, Listener, Outcome
from orderly.listening.settings import Rules, Settings
from orderly.listening.trial import Function
from orderly.log import error_text, get_logger, where
from orderly.model import ReceivedMessage
from orderly.native.contexts import NativeContext, refusal
from orderly.native.dead_letters import DeadLetters
from orderly.native.library import Library
from orderly.native.reading import Reading
from orderly.native.signatures import CONSUME_LATER, CONSUMED, CONSUMING
from orderly.native.waits import Waits
from orderly.ordering.outcomes import Park, Suspend
from orderly.ordering.results import ConsumeResult

_WAIT = 1.0  # seconds, where nobody says how long


class ConsumeStatus(IntEnum):
    """What a callback tells librocketmq."""

    CONSUME_SUCCESS = CONSUMED
    RECONSUME_LATER = CONSUME_LATER


class NativeListener:
    """See `listener`, which makes it. Thread-safe if the function is.

    Args:
        handler: the listener that is asked about each message.
        reading: of the library whose messages are delivered.
        dead_letters: where they go, and of which group; None: nowhere, so they block.
    """

    def __init__(
        self, handler: Listener, reading: Reading, dead_letters: DeadLetters | None
    ) -> None:
        self._handler = handler
        self._reading = reading
        self._dead_letters = dead_letters
        self._group = "" if dead_letters is None else dead_letters.group
        self._namespace = "" if dead_letters is None else dead_letters.config.namespace
        self._redacts = dead_letters is not None and dead_letters.config.redacts
        self._waits = Waits()
        self._log = get_logger("orderly.native", redact=self._redacts)

    def __call__(self, message: Any) -> ConsumeStatus:
        """Handle a message; raises nothing, whatever happens.

        Args:
            message: of rocketmq-client-python, or the C side's pointer to one.
        """
        received: ReceivedMessage | None = None
        try:
            received = self._reading.message(getattr(message, "_handle", message))
            done = self._handle(received)
        except BaseException as error:  # noqa: BLE001 - a raise would acknowledge the message
            with suppress(BaseException):  # so would one of the program's own logging
                self._tell(received, error)
            return ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS if done else ConsumeStatus.RECONSUME_LATER

    @property
    def library(self) -> Library:
        """Whose messages it reads."""
        return self._reading.library

    def serving(self, dead_letters: DeadLetters) -> NativeListener:
        """Return this listener for a group's consumer, with a memory of its own for waits."""
        return NativeListener(self._handler, self._reading, dead_letters)

    def _tell(self, received: ReceivedMessage | None, error: BaseException) -> None:
        at = where(self._group, None if received is None else received.queue, received)
        self._log.error("native.callback_failed", **at, error=error_text(error), exc_info=error)

    def _handle(self, received: ReceivedMessage) -> bool:
        """Return whether the message is done."""
        now = time.monotonic()
        if self._waits.holds(received, now):
            return False
        tries = self._waits.tries(received)
        message = replace(received, reconsume_times=tries, namespace=self._namespace)
        context = NativeContext(
            message.queue, self._group, attempt=tries + 1, redact_keys=self._redacts
        )
        answer = self._handler((message,), context)
        if answer is ConsumeResult.SUCCESS or self._rejected(message, context):
            self._waits.settled(message)
            return True
        wait = _WAIT if context.suspend_seconds is None else context.suspend_seconds
        tried = message.queue_offset not in context.untried
        self._waits.again(message, time.monotonic() + wait, tried=tried)
        return False

    def _rejected(self, message: ReceivedMessage, context: NativeContext) -> bool:
        """Return whether the message was to be a dead letter and is stored as one."""
        at = where(self._group, message.queue, message)
        if context.parked:
            self._log.error("native.unsupported", **at, what="parking: the message blocks")
        reason = context.rejected.get(message.queue_offset)
        if reason is None:
            return False
        if self._dead_letters is None:
            what = "dead letters without DeadLetters(group): the message blocks"
            self._log.error("native.unsupported", **at, what=what)
            return False
        try:
            self._dead_letters.bury(message)
        except OrderlyError as error:
            self._log.warning("native.not_dead_lettered", **at, error=str(error))
            return False
        ids = {"reason": reason, "message_id": message.message_id}
        self._log.error("native.dead_lettered", **at, **ids)
        return True


def listener(
    function: Function | Listener,
    /,
    *,
    dead_letters: DeadLetters | None = None,
    library: Library | None = None,
    text_bodies: bool = False,
    properties: Iterable[str] = (),
    **settings: Unpack[Settings],
) -> NativeListener:
    """Make a callback for librocketmq of a function for one message.

        consumer = rocketmq.client.PushConsumer("shipping", orderly=True)
        consumer.subscribe("orders", native.listener(ship, on_poison="skip"))

    A failing message is tried again in place, the rest of its queue behind it: when its wait is
    over and librocketmq brings it again, which is a second later or less (five after fifteen
    times). The verdict and "block", "skip" and "dead_letter" are those of `orderly.listener`;
    tokens and locks are not to be had.

    Args:
        function: as for `orderly.listener`, plain; or a Listener, whose settings hold.
        dead_letters: where dead letters go; a NativeConsumer brings its own.
        library: whose messages come; None: that of rocketmq-client-python where it is imported,
            else the one that is found.
        text_bodies: no body holds a NUL; needed with releases of librocketmq up to 2.2.0.
        properties: names of your own properties to have in `message.properties`.
        settings: those of `orderly.listener`.

    Raises:
        ConfigError: a wrong setting.
        UnsupportedByDriver: an async function, on_poison="park_key", Retry(extend=True).
        NativeLibraryError: no librocketmq, or one that lacks a call.
    """
    handler = _supported(function, settings)
    loaded = library or Library(_path_of_the_binding())
    loaded.require(CONSUMING)
    reading = Reading(loaded, properties, text_bodies=text_bodies)
    return NativeListener(handler, reading, dead_letters)


def _supported(function: Function | Listener, settings: Settings) -> Listener:
    """Return a listener that answers nothing which the driver cannot do.

    Raises:
        UnsupportedByDriver: it is made for nothing else.
    """
    if isinstance(function, AsyncListener) or is_async(function):
        raise refusal("loop for coroutines")
    if isinstance(function, Listener):
        if settings:
            raise ConfigError("a listener has its settings already: pass its function, or none")
        rules = function.rules
        settings = cast(
            "Settings", {each.name: getattr(rules, each.name) for each in fields(rules)}
        )
        function = cast("Function", cast("Any", function).__wrapped__)
    rules = Rules(**settings)
    if rules.on_poison == "park_key":
        raise refusal("parking of a key")
    if rules.retry.extend:
        raise refusal("renewing of a lock before a retry")
    return Listener(_checked(function), **settings)


def _checked(function: Function) -> Function:
    """Return the function with what the driver cannot do made a Block: nothing is lost by that."""

    @wraps(function)
    def checked(value: Any, attempt: Attempt) -> Outcome:
        try:
            answer = function(value, attempt)
        except UnsupportedByDriver as error:
            return Block(str(error))
        if isinstance(answer, Park):
            return Block(str(refusal("parking of a key")))
        if isinstance(answer, Suspend) and answer.seconds is not None:
            return Block(str(refusal("suspension of a message for some seconds")))
        return answer

    return checked


def _path_of_the_binding() -> str | None:
    """The library that rocketmq-client-python has loaded, if it is imported."""
    dll = getattr(sys.modules.get("rocketmq.ffi"), "dll", None)
    name = getattr(dll, "_name", None)
    return name if isinstance(name, str) else None
