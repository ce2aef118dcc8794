"""What all questions of one scan have in common: whom they go to, and until when."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Round:
    """One scan's addresses and its end.

    Attributes:
        masters: address by broker name; a broker without a master is not in it.
        deadline: on time.monotonic.
        proxied: brokers with the topic in which proxies tell each other of their clients.
    """

    masters: Mapping[str, str]
    deadline: float
    proxied: Collection[str] = ()
