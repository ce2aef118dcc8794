"""Figures of one series: how far behind, how fast it is worked off, whether it grows. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from orderly.spark.jobs.backlog.series import Bools, Floats, Series

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a queue, or of a group; None: not known.

    Attributes:
        samples: how many there are; `measured` of them with a backlog known as a whole, `aged`
            with the age of all messages.
        begin, end: of the samples, seconds since the epoch.
        interval: the longest one planned between two, seconds.
        measured_seconds: from sample to sample, without gaps.
        last, mean, median, p95, most: messages behind.
        most_at: when most were.
        oldest: the largest age of a first message, seconds.
        in_rate, out_rate: messages a second stored and committed, over what was measured of the
            same queues: one that joins a sum of offsets brings its whole past with it.
        drain_rate: messages a second committed while some waited.
        growth: messages an hour, by least squares over all samples; below 0 it shrank.
    """

    samples: int
    measured: int
    aged: int
    begin: float
    end: float
    interval: float
    measured_seconds: float
    last: int | None
    mean: float | None
    median: float | None
    p95: float | None
    most: int | None
    most_at: float | None
    oldest: float | None
    in_rate: float | None
    out_rate: float | None
    drain_rate: float | None
    growth: float | None


def figures(series: Series) -> Figures:
    """Work them out; the series has at least one sample."""
    known = series.measured()
    joined, elapsed = known.joined(), np.diff(known.at)
    stored, done = np.diff(known.maximum), np.diff(known.committed)
    comparable = joined & (np.diff(known.counted) == 0)
    behind = comparable & (known.backlog[:-1] > 0)
    lags = known.backlog
    top = int(np.argmax(lags)) if len(lags) else None
    return Figures(
        samples=len(series.at),
        measured=len(lags),
        aged=int((series.aged & ~np.isnan(series.head_age)).sum()),
        begin=float(series.at[0]),
        end=float(series.at[-1]),
        interval=float(series.interval.max()),
        measured_seconds=float(elapsed[joined].sum()),
        last=int(lags[-1]) if len(lags) else None,
        mean=_known(lags.mean()) if len(lags) else None,
        median=_quantile(lags, 0.5),
        p95=_quantile(lags, 0.95),
        most=None if top is None else int(lags[top]),
        most_at=None if top is None else float(known.at[top]),
        oldest=_known(np.fmax.reduce(known.head_age)) if len(lags) else None,
        in_rate=_rate(stored, elapsed, comparable),
        out_rate=_rate(done, elapsed, comparable),
        drain_rate=_rate(done, elapsed, behind),
        growth=_growth(known.at, lags),
    )


def _quantile(values: Floats, share: float) -> float | None:
    return float(np.quantile(values, share)) if len(values) else None


def _rate(steps: Floats, elapsed: Floats, counted: Bools) -> float | None:
    """Messages a second; steps back (offsets that were set, logs that began anew) do not count."""
    counted = counted & (steps >= 0)
    seconds = float(elapsed[counted].sum())
    return float(steps[counted].sum()) / seconds if seconds else None


def _growth(at: Floats, lags: Floats) -> float | None:
    if len(at) < 2:
        return None
    hours = (at - at.mean()) / _HOUR
    spread = float((hours**2).sum())
    return float((hours * (lags - lags.mean())).sum()) / spread if spread else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
