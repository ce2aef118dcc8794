"""Do all producers of a topic put keys into the same queues, and by which selector? Pure.

What a sample of messages shows goes in; what explains it, and what it means, come out.
`collecting.stored_keys` reads the messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import exp, log
from typing import final

from orderly.message import Message
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.texts import counted
from orderly.selectors import KEYED, Layout, queues_of


@dataclass(frozen=True, slots=True)
class Sighting:
    """A key in a queue.

    Attributes:
        key: as it is stored.
        queue: where.
        messages: how many of it were seen there.
        first, last: when the earliest and the latest of them were stored, seconds since the epoch.
    """

    key: str
    queue: MessageQueue
    messages: int
    first: float
    last: float

    @property
    def place(self) -> str:
        """The queue without its topic: "broker-a/3"."""
        return f"{self.queue.broker_name}/{self.queue.queue_id}"


@final
class Sightings:
    """Collects them. Holds every key of what was read, so that is the bound. Not thread-safe."""

    def __init__(self) -> None:
        self.messages = 0
        self.keyless = 0
        self._found: dict[str, dict[MessageQueue, Sighting]] = {}

    def add(self, key: str | None, queue: MessageQueue, stored: float) -> None:
        """Count a message.

        Args:
            key: its sharding key; None: it has none.
            queue: where it lies.
            stored: when, in seconds since the epoch.
        """
        self.messages += 1
        if key is None:
            self.keyless += 1
            return
        queues = self._found.setdefault(key, {})
        seen = queues.get(queue) or Sighting(key, queue, 0, stored, stored)
        queues[queue] = Sighting(
            key, queue, seen.messages + 1, min(seen.first, stored), max(seen.last, stored)
        )

    @property
    def keys(self) -> int:
        """How many different ones."""
        return len(self._found)

    def __iter__(self) -> Iterator[Sighting]:
        """All of them, a key's together."""
        return (seen for queues in self._found.values() for seen in queues.values())

    def split(self) -> list[tuple[Sighting, ...]]:
        """Keys that were seen in several queues, the most frequent first; each as it came by."""
        return [key for key in self.top(self.keys) if len(key) > 1]

    def top(self, most: int) -> list[tuple[Sighting, ...]]:
        """The most frequent keys, the most frequent first; each as it came by."""
        keys = (tuple(queues.values()) for queues in self._found.values())
        first = nsmallest(most, keys, key=lambda key: (-_messages(key), key[0].key))
        return [tuple(sorted(key, key=lambda seen: (seen.first, seen.queue))) for key in first]


def _messages(key: Iterable[Sighting]) -> int:
    return sum(seen.messages for seen in key)


# --- which selectors put keys where they were seen ------------------------------------------------
# Greedy: the selector that explains most of what is seen, then the one that explains most of the
# rest, and so on, as long as chance alone would not do the same. First with the topic's present
# queues, then with fewer, as it had before it grew. Of several that explain the same (hash_mod and
# numeric_mod on keys of one digit), all are named.


_RARE = 1e-4  # what happens by chance no more often than that is no chance
_MOST_EARLIER = 64  # numbers of queues that are tried
_ENOUGH = 500  # sightings that earlier numbers of queues are tried on


@dataclass(frozen=True, slots=True)
class PlacementExplanation:
    """Selectors that put some of the keys where they are.

    Attributes:
        selectors: their names, the most usual first; they all explain the same.
        queues: with how many queues.
        seen: what they explain, and those before do not.
    """

    selectors: tuple[str, ...]
    queues: int
    seen: frozenset[Sighting]

    @property
    def messages(self) -> int:
        """How many of the sample."""
        return sum(each.messages for each in self.seen)


