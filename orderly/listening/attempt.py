"""What a listener's function is told of the call it is in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import final

from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.context import ConsumeContext, Lost


@final
class Attempt:
    """One try of one message: what a ConsumeContext tells, without what acknowledges.

    With a context the function could acknowledge a message beside its answer. `orderly.once` takes
    an attempt in place of a context. Used by the call's thread or coroutine only.

    Args:
        message: that is tried.
        context: of the consumer's call; in a test `ConsumeContext(message.queue)`.
    """

    __slots__ = ("_context", "message")

    def __init__(self, message: ReceivedMessage, context: ConsumeContext) -> None:
        self.message = message
        self._context = context

    @property
    def number(self) -> int:
        """1 for the first try of the message; counted in memory, so a rebalance begins anew."""
        return self.message.reconsume_times + 1

    @property
    def group(self) -> str:
        """The consumer group, as at the broker: with the client's namespace."""
        return self._context.group

    @property
    def key(self) -> Hashable | None:
        """What orders the message; None: its queue, or there is no key."""
        return self._context.key

    @property
    def message_queue(self) -> MessageQueue:
        """Where it came from."""
        return self._context.message_queue

    @property
    def token(self) -> int | None:
        """Rises each time the queue changes hands; see `ConsumeContext.token`."""
        return self._context.token

    @property
    def generation(self) -> int:
        """How often the topic was deleted and made anew; see `ConsumeContext.generation`."""
        return self._context.generation

    @property
    def deadline(self) -> float:
        """Until when nobody else can own the queue: seconds on the system's CLOCK_BOOTTIME."""
        return self._context.deadline

    @property
    def lost(self) -> Lost:
        """Is set when the queue is no longer ours: stop, another member may have it."""
        return self._context.lost

    def extend(self) -> float:
        """Renew the queue's lock now, by a call to the broker; returns the new `deadline`. Blocks.

        Raises:
            LockLost: the queue is no longer ours.
        """
        return self._context.extend()

    @property
    def replayed(self) -> bool:
        """The message was parked, and is being released."""
        return self._context.replayed

    @property
    def dry_run(self) -> bool:
        """Nothing is acknowledged whatever comes of it: leave no trace."""
        return self._context.dry_run

    @property
    def redact_keys(self) -> bool:
        """Keys are not to be shown, in logs of the function's either."""
        return self._context.redact_keys
