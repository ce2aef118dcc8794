"""How the evaluator looks back, and from when on it calls something a problem."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.errors import ConfigError
from orderly.monitoring.backlog.thresholds import NO_THRESHOLDS, Thresholds


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the evaluator.

    Attributes:
        window: seconds over which rates are taken (at least half of it), and for which a committed
            offset that went back is shown.
        min_window: seconds without a commit (STALL) or without a smaller backlog (GROWING) before
            a queue is said to be in trouble. Clients commit every 5 s; a handler that takes longer
            than this for one message looks like a stall.
        min_points: scans within that time, at the least.
        blocked_after: seconds one handler call may take before it is BLOCKED.
        thresholds: limits of a single queue: above one it is LAGGING.

    Raises:
        ConfigError: a time that is not positive, fewer than 2 points, or a window that is too
            short.
    """

    window: float = 300.0
    min_window: float = 120.0
    min_points: int = 3
    blocked_after: float = 60.0
    thresholds: Thresholds = NO_THRESHOLDS

    def __post_init__(self) -> None:
        for name in ("window", "min_window", "blocked_after"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0 seconds, not {getattr(self, name)}")
        if self.min_points < 2:
            raise ConfigError(f"min_points must be 2 or more, not {self.min_points}")
        if self.window < self.min_window:
            raise ConfigError(f"window {self.window:g} s must be min_window or longer")
