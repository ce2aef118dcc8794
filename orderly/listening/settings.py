"""A listener's settings, checked when they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict, cast, get_args

from orderly.config.arguments import (
    MAX_LANE_SUSPEND,
    MIN_SUSPEND,
    check_arguments,
    check_function,
    check_kind,
    check_number,
)
from orderly.config.fields import require
from orderly.listening.decoding import Decode, decoder
from orderly.listening.handler_call import Attempt, ExceptionClasses, FailedCall
from orderly.listening.outcomes import Outcome
from orderly.listening.retry import Retry
from orderly.model import ReceivedMessage
from orderly.ordering.poison import PoisonRules, PoisonVerdict

Policy = Callable[[ReceivedMessage, Attempt, PoisonVerdict], Outcome]
"""A user's own policy for a poisoned message."""

Named = Literal["block", "dead_letter", "skip", "park_key"]
OnPoison = Named | Policy
OnError = Mapping[type[Exception], OnPoison | Literal["wait"]]
"""What you already know about exceptions, by their classes."""


class Settings(TypedDict, total=False):
    """The named arguments of a listener, without `decode`; see `Rules`."""

    retry: Retry
    poison: PoisonRules | None
    on_poison: OnPoison
    on_error: OnError
    dry_run: bool
    suspend: float
    max_suspend: float


@dataclass(frozen=True, slots=True)
class Rules:
    """What a listener does with the answers and failures of its function.

    Attributes:
        retry: when a failed message is retried soon.
        poison: after the retries, decides whether the message is bad or there is an outage. (For a
            class to which `on_error` gives a policy, and for a body that cannot be read, it decides
            at once.) None: a failing message
            is tried for ever, or until the consumer's `max_reconsume_times`.
        on_poison: what to do with a bad message. "block" (as Java): try it again every
            `max_suspend` seconds. "dead_letter": store it in the group's dead letters, which leaves
            a gap in the key's order. "skip": acknowledge it. "park_key": park it and all later
            messages of its key, in order; needs order="key". Or a function of (message, attempt,
            verdict) that returns an outcome; if it fails, the message blocks. The function must be
            plain, so with an AsyncListener it blocks the loop.
        decode: what the function gets instead of the message: "json", "bytes", a pydantic model, or
            the result of your function of the body. A body that cannot be decoded is a bad message,
            without retries. An OSError, a MemoryError and transient errors of the decoder prove
            nothing about the body.
        on_error: what to do for a class of exceptions. If several classes match, the one that comes
            first in the exception's MRO decides: the most specific one, in whatever order you name
            them. "wait": the failure is transient. (ConnectionError, TimeoutError and a `retriable`
            OrderlyError are transient without an entry.) A policy of `on_poison`: retries do not
            help, so apply this policy at once. But if other keys fail in the same way, messages
            wait; with "park_key" only while no message succeeds.
        dry_run: True: the function leaves no trace when `attempt.dry_run` is true.
        suspend: seconds to wait after `Suspend()` and, with poison=None, after the first failure
            that is not retried soon; 0.01 or more. The wait doubles each time. The actual wait is
            drawn between half of it and all of it. The rules of `poison` have their own waits after
            failures.
        max_suspend: the longest such wait in seconds, and the wait of a message that blocks; up to
            3600. With order by queue no wait is longer than 30.

    Raises:
        ConfigError: a setting outside its range, or two that contradict each other.
    """

    retry: Retry = field(default_factory=Retry)
    poison: PoisonRules | None = field(default_factory=PoisonRules)
    on_poison: OnPoison = "block"
    decode: Decode | None = None
    on_error: OnError = field(default_factory=dict)
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
        self._check_policies()

    @property
    def classes(self) -> ExceptionClasses:
        """What exceptions say."""
        return ExceptionClasses(tuple((c, what == "wait") for c, what in self.on_error.items()))

    @property
    def parks(self) -> bool:
        """Whether a key may be parked by name."""
        return "park_key" in (self.on_poison, *self.on_error.values())

    def policy_for(self, failed: FailedCall) -> OnPoison:
        """What is done with a message that is found poisoned, by how it failed last."""
        what = None if failed.named is None else list(self.on_error.values())[failed.named]
        return self.on_poison if what is None or what == "wait" else what

    def _check_policies(self) -> None:
        check_kind("on_error", self.on_error, Mapping, "a mapping of Exception classes to policies")
        object.__setattr__(self, "on_error", dict(self.on_error))  # it is frozen for all others
        for kind, what in self.on_error.items():
            require(
                isinstance(kind, type) and issubclass(kind, Exception),
                "on_error must have Exception classes as its keys, as {ValueError: 'park_key'}, not"
                f" {kind!r}",
            )
            _check_policy(f"on_error of {kind.__name__}", what, ("wait", *get_args(Named)))
        _check_policy("on_poison", self.on_poison, get_args(Named))
        for name, idle in (
            ("on_poison", self.on_poison == "block"),
            ("on_error", not self.on_error),
        ):
            require(
                self.poison is not None or idle,
                f"{name} has no effect with poison=None, which finds no message bad:"
                " leave one of them out",
            )


def _check_policy(name: str, what: object, words: tuple[str, ...]) -> None:
    if isinstance(what, str):
        require(
            what in words,
            f"{name} must be {', '.join(map(repr, words))} or a function, not {what!r}",
        )
    else:
        check_function(name, what)
        check_arguments(name, cast("Policy", what), "message", "attempt", "verdict")
