"""One call of the user's function for one message, and what it came to.

Here the function is called, with its attempt, in this process or in another, and its answer or
its exception is read. What then becomes of the message is `policy`'s business. A failure's
fingerprint is made here, where the traceback is: with executor="process" that is the worker.
"""

from __future__ import annotations

import asyncio
import pickle
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from importlib import import_module
from types import CodeType
from typing import Any, cast, final

from orderly.config.arguments import asked_to_stop
from orderly.errors import NotPicklable, OrderlyError, UndecodableBody
from orderly.listening.decoding import Decode, decoder, misfit_text
from orderly.listening.outcomes import FINAL, Outcome, too_long
from orderly.log import error_text, key_text, type_text, where, without_our_frames
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.backoff import retry_after
from orderly.ordering.context import ConsumeContext, Lost
from orderly.ordering.fingerprint import Fingerprint, answered, fingerprint
from orderly.ordering.poison import FailureKind
from orderly.ordering.results import Fail

Lane = tuple[MessageQueue, Hashable]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message and the context of the call it came with."""

    message: ReceivedMessage
    context: ConsumeContext

    @property
    def lane(self) -> Lane:
        """What it is ordered by, over all queues."""
        return self.context.message_queue, self.context.key

    @property
    def number(self) -> int:
        """Which try of the message this is, from 1."""
        return self.message.reconsume_times + 1

    @property
    def is_replay(self) -> bool:
        """Nothing of it counts for live traffic: it was parked, or this is a dry run."""
        return self.context.replayed or self.context.dry_run

    @property
    def at(self) -> dict[str, Any]:
        """The fields of an event about it."""
        at = where(self.context.group, self.message.queue, self.message)
        at["redact"] = self.context.redact_keys
        return at if self.context.key is None else at | {"key": key_text(self.context.key)}


# --- what the function gets besides the message ---------------------------------------------------


@final
class Attempt:
    """One try of one message: a ConsumeContext without the methods that acknowledge.

    So the function can acknowledge a message only by its answer. `orderly.once` accepts an attempt
    instead of a context. Use it only in the call's thread or coroutine.

    Args:
        message: the message that is tried.
        context: of the consumer's call; in a test `ConsumeContext(message.queue)`.
    """

    __slots__ = ("_context", "message")

    def __init__(self, message: ReceivedMessage, context: ConsumeContext) -> None:
        self.message = message
        self._context = context

    @property
    def number(self) -> int:
        """Which try of the message this is: 1 for the first.

        Counted in memory, so it starts over after a rebalance.
        """
        return self.message.reconsume_times + 1

    @property
    def group(self) -> str:
        """The consumer group, as at the broker: with the client's namespace."""
        return self._context.group

    @property
    def key(self) -> Hashable | None:
        """The key that orders the message; None: it is ordered by its queue, or has no key."""
        return self._context.key

    @property
    def message_queue(self) -> MessageQueue:
        """The queue it came from."""
        return self._context.message_queue

    @property
    def token(self) -> int | None:
        """Rises each time another member takes the queue; see `ConsumeContext.token`."""
        return self._context.token

    @property
    def generation(self) -> int:
        """How often the topic was deleted and created again; see `ConsumeContext.generation`."""
        return self._context.generation

    @property
    def deadline(self) -> float:
        """No other member can own the queue before this time (seconds on CLOCK_BOOTTIME)."""
        return self._context.deadline

    @property
    def lost(self) -> Lost:
        """Set when this member no longer has the queue: stop, another member may have it."""
        return self._context.lost

    def extend(self) -> float:
        """Renew the queue's lock now, by a call to the broker; returns the new `deadline`. Blocks.

        Raises:
            LockLost: this member no longer has the queue.
        """
        return self._context.extend()

    @property
    def replayed(self) -> bool:
        """True if the message was parked and is now being released."""
        return self._context.replayed

    @property
    def dry_run(self) -> bool:
        """True: whatever you return, nothing is acknowledged. Leave no trace."""
        return self._context.dry_run

    @property
    def redact_keys(self) -> bool:
        """Do not show keys, not even in the function's own logs."""
        return self._context.redact_keys


