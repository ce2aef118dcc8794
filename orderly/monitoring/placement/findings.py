"""What a sample says of a topic's producers: the verdict, and sentences. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.placement.explaining import Explanation, explain, fitting
from orderly.monitoring.placement.sightings import Sighting, Sightings
from orderly.monitoring.texts import counted
from orderly.selectors import KEYED, Layout


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
        fitting: selectors that put all of that where it lies, if it is too little to tell.
    """

    topic: str
    layout: Layout
    messages: int
    keyless: int
    keys: int
    split: tuple[tuple[Sighting, ...], ...]
    explained: tuple[Explanation, ...]
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
            yield f"All keys lie where {self._told(self.explained[0])} puts them."
            return
        yield (
            f"Producers place keys in different ways: {self._parts()}. A key that several of them"
            " send lies in several queues. Let all use one selector; after a change of the number"
            " of queues let consumers finish what was stored before."
        )

    def _about_unknown_rule(self) -> str:
        queues = sum(count for _, count in self.layout.brokers)
        if queues == 1:
            return "The topic has one queue, so every selector puts every key there."
        if self.fitting:
            return (
                f"{_named(self.fitting)} puts all of them there, which may be chance:"
                f" {counted(self.keys, 'key')} are too few to tell."
            )
        return (
            "No selector known here explains where they lie: producers choose in a way of their"
            f" own, or {counted(self.keys, 'key')} are too few to tell."
        )

    def _parts(self) -> str:
        places = len(self.unexplained) + sum(len(each.seen) for each in self.explained)
        first, *more = map(self._told, self.explained)
        counts = [len(each.seen) for each in self.explained]
        parts = [f"{first} explains {counts[0]}"]
        parts += [f"{told} {count}" for told, count in zip(more, counts[1:], strict=True)]
        if self.unexplained:
            parts.append(f"and nothing known {len(self.unexplained)}")
        return f"of {places} places of keys {', '.join(parts)}"

    def _told(self, each: Explanation) -> str:
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
