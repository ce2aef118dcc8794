"""How far the brokers' clocks are from ours, worked out from answers that are there anyway. Pure.

When a message that waits was stored, and for how long it has waited by the broker's clock, say
what time it is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.collecting.ages import Asked, Spans

_LEAST = 0.001  # seconds; the broker says 0 where nothing waits


def clock_offsets(
    answers: Mapping[Asked, Spans], heads: Mapping[tuple[str, MessageQueue], Head]
) -> dict[str, float]:
    """Each broker's clock minus ours, seconds.

    Args:
        answers: of the scan before.
        heads: by group and queue, those that still are heads in this scan: so they were when the
            questions were asked, and the delays are theirs. Should one not have been (an offset
            went forth and back), the broker's time comes out too early, never too late: so the
            latest of several counts.
    """
    found: dict[str, float] = {}
    for asked, answer in answers.items():
        for queue, span in answer.spans.items():
            head = heads.get((asked.group, queue))
            if head is None or span.delay is None or span.delay < _LEAST:
                continue
            offset = head.stored_at + span.delay - answer.at
            found[asked.broker] = max(found.get(asked.broker, offset), offset)
    return found
