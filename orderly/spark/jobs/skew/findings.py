"""What was found: whether something stands out, the whole in a sentence, and all figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from orderly.monitoring.backlog.queue_skew import queue_skew
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.words import plural
from orderly.monitoring.skew.advice import percent
from orderly.monitoring.skew.keys import TOP, HotKey
from orderly.spark.jobs.skew.counted import Counted
from orderly.spark.jobs.skew.recommending import UNEVEN, Recommendation
from orderly.spark.jobs.skew.what_if import WhatIf, what_if_fields

_SURE = 30  # messages of one key, below which its share may be chance: as in the advice


@dataclass(frozen=True, slots=True)
class Findings:
    """What a report is made of; keys are as they may be shown.

    Attributes:
        counted: the counts.
        gini: of messages over keys; None: no key.
        curve: which share of the keys has which share of the messages, most frequent first.
        what_if: every selector with every number of queues.
        now: of the selector that explains best where messages lie, with the present queues; None:
            no message has a key.
        recommendation: how many queues; None as `now`.
        advice: sentences, the most important first.
    """

    counted: Counted
    gini: float | None
    curve: Sequence[tuple[float, float]]
    what_if: Sequence[WhatIf]
    now: WhatIf | None
    recommendation: Recommendation | None
    advice: Sequence[str]

    @property
    def hot(self) -> bool:
        """One key alone has more than a queue's fair share."""
        if self.now is None or self.now.queues < 2:
            return False
        most = self.counted.head[0].least
        return most > max(self.counted.keyed / self.now.queues, _SURE)

    @property
    def load(self) -> QueueSkew | None:
        """Of all messages over the queues, as they lie."""
        loads = self.counted.queues
        return queue_skew(tuple(loads), [load.messages for load in loads.values()])

    @property
    def verdict(self) -> Verdict:
        """WARNING: a hot key, an uneven queue, or keys in several queues; UNKNOWN: no keys."""
        if self.now is None:
            return Verdict.UNKNOWN
        return Verdict.WARNING if self.hot or self._uneven or self.counted.splits else Verdict.OK

    @property
    def _uneven(self) -> bool:
        skews = (self.load, self.now.skew if self.now else None)
        return any(skew.max_over_mean > UNEVEN for skew in skews if skew is not None)

    @property
    def headline(self) -> str:
        """The whole in one sentence."""
        it = self.counted
        if not it.messages:
            return f"{it.topic} holds no message in the range that was read."
        if self.now is None:
            return f"None of {plural(it.messages, 'message')} of {it.topic} has a sharding key."
        parts = list(self._troubles()) or ["no key and no queue stands out"]
        messages, keys = plural(it.keyed, "message"), plural(it.keys, "key")
        return f"{messages} of {keys} in {it.topic}: {'; '.join(parts)}."

    def _troubles(self) -> Iterator[str]:
        if self.hot:
            yield f"one key alone has {percent(self.counted.top_share)}"
        if self._uneven and self.load is not None:
            yield (
                f"the busiest queue has {percent(self.load.top_share)},"
                f" {self.load.max_over_mean:.1f} times the mean"
            )
        if self.counted.splits:
            yield f"{plural(self.counted.splits, 'key')} in several queues"

    def figures(self) -> dict[str, Any]:
        """For `result.json`."""
        load, now = self.load, self.now
        return {
            "topic": self.counted.topic,
            "layout": str(self.counted.layout),
            "messages": self.counted.messages,
            "keyless": self.counted.messages - self.counted.keyed,
            "lost": self.counted.lost,
            "keys": self.counted.keys,
            "keys_in_several_queues": self.counted.splits,
            "gini_of_keys": self.gini,
            "top_share": self.counted.top_share,
            "skew": None if load is None else _skew_fields(load),
            "queues": [
                {"broker": queue.broker_name, "queue": queue.queue_id, **asdict(it)}
                for queue, it in self.counted.queues.items()
            ],
            "top": [_key_fields(key) for key in self.counted.head[:TOP]],
            "selector": None if now is None else now.selector,
            "what_if": [what_if_fields(each) for each in self.what_if],
            "recommendation": asdict(self.recommendation) if self.recommendation else None,
            "advice": list(self.advice),
        }


def _skew_fields(skew: QueueSkew) -> dict[str, Any]:
    return asdict(skew) | {"busiest": str(skew.busiest)}


def _key_fields(key: HotKey) -> dict[str, Any]:
    return {"key": key.key, "messages": key.least, "queue": str(key.queue), "split": key.split}
