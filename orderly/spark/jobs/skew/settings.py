"""What the job is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import ConfigError

MOST_QUEUES = 1024


@dataclass(frozen=True, slots=True)
class SkewSettings:
    """Of the skew job.

    Attributes:
        source: options of the source: one topic, from where to where, how to connect.
        what_if: numbers of queues to try, beside the present one.
        order: of the group that consumes: "key", "queue", "none" or "" (not known).
        redact: whether results show hashes instead of keys.

    Raises:
        ConfigError: a number of queues that no topic has.
    """

    source: Mapping[str, str]
    what_if: tuple[int, ...] = tuple(range(1, 65))
    order: str = ""
    redact: bool = False

    def __post_init__(self) -> None:
        if not all(1 <= number <= MOST_QUEUES for number in self.what_if):
            raise ConfigError(f"numbers of queues are 1 to {MOST_QUEUES}")

    def options(self) -> dict[str, Any]:
        """What was asked, for the result."""
        tried = ", ".join(map(str, self.what_if))
        return {**self.source, "what_if": tried, "order": self.order, "redact": self.redact}
