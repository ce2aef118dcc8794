"""Fixtures of all tests; `orderly_namesrv` and `orderly_topic` come from the plugin."""

from __future__ import annotations

import queue
from collections.abc import Iterator

import pytest

from orderly import Client


@pytest.fixture
def client(orderly_namesrv: str) -> Iterator[Client]:
    """A client of the session's broker."""
    with Client(namesrv=orderly_namesrv) as client:
        yield client


class Carrier:
    """Notes each call; fails as often as the test says."""

    def __init__(self, failures: int = 0) -> None:
        self.told: queue.Queue[tuple[str, str]] = queue.Queue()
        self._failures = failures

    def __call__(self, order: str, step: str) -> None:
        if self._failures > 0:
            self._failures -= 1
            raise ConnectionError("the carrier does not answer")
        self.told.put((order, step))

    def next(self, count: int) -> list[tuple[str, str]]:
        """Return the next call. A queue waits, so no test sleeps."""
        return [self.told.get(timeout=30) for _ in range(count)]


@pytest.fixture
def carrier() -> type[Carrier]:
    """The class: a test says how often its carrier fails."""
    return Carrier
