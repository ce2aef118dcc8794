"""How much a group may park. At a limit a key blocks; nothing is dropped."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orderly.config.fields import require
from orderly.config.numbers import check_count, is_number

_MOST_KEYS = 10_000  # all of them, with the longest names, fit into one queue's state record
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ParkLimits:
    """Limits of what is parked.

    Each member keeps every queue to its share: the limit divided by the topic's queues.

    Args:
        keys: parked at once, of a group and topic; 1 to 10 000.
        messages: parked at once.
        size: bytes parked at once.
        ratio: of the keys that one member saw in the last five minutes at most this part may be
            newly parked, once five are: after a bad deploy the queues wait instead of parking
            everything. Above 0, up to 1; 1: no such limit.

    Raises:
        ConfigError: a limit that is none.
    """

    keys: int = 1000
    messages: int = 100_000
    size: int = _GIB
    ratio: float = 0.5

    def __post_init__(self) -> None:
        for name in ("keys", "messages", "size"):
            check_count(f"ParkLimits' {name}", getattr(self, name), 1)
        require(self.keys <= _MOST_KEYS, f"ParkLimits' keys must be at most {_MOST_KEYS}")
        require(
            is_number(self.ratio, 0, 1) and self.ratio > 0,
            f"ParkLimits' ratio must be above 0 and at most 1, not {self.ratio!r}",
        )

    def share(self, queues: int) -> ParkLimits:
        """Return what one of a topic's `queues` may park; rounded up."""
        return replace(
            self,
            keys=-(-self.keys // queues),
            messages=-(-self.messages // queues),
            size=-(-self.size // queues),
        )