# --- what the classes of an exception say: retries do not help, or the failure is transient -------


_PASSES = (ConnectionError, TimeoutError)


@dataclass(frozen=True, slots=True)
class ExceptionClasses:
    """What the classes of exceptions say about a failure.

    If several named classes match, the one that comes first in the exception's MRO decides. The
    order in which they are named does not matter.

    Args:
        named: classes, and whether each is transient; if not, retries do not help. Besides
            these, UndecodableBody never helps; ConnectionError, TimeoutError and an OrderlyError
            that is `retriable` pass.
    """

    named: tuple[tuple[type[Exception], bool], ...] = ()

    def place(self, error: BaseException) -> int | None:
        """Return which of the named classes an exception is of; None: of none."""
        classes = [kind for kind, _ in self.named]
        return next((classes.index(b) for b in type(error).__mro__ if b in classes), None)

    def kind(self, error: BaseException) -> FailureKind:
        """Return what an exception's class says."""
        place = self.place(error)
        if place is not None:
            return FailureKind.TRANSIENT if self.named[place][1] else FailureKind.FATAL
        passes = isinstance(error, _PASSES) or (isinstance(error, OrderlyError) and error.retriable)
        if passes:
            return FailureKind.TRANSIENT
        return FailureKind.FATAL if isinstance(error, UndecodableBody) else FailureKind.ORDINARY


# --- the call -------------------------------------------------------------------------------------


Function = Callable[[Any, Attempt], Outcome]
"""A user's function for one message, or with `decode=` for its body's value."""

AsyncFunction = Callable[[Any, Attempt], Awaitable[Outcome]]
"""The same as an `async def`."""

