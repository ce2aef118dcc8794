"""A listener's settings, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.config.fields import require
from orderly.config.numbers import MAX_LANE_SUSPEND, MIN_SUSPEND, check_count, check_number
from orderly.listener.outcomes import Block
from orderly.ordering.backoff import doubled
from orderly.ordering.outcomes import DeadLetter


@dataclass(frozen=True, slots=True)
class Retry:
    """Retry in place: the function runs again in its thread, before the queue (or the key) waits.

    Attributes:
        attempts: calls of the function per delivery, the first one included.
        first_wait: seconds before the second one; doubled each time. A random part of up to
            `first_wait` is added.
        max_wait: seconds at which the doubling ends.
        max_seconds: no attempt begins later than this after the first. The queue's lock is renewed
            meanwhile, but closing and handing on wait; keep it below the consumer's
            `close_timeout` (30).
        fatal: exceptions that no retry helps: the limit counts as reached at once.

    Raises:
        ConfigError: a setting outside its range.
    """

    attempts: int = 3
    first_wait: float = 0.1
    max_wait: float = 5.0
    max_seconds: float = 20.0
    fatal: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        check_count("attempts", self.attempts, 1)
        for name in ("first_wait", "max_wait", "max_seconds"):
            check_number(name, getattr(self, name), 0)
        require(self.first_wait <= self.max_wait, "first_wait must not be above max_wait")
        require(
            isinstance(self.fatal, tuple) and all(map(_is_exception, self.fatal)),
            f"fatal must be a tuple of Exception classes such as (ValueError,), not {self.fatal!r}",
        )


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Exception)


@dataclass(frozen=True, slots=True)
class Rules:
    """What follows when the attempts in place have failed. Attributes: see `Listener`."""

    suspend: float
    max_suspend: float
    limit: int | None
    then: type[Block | DeadLetter]

    def __post_init__(self) -> None:
        check_number("suspend", self.suspend, MIN_SUSPEND, MAX_LANE_SUSPEND)
        check_number("max_suspend", self.max_suspend, MIN_SUSPEND, MAX_LANE_SUSPEND)
        require(self.suspend <= self.max_suspend, "suspend must not be above max_suspend")
        if self.limit is not None:
            check_count("limit", self.limit, 0)
        require(
            self.then in (Block, DeadLetter),
            f"then must be the class Block or DeadLetter, not {self.then!r}",
        )

    def wait(self, failures: int) -> float:
        """Seconds the queue waits when there were `failures` failed deliveries before."""
        return doubled(failures + 1, self.suspend, self.max_suspend)

    def at_limit(self, failures: int) -> bool:
        """Whether a delivery that fails after `failures` others is the last."""
        return self.limit is not None and failures >= self.limit
