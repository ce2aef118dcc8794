"""How unevenly messages flow into a topic's queues."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orderly.model import MessageQueue
from orderly.monitoring.backlog.snapshot import QueueSkew


def queue_skew(queues: Sequence[MessageQueue], inflow: Sequence[float | None]) -> QueueSkew | None:
    """Figures of skew; None if a rate is not known, or nothing flows.

    Args:
        queues: of one topic.
        inflow: messages a second into each.
    """
    rates = [rate for rate in inflow if rate is not None]
    total = sum(rates)
    if len(rates) < len(queues) or total <= 0:
        return None
    count = len(rates)
    mean = total / count
    top = max(rates)
    return QueueSkew(
        max_over_mean=top / mean,
        top_share=top / total,
        variation=math.sqrt(sum((rate - mean) ** 2 for rate in rates) / count) / mean,
        gini=_gini(sorted(rates), total),
        busiest=queues[rates.index(top)],
    )


def _gini(ascending: list[float], total: float) -> float:
    count = len(ascending)
    weighted = sum((2 * place - count - 1) * rate for place, rate in enumerate(ascending, 1))
    return max(0.0, weighted / (count * total))
