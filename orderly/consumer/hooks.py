"""A program's functions, called around handler calls and as queues come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from orderly.config.arguments import check_arguments, check_function
from orderly.consumer.statistics import ReturnType
from orderly.log import error_text
from orderly.model import MessageQueue, ReceivedMessage
from orderly.namespace import is_retry_topic
from orderly.ordering.context import ConsumeContext


@dataclass(frozen=True, slots=True)
class Consumed:
    """How one call of the handler ended.

    Attributes:
        kind: SUCCESS, TIME_OUT, EXCEPTION, RETURNNULL or FAILED (Java: ConsumeReturnType).
        answer: what the handler returned, or the exception it raised.
        seconds: how long it took.
    """

    kind: ReturnType
    answer: object
    seconds: float


@dataclass(frozen=True, slots=True)
class ConsumerHooks:
    """Functions of your program; each is optional. If one raises an error, it is only logged.

    Attributes:
        before: (messages, context), on the handler's thread, just before it.
        after: (messages, context, Consumed), on the handler's thread, before the result is applied.
        assigned: (queues), locked and about to be pulled. While this hook or one of the next two
            runs, nothing else is rebalanced. They run on a thread of the consumer, or on the one
            that calls `close`.
        revoked: (queues), given up: the handler ended, the offset is saved, the queue is unlocked.
        lost: (queues), whose lock was lost: another member can be consuming them already.

    Raises:
        ConfigError: a function that cannot be called with these arguments.
        NotAvailableYet: an `async def`.
    """

    before: Callable[[Sequence[ReceivedMessage], ConsumeContext], object] | None = None
    after: Callable[[Sequence[ReceivedMessage], ConsumeContext, Consumed], object] | None = None
    assigned: Callable[[tuple[MessageQueue, ...]], object] | None = None
    revoked: Callable[[tuple[MessageQueue, ...]], object] | None = None
    lost: Callable[[tuple[MessageQueue, ...]], object] | None = None

    def __post_init__(self) -> None:
        for name, parameters in _PARAMETERS.items():
            hook = getattr(self, name)
            if hook is not None:
                check_function(name, hook)
                check_arguments(name, hook, *parameters)

    def notify(self, name: str, log: Any, queues: Sequence[MessageQueue]) -> None:
        """Call the hook of that name with those of `queues` that the program subscribed."""
        subscribed = tuple(queue for queue in queues if not is_retry_topic(queue.topic))
        if subscribed:
            self.call(name, log, subscribed)

    def call(self, name: str, log: Any, *args: object) -> None:
        """Call the hook of that name, if there is one."""
        hook = getattr(self, name)
        if hook is None:
            return
        try:
            hook(*args)
        except BaseException as error:
            log.warning("hook.raised", hook=name, error=error_text(error), exc_info=True)


_PARAMETERS = {
    "before": ("messages", "context"),
    "after": ("messages", "context", "consumed"),
    "assigned": ("queues",),
    "revoked": ("queues",),
    "lost": ("queues",),
}
