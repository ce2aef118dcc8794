"""When a topic counts as drained, and when the wait for it ends. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.errors import OrderlyError
from orderly.monitoring.growing.standing import Standing, new_messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to watch and wait, in seconds.

    Attributes:
        watch: for new messages before anything is changed.
        quiet: without a new message after writing was closed: producers renew their routes every
            30 s, and a broker takes what one with an old route sends.
        timeout: until the topic must be drained.
        every: between two looks.
    """

    watch: float = 5.0
    quiet: float = 35.0
    timeout: float = 600.0
    every: float = 1.0


class Wait:
    """What was seen while a topic drains.

    Args:
        patience: how long it may take.
        now: seconds; when it was closed.

    Attributes:
        reason: why it is not drained yet.
        over: it is.
    """

    def __init__(self, patience: Patience, now: float) -> None:
        self._patience = patience
        self._began = now
        self._still_since = now
        self._last: Standing | None = None
        self.reason = ""
        self.over = False

    def seen(self, standing: Standing, now: float) -> None:
        """Take in a look."""
        if self._last is not None and new_messages(self._last, standing):
            self._still_since = now
        self._last = standing
        quiet = self._patience.quiet
        self.over = not standing.behind and now - self._still_since >= quiet
        self.reason = "; ".join(map(str, standing.behind)) or (
            f"all groups have finished; waiting until nothing new came for {quiet:g} s"
        )

    def unknown(self, error: OrderlyError, now: float) -> None:
        """A look failed: the silence begins anew."""
        self.reason = f"not known: {error}"
        self._still_since = now

    def check(self, now: float) -> None:
        """Give up when the time is over.

        Raises:
            OrderlyError: it is; the text says what was waited for.
        """
        if now - self._began >= self._patience.timeout:
            raise OrderlyError(
                f"the topic was not drained within {self._patience.timeout:g} s: {self.reason}."
                " `orderly backlog explain -g <group>` says why a group is behind; one that is"
                " gone for good, or need not be waited for, is left out with --ignore-group"
            )
