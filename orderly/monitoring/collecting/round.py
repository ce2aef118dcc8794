"""What all questions of one scan have in common: whom they go to, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    """One scan's addresses and its end.

    Attributes:
        masters: address by broker name; a broker without a master is not in it.
        deadline: on time.monotonic.
    """

    masters: Mapping[str, str]
    deadline: float
