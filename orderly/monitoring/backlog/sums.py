"""Figures of several queues together.

A sum of messages or rates is a lower bound while some of its parts are not known. An age or a time
of which some parts are 0 (or never) and the others not known is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TypeVar

from orderly.monitoring.backlog.pair import Pair, Totals
from orderly.monitoring.backlog.rules.table import RULES
from orderly.monitoring.backlog.snapshot import Sums
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog.track import NOT_KNOWN

N = TypeVar("N", int, float)


def totals_of(pair: Pair) -> Totals:
    """What does not change with time alone."""
    backlog = [messages for messages in pair.backlog if messages is not None]
    heads = zip(pair.backlog, pair.track.head_at, pair.topic.retention, strict=True)
    known = [(at, kept) for messages, at, kept in heads if messages and at != NOT_KNOWN]
    return Totals(
        backlog=sum(backlog) if backlog else None,
        unknown=len(pair.backlog) - len(backlog),
        states={RULES[code].state: pair.codes.count(code) for code in sorted(set(pair.codes))},
        lost=_lost(pair),
        head_at=min((at for at, _ in known), default=None),
        eaten_at=min((at + kept for at, kept in known if kept is not None), default=None),
    )


def sums_of(pair: Pair) -> Sums:
    """The sums of one topic in one group."""
    totals = pair.totals or totals_of(pair)
    idle = not totals.backlog
    certain = totals.backlog is not None and not totals.unknown
    at = pair.now.at
    keys, messages, age = _parked(pair)
    return Sums(
        queues=len(pair.backlog),
        unknown=totals.unknown,
        states=totals.states,
        backlog=totals.backlog,
        lost=totals.lost,
        head_age=_within(0.0, certain) if idle else _since(at, totals.head_at),
        in_rate=total(pair.topic.in_rates),
        out_rate=total(pair.out_rates),
        drain_eta=_within(0.0, certain) if idle else _slowest(pair),
        retention_eta=_within(math.inf, certain) if idle else _until(at, totals.eaten_at),
        parked_keys=keys,
        parked_messages=messages,
        parked_age=age,
    )


def _within(value: float, certain: bool) -> float | None:
    """What holds of queues without a backlog, if there are no others."""
    return value if certain else None


def _since(at: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, at - then)


def _until(at: float, then: float | None) -> float | None:
    return None if then is None else max(0.0, then - at)


def _slowest(pair: Pair) -> float | None:
    """The largest Pair.drain_eta."""
    if pair.rates_known and not any(pair.out_rates):
        return math.inf  # the usual thing of groups that are offline
    return largest(pair.drain_eta(place) for place, messages in enumerate(pair.backlog) if messages)


def lost_messages(pair: Pair, place: int) -> int:
    """Messages of a queue that were deleted before they were consumed."""
    lost = RULES[pair.codes[place]].state is QueueState.LOST
    return pair.topic.reading.minimum[place] - pair.committed[place] if lost else 0


def _lost(pair: Pair) -> int:
    if _LOST not in pair.codes:
        return 0
    return sum(lost_messages(pair, place) for place in range(len(pair.codes)))


_LOST = next(code for code, rule in enumerate(RULES) if rule.state is QueueState.LOST)


def _parked(pair: Pair) -> tuple[int | None, int | None, float | None]:
    """Keys, messages, and seconds since the oldest was stored."""
    found = map(pair.record, range(len(pair.codes))) if pair.signs.records else ()
    records = [record for record in found if record is not None]
    if not records:
        return None, None, None
    keys = [key for record in records for key in record.parked]
    since = smallest(record.parked_since for record in records)
    return len(keys), sum(key.messages for key in keys), _since(pair.now.at, since)


# --- together ------------------------------------------------------------------------------------


def add_up(parts: Iterable[Sums]) -> Sums:
    """The sums of several sums: of a group's topics, or of groups."""
    parts = list(parts)
    states: dict[QueueState, int] = {}
    for part in parts:
        for state, count in part.states.items():
            states[state] = states.get(state, 0) + count
    measured = sum(part.queues - part.unknown for part in parts)
    unknown = sum(part.unknown for part in parts)
    return Sums(
        queues=measured + unknown,
        unknown=unknown,
        states={state: states[state] for state in QueueState if state in states},
        backlog=total(part.backlog for part in parts),
        lost=sum(part.lost for part in parts),
        head_age=_together(parts, "head_age", 0.0, unknown),
        in_rate=total(part.in_rate for part in parts),
        out_rate=total(part.out_rate for part in parts),
        drain_eta=_together(parts, "drain_eta", 0.0, unknown),
        retention_eta=_together(parts, "retention_eta", math.inf, unknown),
        parked_keys=total(part.parked_keys for part in parts),
        parked_messages=total(part.parked_messages for part in parts),
        parked_age=largest(part.parked_age for part in parts),
    )


def _together(parts: Sequence[Sums], name: str, idle: float, unknown: int) -> float | None:
    values = list(map(attrgetter(name), parts))
    worst = largest(values) if idle == 0.0 else smallest(values)
    vague = unknown or None in values
    return None if worst == idle and vague else worst


def total(values: Iterable[N | None]) -> N | None:
    """The sum of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def largest(values: Iterable[float | None]) -> float | None:
    """The largest of what is known."""
    return max((value for value in values if value is not None), default=None)


def smallest(values: Iterable[float | None]) -> float | None:
    """The smallest of what is known."""
    return min((value for value in values if value is not None), default=None)