def explain(
    layout: Layout, topic: str, seen: Iterable[Sighting]
) -> tuple[list[PlacementExplanation], list[Sighting]]:
    """Explain sightings.

    Args:
        layout: of the topic, now.
        topic: its name.
        seen: keys in queues.

    Returns:
        What explains them, that which explains most first; and what nothing explains.
    """
    found: list[PlacementExplanation] = []
    rest = list(seen)
    now = queues_of(layout, topic)
    while (best := _best([now], rest)) is not None:
        found.append(best)
        rest = _without(rest, best)
    numbers = range(2, min(len(now), _MOST_EARLIER + 1))
    earlier = [queues_if(layout, topic, number) for number in numbers]
    while rest and (best := _best(earlier, rest)) is not None:
        found.append(best)
        rest = _without(rest, best)
    return found, rest


def fitting(layout: Layout, topic: str, seen: Iterable[Sighting]) -> tuple[str, ...]:
    """The selectors that put all of it where it lies, by chance or not; the most usual first.

    Args:
        layout: of the topic, now.
        topic: its name.
        seen: keys in queues.
    """
    queues, seen = queues_of(layout, topic), list(seen)
    return tuple(name for name in KEYED if seen and all(_explained(name, queues, seen)))


def _without(rest: Iterable[Sighting], gone: PlacementExplanation) -> list[Sighting]:
    return [each for each in rest if each not in gone.seen]


def _best(
    layouts: Sequence[Sequence[MessageQueue]], seen: Sequence[Sighting]
) -> PlacementExplanation | None:
    """What explains most of it; None: nothing beyond chance."""
    few = seen if len(layouts) == 1 else seen[:_ENOUGH]
    tried = [(name, queues) for queues in layouts for name in KEYED]
    right = [sum(_explained(name, queues, few)) for name, queues in tried]
    most = max(right, default=0)
    if not most:
        return None
    name, queues = tried[right.index(most)]
    if chance(most, len(few), len(queues)) * len(tried) > _RARE:
        return None
    right_ones = _of(name, queues, seen)
    same = [other for other in KEYED if _of(other, queues, seen) == right_ones]
    return PlacementExplanation(tuple(same), len(queues), right_ones)


def _of(name: str, queues: Sequence[MessageQueue], seen: Sequence[Sighting]) -> frozenset[Sighting]:
    right = _explained(name, queues, seen)
    return frozenset(each for each, is_right in zip(seen, right, strict=True) if is_right)


def _explained(
    name: str, queues: Sequence[MessageQueue], seen: Iterable[Sighting]
) -> Iterator[bool]:
    """Of each sighting, whether the selector puts its key there."""
    rule, message = KEYED[name], Message(queues[0].topic, b"-")
    for each in seen:
        given = rule.given(each.key)
        yield given is not None and rule.selector(queues, message, given) == each.queue


def chance(right: int, tries: int, queues: int) -> float:
    """How likely a selector that has nothing to do with it is right at least so often, at most.

    Chernoff's bound of the binomial distribution; of a hit in every try it is exact.

    Args:
        right: sightings that it explains, 1 or more.
        tries: sightings in all.
        queues: of which it chose one each time.
    """
    share, by_chance = right / tries, 1 / queues
    if share <= by_chance:
        return 1.0
    misses = (1 - share) * log((1 - share) / (1 - by_chance)) if share < 1 else 0.0
    nats = tries * (share * log(share / by_chance) + misses)
    return exp(-nats)


def queues_if(layout: Layout, topic: str, number: int) -> tuple[MessageQueue, ...]:
    """The queues of the topic if there were `number`, spread evenly over the same brokers."""
    if number == sum(count for _, count in layout.brokers):
        return queues_of(layout, topic)
    each, more = divmod(number, len(layout.brokers))
    counts = [(name, each + (place < more)) for place, (name, _) in enumerate(layout.brokers)]
    return queues_of(Layout(tuple((name, count) for name, count in counts if count)), topic)


