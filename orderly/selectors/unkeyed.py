"""Selectors that do not look at a key: one queue for everything, or any queue at all."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orderly.config.functions import check_arguments, check_function
from orderly.config.numbers import check_count
from orderly.errors import ConfigError
from orderly.model import Message, MessageQueue


@dataclass(frozen=True, slots=True)
class SingleQueue:
    """Global order: every message goes to one queue, whatever its key.

    Throughput is that of one queue. After a failed send the whole queue is held, not one key.

    Args:
        index: of the queue in the topic's list.

    Raises:
        ConfigError: an index below 0.
    """

    index: int = 0

    def __post_init__(self) -> None:
        check_count("index", self.index, 0)

    def __call__(
        self, queues: Sequence[MessageQueue], message: Message, _arg: object
    ) -> MessageQueue:
        """Return the queue at `index`.

        Raises:
            ConfigError: the topic has fewer queues.
        """
        if self.index >= len(queues):
            raise ConfigError(
                f"topic {message.topic} has {len(queues)} queues; there is none at {self.index}"
            )
        return queues[self.index]


single_queue = SingleQueue()


class RoundRobin:
    """Each message to the next queue: an even spread and no order. Thread-safe."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def __call__(
        self, queues: Sequence[MessageQueue], _message: Message, _arg: object
    ) -> MessageQueue:
        """Return the queue whose turn it is."""
        return queues[next(self._turns) % len(queues)]


class RandomQueue:
    """Any queue (Java: SelectMessageQueueByRandom); no order.

    Args:
        pick: `pick(n)` returns a number from 0 to n-1, e.g. `random.randrange`.

    Raises:
        ConfigError: it cannot be called so.
    """

    def __init__(self, pick: Callable[[int], int]) -> None:
        check_function("pick", pick)
        check_arguments("pick", pick, "queues")
        self._pick = pick

    def __call__(
        self, queues: Sequence[MessageQueue], _message: Message, _arg: object
    ) -> MessageQueue:
        """Return the picked queue."""
        return queues[self._pick(len(queues))]
