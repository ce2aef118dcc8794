"""A handler's call: what the handler can read, and what it can set besides its answer."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from orderly.config.arguments import MAX_SUSPEND, MIN_SUSPEND, check_given, check_number, check_text
from orderly.errors import ConfigError
from orderly.model import MessageQueue, ReceivedMessage
from orderly.ordering.fingerprint import Fingerprint
from orderly.ordering.results import Answer, ConsumeResult


class Lost(Protocol):
    """Whether the queue was lost. A threading.Event is one."""

    def is_set(self) -> bool:
        """Whether it is lost by now."""

    def wait(self, timeout: float | None = None) -> bool:
        """Block for up to `timeout` seconds, None: for ever; returns whether it is lost."""


class QueueOwnership(Protocol):
    """One ownership of a queue, from taking it to giving it up or losing it. Thread-safe.

    The attributes are those of `ConsumeContext` that have the same names.
    """

    @property
    def token(self) -> int | None:
        """Rises each time the queue is taken."""

    def generation_of(self, key: Hashable | None, replayed: bool) -> int:
        """The generation of the topic that a message of `key` belongs to."""

    @property
    def deadline(self) -> float:
        """Nobody else can own the queue before this time."""

    @property
    def lost(self) -> Lost:
        """Set when the queue is no longer ours."""

    def extend(self) -> float:
        """Renew the queue's lock now; returns the new deadline; raises LockLost."""


class _NeverLost:
    """What a context without an ownership has: nothing is owned, so nothing is lost."""

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
        return False


_NEVER_LOST = _NeverLost()


@dataclass(frozen=True, slots=True)
class Failure:
    """What is known about a message that will be parked.

    Attributes:
        reason: why it is parked.
        attempts: how often it was tried; 0: never.
        fingerprint: of the failure, for people (see `ordering.fingerprint`); None: not known.
        first_error, last_error: of its attempts; None: not known.
        error: what was raised last, for the log only.
        evidence: the reasons of a listener's verdict, for the log only.
    """

    reason: str
    attempts: int = 0
    fingerprint: str | None = None
    first_error: str | None = None
    last_error: str | None = None
    error: BaseException | None = field(default=None, compare=False, repr=False)
    evidence: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


_NAMED: dict[str, Callable[[], Any]] = {
    "parked": dict,
    "finished": set,
    "untried": set,
    "rejected": dict,
}