# --- what a sample says of a topic's producers ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found.

    Attributes:
        topic: its name.
        layout: its queues now.
        messages: how many were read; `keyless` of them have no key.
        keys: how many different ones there are.
        split: keys seen in several queues, the most frequent first.
        explained: by which selectors the keys were placed, the one that explains most first.
        unexplained: what no selector explains.
        fitting: selectors that put all of that where it lies, if it is too little to decide.
    """

    topic: str
    layout: Layout
    messages: int
    keyless: int
    keys: int
    split: tuple[tuple[Sighting, ...], ...]
    explained: tuple[PlacementExplanation, ...]
    unexplained: tuple[Sighting, ...]
    fitting: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """WARNING: a key in several queues, or several placements; UNKNOWN: no key was seen."""
        if not self.keys:
            return Verdict.UNKNOWN
        return Verdict.WARNING if self.split or self.mixed else Verdict.OK

    @property
    def mixed(self) -> bool:
        """Whether keys were placed in more than one way."""
        return len(self.explained) + bool(self.unexplained) > 1

    def rules_of(self, seen: Sighting) -> tuple[str, ...]:
        """The selectors that put a key there; none if nothing explains it."""
        return next((each.selectors for each in self.explained if seen in each.seen), ())

    def say(self) -> Iterator[str]:
        """All of it in sentences, the most important first."""
        if not self.keys:
            yield from self._about_nothing()
            return
        if self.split:
            yield (
                f"{counted(len(self.split), 'key')} of {self.keys} "
                f"{'was' if len(self.split) == 1 else 'were'} seen in several queues: nothing keeps"
                " the order of their messages."
            )
        else:
            yield f"Each of {counted(self.keys, 'key')} was seen in one queue."
        yield from self._about_rules()
        if self.keyless:
            yield (
                f"{counted(self.keyless, 'message')} of {self.messages} without a sharding key"
                " left out: Java's producers do not store it unless they set __SHARDINGKEY."
            )

    def _about_nothing(self) -> Iterator[str]:
        read = counted(self.messages, "message")
        yield (
            f"None of {read} that could be read has a sharding key, so nothing can be said. Java's"
            " producers do not store the key unless they set the property __SHARDINGKEY."
        )

    def _about_rules(self) -> Iterator[str]:
        if not self.explained:
            yield self._about_unknown_rule()
            return
        if not self.mixed:
            yield f"All keys are where {self._shown(self.explained[0])} puts them."
            return
        yield (
            f"Producers place keys in different ways: {self._parts()}. A key that several of them"
            " send is in several queues. Let all use one selector. After a change of the number of"
            " queues, let consumers finish the messages stored before."
        )

    def _about_unknown_rule(self) -> str:
        queues = sum(count for _, count in self.layout.brokers)
        if queues == 1:
            return "The topic has one queue, so every selector puts every key there."
        if self.fitting:
            return (
                f"{_named(self.fitting)} puts all of them there, which can be chance:"
                f" {counted(self.keys, 'key')} are too few to be sure."
            )
        return (
            "No known selector explains where they are: producers choose in their own way, or"
            f" {counted(self.keys, 'key')} are too few to be sure."
        )

    def _parts(self) -> str:
        places = len(self.unexplained) + sum(len(each.seen) for each in self.explained)
        first, *more = map(self._shown, self.explained)
        counts = [len(each.seen) for each in self.explained]
        parts = [f"{first} explains {counts[0]}"]
        parts += [f"{name} {count}" for name, count in zip(more, counts[1:], strict=True)]
        if self.unexplained:
            parts.append(f"and nothing known {len(self.unexplained)}")
        return f"of {places} places of keys {', '.join(parts)}"

    def _shown(self, each: PlacementExplanation) -> str:
        now = sum(count for _, count in self.layout.brokers)
        with_queues = "" if each.queues == now else f", with {each.queues} queues as before"
        return _named(each.selectors, with_queues)


def _named(selectors: tuple[str, ...], more: str = "") -> str:
    return f"{' or '.join(selectors)} ({KEYED[selectors[0]].producers}{more})"


def judge(layout: Layout, topic: str, seen: Sightings) -> Findings:
    """Judge a sample.

    Args:
        layout: of the topic, now.
        topic: its name.
        seen: the sample.
    """
    explained, unexplained = explain(layout, topic, seen)
    return Findings(
        topic,
        layout,
        seen.messages,
        seen.keyless,
        seen.keys,
        tuple(seen.split()),
        tuple(explained),
        tuple(unexplained),
        () if explained else fitting(layout, topic, unexplained),
    )
