"""A listener's settings, checked when they are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypedDict, get_args

from orderly.config.arguments import (
    MAX_LANE_SUSPEND,
    MIN_SUSPEND,
    check_arguments,
    check_function,
    check_number,
)
from orderly.config.fields import require
from orderly.listening.decoding import Decode, decoder
from orderly.listening.handler_call import Attempt, ExceptionClasses, Exceptions
from orderly.listening.outcomes import Outcome
from orderly.listening.retry import Retry
from orderly.model import ReceivedMessage
from orderly.ordering.poison import PoisonRules, PoisonVerdict

Policy = Callable[[ReceivedMessage, Attempt, PoisonVerdict], Outcome]
"""A user's own policy for a poisoned message."""

Named = Literal["block", "dead_letter", "skip", "park_key"]
OnPoison = Named | Policy


class Settings(TypedDict, total=False):
    """What a listener may be given by name besides `decode`; see `Rules`."""

    retry: Retry
    poison: PoisonRules | None
    on_poison: OnPoison
    fatal: Exceptions
    transient: Exceptions
    dry_run: bool
    suspend: float
    max_suspend: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What a listener does with what its function answers.

    Attributes:
        retry: how a failed message is tried again soon.
        poison: tells a bad message from an outage, once the retries are used up (a fatal class: at
            once); None: a failing message is tried for ever, or until the consumer's
            `max_reconsume_times`.
        on_poison: "block" (as Java): tried again every `max_suspend` seconds. "dead_letter": to the
            group's dead letters, with a gap in the key's order. "skip": acknowledged. "park_key":
            it and all later ones of its key are set aside in order; needs order="key". Or a
            function of (message, attempt, verdict) that answers with an outcome; if it fails the
            message blocks. It is plain, so with an AsyncListener it holds the loop up.
        decode: what the function gets in place of the message: "json", "bytes", a pydantic model
            or a function of the body. What cannot be decoded is a fatal failure, but not what
            is transient, an OSError or a MemoryError.
        fatal: exceptions that no other try helps.
        transient: exceptions that pass by themselves, besides ConnectionError, TimeoutError and an
            OrderlyError that is `retriable`.
        dry_run: the function leaves no trace when `attempt.dry_run` says so.
        suspend: seconds to wait after the first failure that is not retried soon, and after
            `Suspend()`, 0.01 or more; doubled each time; by chance half of it to all. After a
            failure only with poison=None, as its rules have waits of their own.
        max_suspend: the longest such wait, and the one of a message that blocks; up to 3600. Queues
            that are ordered as such wait 30 at most.

    Raises:
        ConfigError: a setting outside its range, or two that contradict each other.
    """

    retry: Retry = field(default_factory=Retry)
    poison: PoisonRules | None = field(default_factory=PoisonRules)
    on_poison: OnPoison = "block"
    decode: Decode | None = None
    fatal: Exceptions = ()
    transient: Exceptions = ()
    dry_run: bool = False
    suspend: float = 1.0
    max_suspend: float = 60.0

    def __post_init__(self) -> None:
        require(isinstance(self.retry, Retry), f"retry must be a Retry, not {self.retry!r}")
        require(
            self.poison is None or isinstance(self.poison, PoisonRules),
            f"poison must be a PoisonRules or None, not {self.poison!r}",
        )
        require(isinstance(self.dry_run, bool), f"dry_run must be a bool, not {self.dry_run!r}")
        check_number("suspend", self.suspend, MIN_SUSPEND, MAX_LANE_SUSPEND)
        check_number("max_suspend", self.max_suspend, MIN_SUSPEND, MAX_LANE_SUSPEND)
        require(self.suspend <= self.max_suspend, "suspend must not be above max_suspend")
        decoder(self.decode)
        ExceptionClasses(self.fatal, self.transient)
        self._check_policy()

    @property
    def classes(self) -> ExceptionClasses:
        """What exceptions say."""
        return ExceptionClasses(self.fatal, self.transient)

    def _check_policy(self) -> None:
        if not isinstance(self.on_poison, str):
            check_function("on_poison", self.on_poison)
            check_arguments("on_poison", self.on_poison, "message", "attempt", "verdict")
        else:
            names = get_args(Named)
            require(
                self.on_poison in names,
                f"on_poison must be {', '.join(map(repr, names))} or a function, not"
                f" {self.on_poison!r}",
            )
        for name, idle in (
            ("on_poison", self.on_poison == "block"),
            ("fatal", not self.fatal),
            ("transient", not self.transient),
        ):
            require(
                self.poison is not None or idle,
                f"{name} decides nothing with poison=None, which finds no message poisoned:"
                " leave one of them out",
            )
