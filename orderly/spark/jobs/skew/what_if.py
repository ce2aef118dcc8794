"""What other numbers of queues and other selectors would give, each with its bound. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orderly.monitoring.backlog.queue_skew import queue_skew
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.skew.what_if import Outcome, Trial, queues_if
from orderly.selectors import KEYED
from orderly.spark.jobs.skew.counted import Counted
from orderly.spark.jobs.skew.evenness import bound, pinned
from orderly.spark.jobs.skew.trying import head_loads


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A selector with some number of queues.

    Attributes:
        skew: of the messages with a key.
        moved: share of them that would lie in another queue than they do; None: all may.
        bound: the least that the busiest queue gets whatever places keys, over the mean.
        pinned: the busiest over the mean with the head keys pinned by hand; None: not tried.
        keeps_order: messages of a key lie in one queue.
    """

    selector: str
    queues: int
    skew: QueueSkew
    moved: float | None
    bound: float
    pinned: float | None
    keeps_order: bool = True


def by_key(counted: Counted) -> Iterator[WhatIf]:
    """The selectors that look at keys, as workers tried them."""
    for (selector, number), (loads, moved) in counted.tried.items():
        queues = KEYED[selector].counted(queues_if(counted.layout, counted.topic, number))
        skew, total = queue_skew(queues, list(loads)), sum(loads)
        if skew is not None:
            keys = [key.key for key in counted.head]
            heads = [key.least for key in counted.head]
            rest = [
                load - own
                for load, own in zip(loads, head_loads(selector, keys, heads, number), strict=True)
            ]
            least = bound(counted.top_share, number)
            yield WhatIf(
                selector, number, skew, moved / total, least, pinned(list(map(int, rest)), heads)
            )


def by_no_key(counted: Counted) -> Iterator[WhatIf]:
    """Those that do not: what they give is known without trying."""
    total, top = counted.keyed, counted.top_share
    if not total:
        return
    for number in sorted({number for _, number in counted.tried}):
        queues = queues_if(counted.layout, counted.topic, number)
        elsewhere = total - (counted.queues[queues[0]].keyed if queues[0] in counted.queues else 0)
        each, more = divmod(total, number)
        for selector, loads, moved in (
            ("single_queue", [total, *[0] * (number - 1)], elsewhere / total),
            ("round_robin", [each + (place < more) for place in range(number)], None),
        ):
            skew = queue_skew(queues, loads)
            assert skew is not None
            ordered = moved is not None
            least = bound(top, number) if ordered else 1.0
            yield WhatIf(selector, number, skew, moved, least, None, keeps_order=ordered)


def outcome(counted: Counted, each: WhatIf) -> Outcome:
    """A what-if as `orderly skew` knows it."""
    queues = queues_if(counted.layout, counted.topic, each.queues)
    place = Trial(each.selector, queues).place
    return Outcome(each.selector, each.queues, each.skew, each.moved or 0.0, place)


def what_if_fields(each: WhatIf) -> dict[str, Any]:
    """A row of the table `what_if`."""
    return {
        "selector": each.selector,
        "queues": each.queues,
        "keeps_order": each.keeps_order,
        "max_over_mean": each.skew.max_over_mean,
        "bound": each.bound,
        "pinned": each.pinned,
        "top_share": each.skew.top_share,
        "gini": each.skew.gini,
        "moved": each.moved,
    }