PASSED_ON = (KeyboardInterrupt, GeneratorExit)
"""What is no failure of the function: the program ends, or the coroutine was thrown away."""


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A try that failed.

    Attributes:
        text: for events.
        fingerprint: the way it failed.
        kind: what its class says.
        error: what was raised.
        answer: what was answered in its place.
        asked: seconds to wait that the error asks for (see `retry_after`); None: it does
            not.
        named: which class of the settings' `on_error` it is of; None: of none.
        unreadable: the bytes alone decide it: the body, or its decoder, fails whenever it is read.
    """

    text: str
    fingerprint: Fingerprint
    kind: FailureKind = FailureKind.ORDINARY
    error: BaseException | None = None
    answer: Fail | None = None
    asked: float | None = None
    named: int | None = None
    unreadable: bool = False

    def portable(self) -> FailedCall:
        """Return it with an error that another process can load."""
        try:
            pickle.loads(pickle.dumps(self.error))  # noqa: S301 - what was dumped right before
        except Exception:  # noqa: BLE001 - pickle runs code of the user's classes
            return replace(self, error=NotPicklable(self.text))
        return self


_NOT_THE_BODY = (OSError, MemoryError)
"""What a decoder raises that could not ask somebody, such as a schema registry, or had no room."""

Tried = FINAL | FailedCall
"""What a try came to."""


class HandlerCall:
    """Calls the function. Thread-safe if the function is.

    Args:
        function: the user's; plain or async.
        decode: of the settings.
        classes: of the settings.
    """

    def __init__(
        self, function: Function | AsyncFunction, decode: Decode | None, classes: ExceptionClasses
    ) -> None:
        self.function = function
        self._decode = decode
        self._value = decoder(decode)
        self._classes = classes
        self._own = str(getattr(function, "__module__", "")).partition(".")[0]

    def run(self, delivery: Delivery) -> Tried:
        """Call a plain function."""
        attempt = Attempt(delivery.message, delivery.context)
        value = self._decoded(attempt)
        if isinstance(value, FailedCall):
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
        if isinstance(value, FailedCall):
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

    def raised(self, error: BaseException) -> FailedCall:
        """Return what an exception means."""
        error = without_our_frames(error)
        found, kind = fingerprint(error, self._own), self._classes.kind(error)
        asked = retry_after(error, time.time())
        if asked and kind is FailureKind.ORDINARY:
            kind = FailureKind.TRANSIENT  # an error that says when to come again passes
        return FailedCall(
            error_text(error),
            found,
            kind,
            error,
            asked=asked,
            named=self._classes.place(error),
            unreadable=kind is FailureKind.FATAL and isinstance(error, UndecodableBody),
        )

    def _decoded(self, attempt: Attempt) -> Any:
        try:
            return self._value(attempt.message)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 - any error of a decoder is a failure
            failed = self.raised(error)
            passes = isinstance(error, _NOT_THE_BODY) or failed.kind is FailureKind.TRANSIENT
            # Its own text may show the body (pydantic's does).
            ours = isinstance(error, UndecodableBody)
            misfit = misfit_text(error, self._decode) or failed.fingerprint.text
            return replace(
                failed,
                text=failed.text if ours else f"cannot decode the body: {misfit}",
                kind=failed.kind if passes else FailureKind.FATAL,
                error=None,
                unreadable=not passes,
            )

    def _read(self, answer: object, delivery: Delivery) -> Tried:
        """Return the answer if it is a final one; anything else is a failure.

        The text names a foreign value's type only: the value may be the message's body.
        """
        longest = delivery.context.max_suspend
        if too_long(answer, longest):
            text = f"answered {answer}; {longest:g} s is the longest allowed here"
            return FailedCall(text, answered("Suspend, too long"))
        if isinstance(answer, FINAL):
            return answer
        if isinstance(answer, Fail):
            found = answered("Fail", answer.reason, _code_of(self.function))
            return FailedCall(answer.reason, found, answer=answer)
        if isinstance(answer, Coroutine):
            with suppress(BaseException):
                answer.close()  # nobody will await it, which Python would warn of
        kind = type_text(answer)
        text = f"answered {kind}, which is not an outcome; `return Ack()` acknowledges"
        return FailedCall(text, answered(kind))


def _code_of(function: object) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


# --- the call in a worker process -----------------------------------------------------------------
# Memory, verdict and policy stay behind: several processes share the messages, so what one of them
# sees of other keys would prove nothing.


class Work:
    """Handles one message and answers with what the try came to. Can be pickled.

    Args:
        trial: the listener's.
    """

    def __init__(self, trial: HandlerCall) -> None:
        self._trial = trial
        self.__qualname__ = str(getattr(trial.function, "__qualname__", type(trial.function)))

    def __call__(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Any:
        """Run the function; the answer is a `Tried`."""
        tried = self._trial.run(Delivery(messages[0], context))
        return tried.portable() if isinstance(tried, FailedCall) else tried

    def __reduce__(self) -> tuple[Callable[..., Work], tuple[Any, ...]]:
        """Pickle a decorated function's by name: that name means the listener, not the function."""
        function = self._trial.function
        place = str(getattr(function, "__module__", "")), self.__qualname__
        if getattr(_at(sys.modules.get(place[0]), place[1]), "__wrapped__", None) is function:
            return _found, place
        return Work, (self._trial,)


class Elsewhere:
    """Runs a `Work` in another process, for a listener. Thread-safe.

    Args:
        trial: the listener's.
        call: the consumer's handler that calls the Work there.
    """

    def __init__(
        self, trial: HandlerCall, call: Callable[[Sequence[ReceivedMessage], ConsumeContext], Any]
    ) -> None:
        self._trial = trial
        self._call = call

    def run(self, delivery: Delivery) -> Tried:
        """Run the function there; that its process died is a failure, too."""
        try:
            tried: Tried = self._call((delivery.message,), delivery.context)
        except PASSED_ON:
            raise
        except BaseException as error:  # noqa: BLE001 - it died, hung, or cannot load the function
            return self._trial.raised(error)
        return tried


def _found(module: str, name: str) -> Work:
    work: Work = _at(import_module(module), name).work
    return work


def _at(module: Any, name: str) -> Any:
    return reduce(lambda holder, part: getattr(holder, part, None), name.split("."), module)
