"""The listener: a consumer's handler made of a function for one message."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from functools import partial, update_wrapper
from typing import Any, Literal, Protocol, Self, TypeVar, Unpack, cast, overload

from orderly.clock import now as _now
from orderly.config.arguments import (
    check_arguments,
    check_callable,
    is_async,
    is_number,
)
from orderly.config.fields import require
from orderly.errors import ConfigError
from orderly.interruptions import in_thread_of_its_own
from orderly.listening.decoding import Decode
from orderly.listening.handler_call import (
    AsyncFunction,
    Attempt,
    Delivery,
    Elsewhere,
    Function,
    HandlerCall,
    Tried,
    Work,
)
from orderly.listening.outcomes import Outcome
from orderly.listening.policy import Decision, FailurePolicy
from orderly.listening.samples import Given, delivery_of
from orderly.listening.settings import Rules, Settings
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext
from orderly.ordering.results import Answer, ConsumeResult

# --- listeners ------------------------------------------------------------------------------------


Value = TypeVar("Value")
Value_co = TypeVar("Value_co", covariant=True)
For = Callable[[Value, Attempt], Outcome]
"""A function of that."""
AsyncFor = Callable[[Value, Attempt], Awaitable[Outcome]]
"""The same as an `async def`."""
Clock = Callable[[], float]


def _clock(now: float | None) -> Clock:
    """The clock of a run alone.

    Raises:
        ConfigError: `now` is neither None nor a number of seconds.
    """
    require(now is None or is_number(now), f"now must be a number of seconds or None, not {now!r}")
    return _now if now is None else lambda: now


class _Common:
    """The common part of plain and async listeners."""

    def __init__(
        self,
        function: Function | AsyncFunction,
        decode: Decode | None,
        settings: Settings,
    ) -> None:
        check_callable("the listener's function", function)
        given = "message" if decode is None else "value"
        check_arguments("the listener's function", function, given, "attempt")
        self.rules = Rules(decode=decode, **settings)
        self._trial = HandlerCall(function, self.rules.decode, self.rules.classes)
        self._judge = FailurePolicy(self.rules)
        update_wrapper(cast("Any", self), function, updated=())

    @property
    def parks(self) -> bool:
        """Whether a poisoned message's key is parked: that needs order="key"."""
        return self.rules.parks

    @property
    def judges(self) -> bool:
        """Whether a verdict decides when a message is given up; then no count of tries may."""
        return self.rules.poison is not None

    @property
    def unrenewed(self) -> float:
        """Seconds for which retries go on without renewing the queue's lock."""
        return 0.0 if self.rules.retry.extend else self.rules.retry.max_seconds

    @property
    def dry_run(self) -> bool:
        """Whether the function supports a dry run."""
        return self.rules.dry_run

    def failing_for(self, group: str) -> float:
        """For how many seconds most keys have failed and none has succeeded; 0.0: it is not so.

        Args:
            group: the consumer group, as at the broker.
        """
        return self._judge.memory(group).failing_for(_now())

    def call_failed(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext, error: BaseException
    ) -> Answer:
        """Count a call that was ended from outside as a failure of its first unfinished message.

        For a consumer that ends a call which hangs. Returns the call's answer.
        """
        for message in messages:
            if message.queue_offset not in context.finished:
                delivery = Delivery(message, context)
                decision = self._judge.decide(delivery, self._trial.raised(error), _now())
                return _apply(decision, delivery, messages) or ConsumeResult.SUSPEND
        return ConsumeResult.SUCCESS

    def _judge_at(self, now: float | None) -> FailurePolicy:
        return FailurePolicy(self.rules) if now is None else self._judge