@dataclass(slots=True)
class ConsumeContext:
    """One call of a handler. Use it only in that call's thread or coroutine.

    In a test you can make one yourself. It has no ownership then, so it is never lost.

    Attributes:
        message_queue: the queue that the messages came from.
        group: the consumer group. Both names are the broker's: with the client's namespace.
        attempt: 1 for the first try of the batch's first message; counted in memory, so it starts
            over after a rebalance or a restart.
        auto_commit: set it to False before you return SUCCESS (keep), COMMIT or ROLLBACK. It
            applies to this call only (Java: ConsumeOrderlyContext).
        finished: queue offsets that `done` named.
        untried: queue offsets that `not_tried` named.
        key: the key that all messages of the batch share; None: ordered by queue, or without a key.
        ownership: the ownership of the queue, behind `token`, `deadline`, `lost` and `extend`.
        max_suspend: the longest wait that `suspend` accepts, in seconds.
        replayed: the message was parked and is being released.
        dry_run: nothing is acknowledged, whichever outcome the handler returns: it must leave no
            trace. Only handlers that support a dry run are called with it.
        redact_keys: do not show keys, not even in the handler's own logs.
        parked: queue offset -> reason, of messages that `park` named.
        rejected: queue offset -> reason, of messages that `dead_letter` named.
        fingerprint: how the message failed; set by a listener, because its answer does not say.
        because: why it is not given up yet; set by a listener.
        names_some: whether `parked`, `finished`, `untried` or `rejected` was used; they are created
            on first use, since most calls need none.
    """

    message_queue: MessageQueue
    group: str = ""
    attempt: int = 1
    auto_commit: bool = True
    key: Hashable | None = None
    ownership: QueueOwnership | None = None
    max_suspend: float = MAX_SUSPEND
    replayed: bool = False
    dry_run: bool = False
    redact_keys: bool = False
    parked: dict[int, Failure] = field(init=False)
    finished: set[int] = field(init=False)
    untried: set[int] = field(init=False)
    rejected: dict[int, str] = field(init=False)
    fingerprint: Fingerprint | None = field(default=None, init=False)
    because: str | None = field(default=None, init=False)
    names_some: bool = field(default=False, init=False, compare=False, repr=False)
    _suspend: float | None = field(default=None, init=False)

    if not TYPE_CHECKING:  # or no misspelt attribute would be found

        def __getattr__(self, name: str) -> Any:
            """Called for a slot that is unset."""
            if name not in _NAMED:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            made = _NAMED[name]()
            setattr(self, name, made)
            self.names_some = True
            return made

    @property
    def token(self) -> int | None:
        """A number that rises each time another member takes the queue; None by queue.

        Store it with your data, and refuse a write whose token is below the stored one. Then even a
        process that was paused and did not notice the loss of its queue cannot overwrite newer
        work.
        """
        return None if self.ownership is None else self.ownership.token

    @property
    def generation(self) -> int:
        """How often the topic was recreated since the group's state topic was created.

        Offsets of different generations cannot be compared. Always 0 with order by queue, which
        keeps no record of it.
        """
        generation_of = getattr(
            self.ownership, "generation_of", None
        )  # one made by hand may lack it
        return 0 if generation_of is None else int(generation_of(self.key, self.replayed))

    @property
    def deadline(self) -> float:
        """No other member can own the queue before this time.

        In seconds on the system's CLOCK_BOOTTIME. It moves forward whenever the consumer renews the
        lock.
        """
        return math.inf if self.ownership is None else self.ownership.deadline

    @property
    def lost(self) -> Lost:
        """Set when this member no longer has the queue: stop, another member may have it.

        You can call `is_set()` anywhere. `wait(seconds)` blocks the thread, so do not call it in a
        coroutine; a coroutine is cancelled instead.
        """
        return _NEVER_LOST if self.ownership is None else self.ownership.lost

    def extend(self) -> float:
        """Renew the queue's lock now, by a call to the broker; returns the new `deadline`.

        Use it right before a step that must not happen twice. Blocks for up to a second; calls to
        the same broker share a request. Thread-safe.

        Raises:
            LockLost: this member no longer has the queue.
            OrderlyError: the broker did not answer, or is known to be silent (`RequestTimeout`);
                `deadline` is unchanged.
        """
        return math.inf if self.ownership is None else self.ownership.extend()

    @property
    def suspend_seconds(self) -> float | None:
        """What `suspend` chose, or None for the consumer's setting."""
        return self._suspend

    def suspend(self, seconds: float) -> ConsumeResult:
        """Choose how long the queue, or the key, waits and return SUSPEND.

        `return context.suspend(5)`, which is the same as `return Suspend(5)`.

        Args:
            seconds: 0.01 to `max_suspend`.

        Raises:
            ConfigError: outside that range.
        """
        check_number("suspend's seconds", seconds, MIN_SUSPEND, self.max_suspend)
        self._suspend = seconds
        return ConsumeResult.SUSPEND

    def done(self, message: ReceivedMessage) -> None:
        """Mark one message of the batch as done, independently of the others.

        It does not come again if the batch is suspended; a manual ROLLBACK brings it back. Useful
        with a `batch_size` over 1.
        """
        try:
            self.finished.add(message.queue_offset)
        except AttributeError as error:
            raise _no_message(message) from error

    def not_tried(self, message: ReceivedMessage) -> None:
        """Mark one message of the batch as not tried, because an earlier one failed.

        It comes again, and no attempt is counted for it, even if the batch is acknowledged. Then
        the rest of the batch is done; under manual commit the rest comes again, too.
        """
        try:
            self.untried.add(message.queue_offset)
        except AttributeError as error:
            raise _no_message(message) from error

    def dead_letter(self, message: ReceivedMessage, reason: str) -> ConsumeResult:
        """Send one message of the batch to the group's dead letters instead of trying it again.

        Returns SUSPEND: `return context.dead_letter(message, "no such account")`. The queue waits
            until the dead letter is stored; then the message counts as done. Return SUCCESS instead
            if the rest of the batch is done; under manual commit that rest comes again. A manual
            ROLLBACK brings back all messages in hand except this one.

        Args:
            message: of this batch.
            reason: for the log; not stored with the message.

        Raises:
            ConfigError: an argument of another kind.
        """
        check_text("reason", reason)
        try:
            self.rejected[message.queue_offset] = reason
        except AttributeError as error:
            raise _no_message(message) from error
        return ConsumeResult.SUSPEND

    def park(
        self, message: ReceivedMessage, reason: str, failure: Failure | None = None
    ) -> ConsumeResult:
        """Park the key of one message of the batch, from this message on; see `Park`.

        Returns SUSPEND: `return context.park(message, "no such account")`. Messages that are not
        marked as done by then are parked with it, in order.

        Args:
            message: of this batch.
            reason: for the log, and kept with the message.
            failure: what else is known about the failure.

        Raises:
            ConfigError: an argument of another kind.
        """
        check_text("reason", reason)
        check_given("failure", failure, Failure)
        try:
            failure = failure or Failure(reason, attempts=message.reconsume_times + 1)
            self.parked[message.queue_offset] = failure
        except AttributeError as error:
            raise _no_message(message) from error
        return ConsumeResult.SUSPEND


def _no_message(message: object) -> ConfigError:
    """Made only when it failed: a check beforehand would cost each call."""
    return ConfigError(f"message must be one of the batch, not {type(message).__name__}")


Handler = Callable[[Sequence[ReceivedMessage], ConsumeContext], Answer]
"""A user's function: the batch (1 message unless `batch_size` says more) and its context."""

AsyncHandler = Callable[[Sequence[ReceivedMessage], ConsumeContext], Awaitable[Answer]]
"""The same as an `async def`."""
