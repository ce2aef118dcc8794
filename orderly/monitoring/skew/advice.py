"""What to do about skew, in plain sentences. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

from orderly.monitoring.skew.inflow import ENOUGH, Inflow
from orderly.monitoring.skew.keys import HotKey, KeySkew
from orderly.monitoring.skew.what_if import Outcome

FEW = 100  # sampled messages with a key, below which nothing is said of keys
_SURE = 30  # messages of one key, below which its share may be chance
_STRANGE = 0.05  # share of messages that a selector does not explain
_UNEVEN = 1.5  # busiest queue over the mean
_WORTH = 0.8  # what is left of the busiest queue's share, if a change is to be worth it


def advice(
    inflow: Inflow,
    keys: KeySkew,
    order: str = "",
    name: Callable[[str], str] = repr,
    *,
    sampled: bool = True,
) -> tuple[str, ...]:
    """What is to be said, the most important first.

    Args:
        inflow: into the queues.
        keys: of a sample.
        order: of the group that consumes them: "key", "queue", "none" or "" (not known).
        name: writes a key.
        sampled: whether a larger sample could tell more.
    """
    return tuple(_Advisor(inflow, keys, order, name, sampled).say())


@final
@dataclass(frozen=True, slots=True)
class _Advisor:
    inflow: Inflow
    keys: KeySkew
    order: str
    name: Callable[[str], str]
    sampled: bool

    def say(self) -> Iterator[str]:
        """All sentences."""
        if not self.keys.messages:
            yield "No message could be read: there is nothing to judge keys by."
            return
        if not self.keys.keyed:
            yield (
                "No message that was read has a sharding key, so nothing can be said of keys."
                " Java's producers give the key to a selector and do not store it, unless they set"
                " the property __SHARDINGKEY themselves."
            )
            return
        yield from self._about_the_sample()
        if self.keys.keyed < FEW:
            return
        yield from self._about_order()
        hot = self._hot_key()
        if hot is not None:
            yield from self._about_a_hot_key(hot)
        elif self._uneven():
            yield from self._about_chance()
        else:
            yield "No key and no queue stands out; there is nothing to do."

    def _about_the_sample(self) -> Iterator[str]:
        keys = self.keys
        if keys.keyless:
            yield (
                f"{percent(keys.keyless / keys.messages)} of the messages have no sharding key"
                " (Java's producers do not store it); all that follows is about the others."
            )
        if keys.keyed < FEW:
            more = ": a larger --sample or a longer --since shows more" * self.sampled
            yield f"{keys.keyed} messages with a key are too few to judge keys by{more}."
            return
        most = max((each.queues for each in keys.outcomes), default=0)
        if self.sampled and keys.keyed < ENOUGH * most:
            yield (
                f"{self.keys.keyed} messages are few for {most} queues, so by chance alone the"
                f" busiest looks busier than it is; --sample {ENOUGH * most} sees it sharper, if"
                " there are so many."
            )

    def _about_order(self) -> Iterator[str]:
        split = next((key for key in self.keys.top if key.split), None)
        if self.keys.splits:
            example = f", {self.name(split.key)} for one," if split else ""
            yield (
                f"{_keys(self.keys.splits)}{example} {_was(self.keys.splits)} found in several"
                " queues, where nothing keeps their order: do all producers use the same selector,"
                " or was the number of queues changed while messages were waiting?"
            )
        now = self.keys.present
        if now is not None and now.moved > _STRANGE:
            yield (
                f"{percent(now.moved)} of the messages do not lie where {now.selector} puts them"
                f" with {_queues(now.queues)}, so their producers choose in another way; what-if"
                " shows what this selector would do."
            )

    def _hot_key(self) -> HotKey | None:
        """The first key that alone has more than a queue's fair share, beyond chance."""
        hot = max(self.keys.top, key=lambda key: key.least)
        fair = self.keys.keyed / self.keys.queues
        return hot if self.keys.queues > 1 and hot.least > max(fair, _SURE) else None

    def _about_a_hot_key(self, hot: HotKey) -> Iterator[str]:
        share, queues = hot.least / self.keys.keyed, self.keys.queues
        name, better = self.name(hot.key), self._better()
        so = "more queues do not help"
        if better is not None:  # other keys share its queue
            so = f"more queues help only down to that{self._change(better)}"
        yield (
            f"Key {name} alone has {percent(share)} of the messages, more than 1/{queues}. Its"
            f" queue gets at least that with any number of queues ({share * queues:.1f} times the"
            f" mean of {queues}), so {so}."
        )
        yield (
            "A finer key does help, if the order allows it (the order instead of the customer,"
            " say): its messages then spread over the queues."
        )
        yield self._by_key(name)

    def _by_key(self, name: str) -> str:
        if self.order == "key":
            return (
                f'The group has order="key": other keys do not wait for {name}, whose own messages'
                " are handled one after the other; only a faster handler makes these faster."
            )
        return (
            f'order="key" helps the other keys of that queue: they are handled side by side and'
            f" do not wait for {name}. Its own messages stay one after the other."
        )

    def _uneven(self) -> bool:
        """Whether one queue gets far more, by the inflow or by the sample."""
        now = self.keys.present
        figures = (self.inflow.skew, now.skew if now else None)
        return any(skew is not None and skew.max_over_mean > _UNEVEN for skew in figures)

    def _about_chance(self) -> Iterator[str]:
        if self.keys.keys is not None and self.keys.keys < 2 * self.keys.queues:
            yield (
                f"There are only {_keys(self.keys.keys)} for {_queues(self.keys.queues)}: so few"
                " fall unevenly, and a queue without a key stays empty."
            )
        better = self._better()
        if better is not None:
            yield (
                "No key is too large for a queue, but the keys fall unevenly"
                f"{self._change(better)}."
            )
        else:
            yield (
                "No key is too large for a queue; the keys fall unevenly, and none of the numbers"
                " of queues tried here brings much. Others may: --what-if."
            )
        if self.order != "key":
            yield (
                'order="key" helps without any change of queues: keys of the busiest queue are'
                " handled side by side."
            )

    def _change(self, better: Outcome) -> str:
        return (
            f": with {_queues(better.queues)} the busiest would get {percent(_top(better))} of the"
            f" messages instead of {percent(_top(self.keys.present))}. But {percent(better.moved)}"
            " of the messages are of keys that would move: stop the producers, let the consumers"
            " catch up, then change the number"
        )

    def _better(self) -> Outcome | None:
        """What makes the busiest queue's share smallest, if that is worth a move.

        Only of the selector that the producers use: keys may not be numbers tomorrow.
        """
        now = self.keys.present
        tried = [
            each
            for each in self.keys.outcomes
            if now is not None and each.selector == now.selector and each.skew is not None
        ]
        best = min(tried, key=_top, default=None)
        return best if best and _top(best) <= _WORTH * _top(now) else None


def _top(outcome: Outcome | None) -> float:
    """The busiest queue's share of the messages."""
    return outcome.skew.top_share if outcome is not None and outcome.skew is not None else 1.0


def percent(share: float) -> str:
    """A share as a reader likes it: 31 %, 2.5 %, 0.04 %."""
    digits = 0 if share >= 0.1 or share == 0 else 1 if share >= 0.01 else 2
    return f"{100 * share:.{digits}f} %"


def _queues(count: int) -> str:
    return f"{count} queue" if count == 1 else f"{count} queues"


def _keys(count: int) -> str:
    return f"{count} key" if count == 1 else f"{count} keys"


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
