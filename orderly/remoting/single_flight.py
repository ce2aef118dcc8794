"""Of many threads that want the same thing at the same moment, one gets it for all.

A broker that dies makes every sender and every puller ask for a connection and a fresh route at
once; without this each of them would wait for its own failure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs at most one piece of work per key at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flights: dict[str, Future[T]] = {}

    def do(self, key: str, work: Callable[[], T]) -> T:
        """Return `work()`, or the result of the same work another thread is doing for `key`.

        Its exception is raised in all threads that waited. If the working thread is interrupted
        (KeyboardInterrupt), one of the others does the work.
        """
        while True:
            with self._lock:
                flight = self._flights.get(key)
                if flight is None:
                    mine = self._flights[key] = Future()
                    break
            try:
                return flight.result()
            except CancelledError:
                continue
        return self._fly(key, mine, work)

    def _fly(self, key: str, flight: Future[T], work: Callable[[], T]) -> T:
        try:
            result = work()
        except Exception as error:
            self._land(key)
            flight.set_exception(error)
            raise
        except BaseException:
            self._land(key)
            flight.cancel()
            raise
        self._land(key)
        flight.set_result(result)
        return result

    def _land(self, key: str) -> None:
        with self._lock:
            del self._flights[key]
