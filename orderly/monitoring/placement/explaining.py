"""Which selectors put keys where they were seen. Pure.

Greedy: the selector that explains most of what is seen, then the one that explains most of the
rest, and so on, as long as chance alone would not do the same. First with the topic's present
queues, then with fewer, as it had before it grew. Of several that explain the same (hash_mod and
numeric_mod on keys of one digit), all are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, log

from orderly.model import Message, MessageQueue
from orderly.monitoring.placement.sightings import Sighting
from orderly.monitoring.skew.what_if import queues_if
from orderly.selectors import KEYED, Layout, queues_of

_RARE = 1e-4  # what happens by chance no more often than that is no chance
_MOST_EARLIER = 64  # numbers of queues that are tried
_ENOUGH = 500  # sightings that earlier numbers of queues are tried on


@dataclass(frozen=True, slots=True)
class Explanation:
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
) -> tuple[list[Explanation], list[Sighting]]:
    """Explain sightings.

    Args:
        layout: of the topic, now.
        topic: its name.
        seen: keys in queues.

    Returns:
        What explains them, that which explains most first; and what nothing explains.
    """
    found: list[Explanation] = []
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


def _without(rest: Iterable[Sighting], gone: Explanation) -> list[Sighting]:
    return [each for each in rest if each not in gone.seen]


def _best(
    layouts: Sequence[Sequence[MessageQueue]], seen: Sequence[Sighting]
) -> Explanation | None:
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
    told = _of(name, queues, seen)
    same = [other for other in KEYED if _of(other, queues, seen) == told]
    return Explanation(tuple(same), len(queues), told)


def _of(name: str, queues: Sequence[MessageQueue], seen: Sequence[Sighting]) -> frozenset[Sighting]:
    right = _explained(name, queues, seen)
    return frozenset(each for each, is_right in zip(seen, right, strict=True) if is_right)


def _explained(
    name: str, queues: Sequence[MessageQueue], seen: Iterable[Sighting]
) -> Iterator[bool]:
    """Of each sighting, whether the selector puts its key there."""
    rule, message = KEYED[name], Message(queues[0].topic, b"")
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
