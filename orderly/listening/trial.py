"""One call of the user's function, and what it came to.

The fingerprint is made here, where the traceback is: with executor="process" that is the worker.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any, cast

from orderly.config.functions import asked_to_stop
from orderly.errors import NotPicklable, UndecodableBody
from orderly.listening.attempt import Attempt
from orderly.listening.classes import Classes
from orderly.listening.decoding import Decode, decoder
from orderly.listening.delivery import Delivery
from orderly.listening.outcomes import FINAL, Outcome, too_long
from orderly.log import error_text, type_text
from orderly.ordering.fingerprint import Fingerprint, answered, fingerprint
from orderly.ordering.outcomes import Fail
from orderly.ordering.retry_after import retry_after
from orderly.ordering.verdict import Kind

Function = Callable[[Any, Attempt], Outcome]
"""A user's function for one message, or with `decode=` for its body's value."""

AsyncFunction = Callable[[Any, Attempt], Awaitable[Outcome]]
"""The same as an `async def`."""

PASSED_ON = (KeyboardInterrupt, GeneratorExit)
"""What is no failure of the function: the program ends, or the coroutine was thrown away."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A try that failed.

    Attributes:
        text: for events.
        fingerprint: the way it failed.
        kind: what its class says.
        error: what was raised.
        answer: what was answered in its place.
        asked: seconds to wait that the error asks for (see `ordering.retry_after`); None: it does
            not.
    """

    text: str
    fingerprint: Fingerprint
    kind: Kind = Kind.ORDINARY
    error: BaseException | None = None
    answer: Fail | None = None
    asked: float | None = None

    def portable(self) -> Failed:
        """Return it with an error that another process can load."""
        try:
            pickle.loads(pickle.dumps(self.error))  # noqa: S301 - what was dumped right before
        except Exception:  # noqa: BLE001 - pickle runs code of the user's classes
            return replace(self, error=NotPicklable(self.text))
        return self


_NOT_THE_BODY = (OSError, MemoryError)
"""What a decoder raises that could not ask somebody, such as a schema registry, or had no room."""

Tried = FINAL | Failed
"""What a try came to."""


class Trial:
    """Calls the function. Thread-safe if the function is.

    Args:
        function: the user's; plain or async.
        decode: of the settings.
        classes: of the settings.
    """

    def __init__(
        self, function: Function | AsyncFunction, decode: Decode | None, classes: Classes
    ) -> None:
        self.function = function
        self._value = decoder(decode)
        self._classes = classes
        self._own = str(getattr(function, "__module__", "")).partition(".")[0]

    def run(self, delivery: Delivery) -> Tried:
        """Call a plain function."""
        attempt = Attempt(delivery.message, delivery.context)
        value = self._decoded(attempt)
        if isinstance(value, Failed):
            return value
        try:
            answer = cast("Function", self.function)(value, attempt)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 - sys.exit in a function is a failure too
            return self.raised(error)
        return self._read(answer, delivery)

    async def run_async(self, delivery: Delivery) -> Tried:
        """Await an async function."""
        attempt = Attempt(delivery.message, delivery.context)
        value = self._decoded(attempt)
        if isinstance(value, Failed):
            return value
        try:
            answer = await cast("AsyncFunction", self.function)(value, attempt)
        except PASSED_ON:
            raise
        except asyncio.CancelledError as error:
            if asked_to_stop():
                raise
            return self.raised(error)  # something that the function awaited was cancelled
        except BaseException as error:  # noqa: BLE001 - sys.exit in a function is a failure too
            return self.raised(error)
        return self._read(answer, delivery)

    def raised(self, error: BaseException) -> Failed:
        """Return what an exception means."""
        found, kind = fingerprint(error, self._own), self._classes.kind(error)
        asked = retry_after(error, time.time())
        if asked and kind is Kind.ORDINARY:
            kind = Kind.TRANSIENT  # who says when to come again says that it passes
        return Failed(error_text(error), found, kind, error, asked=asked)

    def _decoded(self, attempt: Attempt) -> Any:
        try:
            return self._value(attempt.message)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a decoder raises is a failure
            failed = self.raised(error)
            passes = isinstance(error, _NOT_THE_BODY) or failed.kind is Kind.TRANSIENT
            # Its own text may show the body (pydantic's does), so nothing of it is told.
            ours = isinstance(error, UndecodableBody)
            return replace(
                failed,
                text=failed.text if ours else f"cannot decode the body: {failed.fingerprint.text}",
                kind=failed.kind if passes else Kind.FATAL,
                error=None,
            )

    def _read(self, answer: object, delivery: Delivery) -> Tried:
        """Return the answer if it is a final one; anything else is a failure.

        The text names a foreign value's type only: the value may be the message's body.
        """
        longest = delivery.context.max_suspend
        if too_long(answer, longest):
            text = f"answered {answer}; {longest:g} s is the longest here"
            return Failed(text, answered("Suspend, too long"))
        if isinstance(answer, FINAL):
            return answer
        if isinstance(answer, Fail):
            found = answered("Fail", answer.reason, _code_of(self.function))
            return Failed(answer.reason, found, answer=answer)
        if isinstance(answer, Coroutine):
            with suppress(BaseException):
                answer.close()  # nobody will await it, which Python would warn of
        kind = type_text(answer)
        text = f"answered {kind}, which is no outcome; `return Ack()` acknowledges"
        return Failed(text, answered(kind))


def _code_of(function: object) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None
