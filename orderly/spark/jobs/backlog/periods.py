"""Periods of a series that matter: breaches of a promise, standstills, and gaps. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from orderly.spark.jobs.backlog.series import MISSED, Floats, Series, runs


class Ended(StrEnum):
    """How a period ended."""

    OVER = "over"  # the next sample was in order: `end` is its time
    NOT_MEASURED = "not measured"  # nobody knows: `end` is the last sample's time
    GOES_ON = "goes on"  # it lasted when the history ended


@dataclass(frozen=True, slots=True)
class Incident:
    """A promise was broken from `begin` to `end`, in seconds since the epoch.

    Attributes:
        measure: "backlog" (messages) or "head_age" (seconds).
        limit: what was promised.
        worst: the largest value, and when it was first seen.
        samples: that broke it.
    """

    measure: str
    limit: float
    begin: float
    end: float
    ended: Ended
    worst: float
    worst_at: float
    samples: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """Nothing was committed from `begin` to `end` while messages waited.

    Attributes:
        backlog: messages when it began.
        came: messages stored meanwhile.
    """

    begin: float
    end: float
    ended: Ended
    backlog: int
    came: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Nothing was measured between `begin` and `end`."""

    begin: float
    end: float


def incidents(series: Series, measure: str, limit: float, join: float) -> list[Incident]:
    """The breaches of one promise, those at most `join` seconds apart as one.

    What is known of a part breaks a promise for the whole; that a part keeps it says nothing.
    """
    values: Floats = getattr(series, measure)
    broken = values > limit
    certain = series.whole if measure == "backlog" else series.aged
    known = series.only(broken | (certain & ~np.isnan(values)))
    values = getattr(known, measure)
    found: list[Incident] = []
    for first, last in runs(values > limit, known.joined()):
        end, ended = _end(known, last, series)
        at = first + int(np.argmax(values[first : last + 1]))
        run = Incident(
            measure,
            limit,
            begin=float(known.at[first]),
            end=end,
            ended=ended,
            worst=float(values[at]),
            worst_at=float(known.at[at]),
            samples=last - first + 1,
        )
        if found and run.begin - found[-1].end <= join:
            found[-1] = _together(found[-1], run)
        else:
            found.append(run)
    return found


def _end(known: Series, last: int, series: Series) -> tuple[float, Ended]:
    """When a period ended whose last sample is known, and how; `known` is part of `series`."""
    if last + 1 == len(known.at):
        dark = series.at[-1] - known.at[last]
        longest = MISSED * max(known.interval[last], series.interval[-1])
        return float(known.at[last]), Ended.GOES_ON if dark <= longest else Ended.NOT_MEASURED
    if known.joined()[last]:
        return float(known.at[last + 1]), Ended.OVER
    return float(known.at[last]), Ended.NOT_MEASURED


def _together(one: Incident, other: Incident) -> Incident:
    worse = other if other.worst > one.worst else one
    return Incident(
        one.measure,
        one.limit,
        begin=one.begin,
        end=other.end,
        ended=other.ended,
        worst=worse.worst,
        worst_at=worse.worst_at,
        samples=one.samples + other.samples,
    )


def standstills(series: Series, least: float) -> list[Stuck]:
    """Periods of at least `least` seconds with a backlog and without a commit."""
    known = series.only(series.whole & (series.backlog >= 0) & (series.committed >= 0))
    same = known.joined() & (np.diff(known.committed) == 0)
    found = []
    for first, last in runs(known.backlog > 0, same):
        end, ended = _end(known, last, series)
        if end - known.at[first] >= least:
            came = known.maximum[last] - known.maximum[first]
            begin, backlog = float(known.at[first]), int(known.backlog[first])
            found.append(Stuck(begin, end, ended, backlog, 0 if np.isnan(came) else int(came)))
    return found


def gaps(series: Series) -> list[Gap]:
    """When nothing was measured, between the first sample of the series and the last."""
    known = series.measured()
    if not len(known.at):
        return [Gap(float(at[0]), float(at[-1])) for at in (series.at,) if len(at)]
    first, last = float(series.at[0]), float(series.at[-1])
    apart = np.flatnonzero(~known.joined())
    between = [Gap(float(known.at[place]), float(known.at[place + 1])) for place in apart]
    ends = [Gap(first, float(known.at[0])), Gap(float(known.at[-1]), last)]
    before, after = (
        [gap] if gap.end - gap.begin > MISSED * interval else []
        for gap, interval in zip(ends, (series.interval[0], series.interval[-1]), strict=True)
    )
    return [*before, *between, *after]
