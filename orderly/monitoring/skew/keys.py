"""Which keys have most of the messages, by a sample. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import final

from orderly.model import MessageQueue
from orderly.monitoring.skew.sketch import TopCounts
from orderly.monitoring.skew.what_if import Outcome, Trial, at_work, queues_if, worth_telling
from orderly.selectors import KEYED, Layout, queues_of

TOP = 20  # keys that are told one by one
_COUNTERS = 10_000  # 2 MB or so, whatever the number of keys


@dataclass(frozen=True, slots=True)
class HotKey:
    """One of the most frequent keys; `least` to `most` messages of the sample have it.

    Attributes:
        queue: where it was found first.
        split: it was found in several queues, so nothing keeps its order.
    """

    key: str
    least: int
    most: int
    queue: MessageQueue
    split: bool = False


@dataclass(frozen=True, slots=True)
class KeySkew:
    """What a sample of a topic's messages says of its keys.

    Attributes:
        messages: how many were read; `keyless` of them have no key.
        keys: how many different keys there are; None: more than were counted apart.
        top: the most frequent ones, most frequent first.
        splits: of the keys counted, how many were found in several queues.
        queues: how many the topic has now.
        outcomes: what if; the present number of queues first. What its outcome moves does not lie
            where that selector puts it.
    """

    messages: int
    keyless: int
    keys: int | None
    top: tuple[HotKey, ...]
    splits: int
    queues: int
    outcomes: tuple[Outcome, ...]

    @property
    def keyed(self) -> int:
        """Messages with a key; shares are shares of these."""
        return self.messages - self.keyless

    @property
    def least_share(self) -> float:
        """What the busiest queue has at least, of the keyed messages, however many there are."""
        return max((key.least for key in self.top), default=0) / max(1, self.keyed)

    @property
    def present(self) -> Outcome | None:
        """The selector that explains best where the messages lie now; None: no keys."""
        return _at_work(self.outcomes, self.queues)


@final
class KeyTally:
    """Counts the keys of sampled messages, and tries selectors on them. Not thread-safe.

    Args:
        layout: of the topic, now.
        topic: its name.
        what_if: other numbers of queues.
        counters: keys to count apart.
    """

    def __init__(
        self, layout: Layout, topic: str, what_if: Iterable[int] = (), counters: int = _COUNTERS
    ) -> None:
        now = queues_of(layout, topic)
        numbers = dict.fromkeys([len(now), *sorted(what_if)])
        self._queues = len(now)
        self._counts = TopCounts[str](counters)
        self._found: dict[str, MessageQueue] = {}
        self._split: set[str] = set()
        self._keyless = 0
        self._trials: Sequence[Trial] = [
            Trial(selector, queues_if(layout, topic, number))
            for number in numbers
            for selector in KEYED
        ]

    def add(self, key: str | None, queue: MessageQueue) -> None:
        """Count a message of `queue`."""
        if key is None:
            self._keyless += 1
            return
        gone = self._counts.add(key)
        if gone is not None:
            del self._found[gone]
            self._split.discard(gone)
        if self._found.setdefault(key, queue) != queue:
            self._split.add(key)
        for trial in self._trials:
            trial.add(key, queue)

    def result(self) -> KeySkew:
        """What was found so far."""
        outcomes = [it for trial in self._trials if (it := trial.outcome()) is not None]
        return KeySkew(
            messages=self._counts.total + self._keyless,
            keyless=self._keyless,
            keys=len(self._counts) if self._counts.exact else None,
            top=tuple(
                HotKey(it.key, it.least, it.most, self._found[it.key], it.key in self._split)
                for it in self._counts.top(TOP)
            ),
            splits=len(self._split),
            queues=self._queues,
            outcomes=tuple(worth_telling(outcomes, _at_work(outcomes, self._queues))),
        )


def _at_work(outcomes: Iterable[Outcome], queues: int) -> Outcome | None:
    return at_work(each for each in outcomes if each.queues == queues and each.skew)
