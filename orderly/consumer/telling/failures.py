"""How the messages of one queue fail that are tried again: what the queue's running info tells.

Only the way they fail is kept (`ordering.fingerprint`), nothing of the messages.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from orderly.ordering.fingerprint import Fingerprint
from orderly.ordering.latest import put_latest

_MOST = 1000  # keys of a queue; of one more, the one that failed longest ago is forgotten


@dataclass(frozen=True, slots=True)
class Failing:
    """A message that failed and is tried again.

    Attributes:
        offset: the message's.
        since: of its first failure (seconds).
        fingerprint: of its last one.
    """

    offset: int
    since: float
    fingerprint: Fingerprint


class Failures:
    """Thread-safe; one for each queue held."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, Failing] = OrderedDict()
        self._lock = threading.Lock()

    def failed(self, key: Hashable, offset: int, fingerprint: Fingerprint, now: float) -> None:
        """A lane's message failed at `now` (seconds)."""
        with self._lock:
            before = self._by_key.get(key)
            since = before.since if before is not None and before.offset == offset else now
            put_latest(self._by_key, key, Failing(offset, since, fingerprint), _MOST)

    def succeeded(self, key: Hashable) -> None:
        """A lane's message is done."""
        if self._by_key:  # asked for without the lock: it is called for each message
            with self._lock:
                self._by_key.pop(key, None)

    def of(self, key: Hashable, offset: int) -> Failing | None:
        """What is known of a lane's message, or None: it has not failed."""
        with self._lock:
            found = self._by_key.get(key)
        return found if found is not None and found.offset == offset else None
