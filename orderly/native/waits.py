"""Which messages failed, how often, and until when each is held back.

librocketmq brings a failed message again within a second (after 15 times: 5 s) and takes no wish;
the more it pulls meanwhile, the sooner. So a wait is kept by turning the message away until then.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from orderly.model import ReceivedMessage
from orderly.ordering.latest import put_latest

_MOST = 10_000  # messages; each queue has one that failed
Mark = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class Failed:
    """A message that is to come again: how often it was tried, and when the next try is due."""

    tries: int
    due: float


class Waits:
    """Thread-safe. Times are seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._failed: OrderedDict[Mark, Failed] = OrderedDict()
        self._lock = threading.Lock()

    def tries(self, message: ReceivedMessage) -> int:
        """How often the message failed."""
        failed = self._of(message)
        return 0 if failed is None else failed.tries

    def holds(self, message: ReceivedMessage, now: float) -> bool:
        """Whether the message's wait is not over."""
        failed = self._of(message)
        return failed is not None and now < failed.due

    def settled(self, message: ReceivedMessage) -> None:
        """The message will not come again."""
        with self._lock:
            self._failed.pop(_mark(message), None)

    def again(self, message: ReceivedMessage, due: float, *, tried: bool) -> None:
        """The message comes again, not before `due`; an attempt counts if it was `tried`."""
        with self._lock:
            mark = _mark(message)
            before = self._failed.get(mark, Failed(0, due))
            put_latest(self._failed, mark, Failed(before.tries + tried, due), _MOST)

    def _of(self, message: ReceivedMessage) -> Failed | None:
        with self._lock:
            return self._failed.get(_mark(message))


def _mark(message: ReceivedMessage) -> Mark:
    queue = message.queue
    return queue.topic, queue.queue_id, message.queue_offset, message.message_id
