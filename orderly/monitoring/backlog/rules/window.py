"""Rules 8, 9 and 14 to 16: what grows too old, what the scans before say, and thresholds."""

from __future__ import annotations

from collections.abc import Callable

from orderly.monitoring.backlog.pair import Pair
from orderly.monitoring.backlog.rules.members import suspended
from orderly.monitoring.backlog.thresholds import Measure


def rewind(pair: Pair, place: int) -> bool:
    """14. REWIND: the committed offset went back in the window, and has not caught up."""
    found = pair.track.rewinds.get(place)
    return found is not None and pair.now.at - found[1] <= pair.now.settings.window


def why_rewind(pair: Pair, place: int) -> str:
    """From where."""
    high, at = pair.track.rewinds[place]
    return f"committed was {high} {pair.now.at - at:.0f} s ago, and went back: a reset?"


def expiring(pair: Pair, place: int) -> bool:
    """8. EXPIRING: half of the time is over for which the broker keeps the first message."""
    left, retention = pair.retention_eta(place), pair.topic.retention[place]
    return left is not None and retention is not None and left <= retention / 2


def any_expiring(pair: Pair) -> bool:
    """Whether any queue of the pair can be."""
    return any(pair.backlog)


def why_expiring(pair: Pair, place: int) -> str:
    """When it is deleted."""
    left = pair.retention_eta(place) or 0.0
    return f"the broker may delete the first message in {left / 3600:.1f} h, and it is not handled"


def stall(pair: Pair, place: int) -> bool:
    """9. STALL: a backlog all the time, and neither a commit nor anything finished.

    By key a first message that is tried again stops its own key only: there it takes later ones
    that nobody finishes, too.
    """
    since = pair.track.still_since(place)
    if pair.track.backlog[place] <= 0 or since > pair.now.long_ago:
        return False
    one_key = pair.signs.by_key(pair.topic.reading.topic) and suspended(pair, place)
    return not one_key or pair.track.grew_at[place] > since


def why_stall(pair: Pair, place: int) -> str:
    """How long."""
    seconds = pair.now.at - pair.track.still_since(place)
    return f"a backlog, and nothing committed for {seconds:.0f} s"


def growing(pair: Pair, place: int) -> bool:
    """15. GROWING: the backlog got larger, not once smaller, and did so lately, too."""
    track = pair.track
    return (
        track.eased_at[place] <= pair.now.long_ago
        and track.grew_at[place] > pair.now.lately
        and track.backlog[place] > 0
    )


def why_growing(pair: Pair, place: int) -> str:
    """Since when."""
    seconds = pair.now.at - pair.track.eased_at[place]
    return f"the backlog grows, and has not got smaller for {seconds:.0f} s"


_OF_A_QUEUE: dict[Measure, Callable[[Pair, int], float | None]] = {
    Measure.BACKLOG: lambda pair, place: pair.backlog[place],
    Measure.HEAD_AGE: Pair.head_age,
    Measure.DRAIN_ETA: Pair.drain_eta,
    Measure.RETENTION_ETA: Pair.retention_eta,
}


def _exceeded(pair: Pair, place: int) -> Measure | None:
    for measure, value_of in _OF_A_QUEUE.items():
        limits = pair.now.settings.thresholds.limits.get(measure)
        value = value_of(pair, place) if limits else None
        if limits is None or value is None:
            continue
        if any(limit is not None and limit.alerts(value) for limit in (limits.warn, limits.crit)):
            return measure
    return None


def lagging(pair: Pair, place: int) -> bool:
    """16. LAGGING: above a threshold, but getting smaller."""
    return _exceeded(pair, place) is not None


def any_threshold(pair: Pair) -> bool:
    """Whether there is a threshold at all."""
    return bool(pair.now.settings.thresholds.limits)


def why_lagging(pair: Pair, place: int) -> str:
    """Which threshold."""
    measure = _exceeded(pair, place)
    assert measure is not None
    value = _OF_A_QUEUE[measure](pair, place)
    limits = pair.now.settings.thresholds.limits[measure]
    return f"{measure} is {value:.10g}, beyond {limits.warn or limits.crit}"