class Listener(_Common):
    """Turns a plain single-message function into a handler.

    `orderly.listener(...)` is the decorator for it.

        def ship(message, attempt):
            ...
            return Ack()

        by_key = ConsumerConfig(order="key")
        OrderlyConsumer("shipping", Listener(ship, on_poison="park_key"), config=by_key)

    A failing message is retried soon (`retry`), then after growing waits. Only its own queue, or
    key, waits meanwhile, and no later message of it runs first. Comparison with other keys decides
    whether the message is bad or something is down. In an outage everything waits and nothing is
    given up; a bad message is treated as `on_error` or `on_poison` says.

    Thread-safe. The function must be thread-safe, too, because queues, or keys, run in parallel.
    The listener's memory is bounded, separate for each group, and lost with the process. A consumer
    with `max_reconsume_times` refuses it unless poison=None, because that setting would send
    messages to the dead letters against `on_poison`.

    Args:
        function: called with (message, attempt), or with `decode` (value, attempt); returns an
            Outcome. An exception, None or anything else is a failure.
        decode: see `Rules`.
        settings: the others of `Rules`.

    Raises:
        ConfigError: a setting outside its range, settings that contradict each other, or an async
            function.
    """

    @overload
    def __init__(
        self, function: For[ReceivedMessage], *, decode: None = None, **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self, function: Function, *, decode: Literal["json"], **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self, function: For[bytes], *, decode: Literal["bytes"], **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self, function: For[Value], *, decode: type[Value], **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self,
        function: For[Value],
        *,
        decode: Callable[[bytes], Value],
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self, function: Function, *, decode: Decode | None = None, **settings: Unpack[Settings]
    ) -> None:
        if is_async(function):
            raise ConfigError("the function is async: use AsyncListener, or @orderly.listener(...)")
        super().__init__(function, decode, settings)
        self._run: Callable[[Delivery], Tried] = self._trial.run

    def __call__(self, messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
        """Handle a batch in order, up to the first message that is not done."""
        for message in messages:
            delivery = Delivery(message, context)
            answer = _apply(self._handle(self._judge, delivery, _now), delivery, messages)
            if answer is not None:
                return answer
        return ConsumeResult.SUCCESS

    def run(
        self,
        message: Given,
        *,
        attempt: int = 1,
        now: float | None = None,
        context: ConsumeContext | None = None,
    ) -> Outcome:
        """Run the function alone, in a test; returns what would happen to the message.

        Ack, Skip: it is done. Suspend(seconds): it comes again after this time. Block, DeadLetter,
        Park: as their names say.

        Args:
            message: as received, or as a producer sends it.
            attempt: the number of this try. 1: the count that the message has.
            now: seconds on a clock that never goes back. With it, the listener remembers failures
                for the context's group, as for a consumer. None: this run does not affect others.
            context: of a consumer's call; None: a context whose key is the sharding key.

        Raises:
            ConfigError: an argument of another kind, or something that is not a time.
        """
        clock, delivery = _clock(now), delivery_of(message, attempt, context)
        return self._handle(self._judge_at(now), delivery, clock).outcome

    def _handle(self, judge: FailurePolicy, delivery: Delivery, clock: Clock) -> Decision:
        held = judge.hold(delivery, clock())
        if held is None and judge.renews(delivery):
            held = judge.renew(delivery)
        if held is not None:
            return held
        return judge.decide(delivery, self._run(delivery), clock())

    @property
    def work(self) -> Work:
        """The part of this listener that a worker process runs."""
        return Work(self._trial)

    def through(self, call: Callable[[Sequence[ReceivedMessage], ConsumeContext], Answer]) -> Self:
        """Return this listener, with its memory, but with its function run elsewhere.

        Args:
            call: calls `work` in another process.
        """
        listener = copy.copy(self)
        listener._run = Elsewhere(self._trial, call).run  # noqa: SLF001 - it is one of ours
        return listener


class AsyncListener(_Common):
    """A `Listener` for an `async def`. It runs in coroutines on the consumer's event loop.

    Args:
        function: awaited.
        decode: see `Rules`.
        settings: the others of `Rules`.

    Raises:
        ConfigError: a setting outside its range, settings that contradict each other, or a plain
            function.
    """

    @overload
    def __init__(
        self,
        function: AsyncFor[ReceivedMessage],
        *,
        decode: None = None,
        **settings: Unpack[Settings],
    ) -> None: ...

    @overload
    def __init__(
        self, function: AsyncFunction, *, decode: Literal["json"], **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self, function: AsyncFor[bytes], *, decode: Literal["bytes"], **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self, function: AsyncFor[Value], *, decode: type[Value], **settings: Unpack[Settings]
    ) -> None: ...

    @overload
    def __init__(
        self,
        function: AsyncFor[Value],
        *,
        decode: Callable[[bytes], Value],
        **settings: Unpack[Settings],
    ) -> None: ...

    def __init__(
        self, function: AsyncFunction, *, decode: Decode | None = None, **settings: Unpack[Settings]
    ) -> None:
        if not is_async(function):
            raise ConfigError("the function is not async: use Listener, or @orderly.listener(...)")
        super().__init__(function, decode, settings)

    async def __call__(
        self, messages: Sequence[ReceivedMessage], context: ConsumeContext
    ) -> Answer:
        """Handle a batch in order, up to the first message that is not done."""
        for message in messages:
            delivery = Delivery(message, context)
            answer = _apply(await self._handle(self._judge, delivery, _now), delivery, messages)
            if answer is not None:
                return answer
        return ConsumeResult.SUCCESS

    async def run(
        self,
        message: Given,
        *,
        attempt: int = 1,
        now: float | None = None,
        context: ConsumeContext | None = None,
    ) -> Outcome:
        """Run the function alone, in a test: see `Listener.run`."""
        clock, delivery = _clock(now), delivery_of(message, attempt, context)
        return (await self._handle(self._judge_at(now), delivery, clock)).outcome

    async def _handle(self, judge: FailurePolicy, delivery: Delivery, clock: Clock) -> Decision:
        held = judge.hold(delivery, clock())
        if held is None and judge.renews(delivery):
            held = await in_thread_of_its_own(partial(judge.renew, delivery), "orderly-renewing")
        if held is not None:
            return held
        try:
            tried = await self._trial.run_async(delivery)
        except asyncio.CancelledError:
            if delivery.context.lost.is_set():  # else `call_failed` may follow
                judge.untried(delivery)
            raise
        return judge.decide(delivery, tried, clock())


def _apply(
    decision: Decision, delivery: Delivery, messages: Sequence[ReceivedMessage]
) -> Answer | None:
    """Apply a decision; an answer ends the batch, and what is behind was not tried."""
    answer = decision.apply(delivery)
    if answer is not None:
        for later in messages:
            if later.queue_offset > delivery.message.queue_offset:
                delivery.context.not_tried(later)
    return answer


class Decorator(Protocol[Value_co]):
    """What `listener(...)` returns: a decorator for a function of the decoded body."""

    @overload
    def __call__(self, function: For[Value_co], /) -> Listener: ...

    @overload
    def __call__(self, function: AsyncFor[Value_co], /) -> AsyncListener: ...


@overload
def listener(function: For[ReceivedMessage], /) -> Listener: ...


@overload
def listener(function: AsyncFor[ReceivedMessage], /) -> AsyncListener: ...


@overload
def listener(
    *, decode: None = None, **settings: Unpack[Settings]
) -> Decorator[ReceivedMessage]: ...


@overload
def listener(*, decode: Literal["json"], **settings: Unpack[Settings]) -> Decorator[Any]: ...


@overload
def listener(*, decode: Literal["bytes"], **settings: Unpack[Settings]) -> Decorator[bytes]: ...


@overload
def listener(*, decode: type[Value], **settings: Unpack[Settings]) -> Decorator[Value]: ...


@overload
def listener(
    *, decode: Callable[[bytes], Value], **settings: Unpack[Settings]
) -> Decorator[Value]: ...


def listener(
    function: Function | AsyncFunction | None = None,
    /,
    *,
    decode: Decode | None = None,
    **settings: Unpack[Settings],
) -> Decorator[Any] | Listener | AsyncListener:
    """Turn a single-message function, plain or async, into a consumer handler.

        @orderly.listener(on_poison="park_key", on_error={ValueError: "dead_letter"})
        def ship(message, attempt):
            ...
            return Ack()

        OrderlyConsumer("shipping", ship, config=ConsumerConfig(order="key"))

    A type checker compares the function with `decode`: the function must take the decoded body.
    With "json" it can take anything, since the body can be anything.

    Args:
        function: the function, if you write `@orderly.listener` without settings.
        decode: see `Rules`.
        settings: those of `Rules`; see `Listener`.

    Raises:
        ConfigError: a setting outside its range, or two that contradict each other.
    """
    if function is not None:
        return _listener(function, decode, **settings)
    Rules(decode=decode, **settings)  # wrong settings fail where they are written
    return cast("Decorator[Any]", partial(_listener, decode=decode, **settings))


def _listener(
    function: Function | AsyncFunction, decode: Decode | None, **settings: Unpack[Settings]
) -> Listener | AsyncListener:
    kind: Any = AsyncListener if is_async(function) else Listener
    return cast("Listener | AsyncListener", kind(function, decode=decode, **settings))
