"""Adds up what was noted while it was measured."""

from __future__ import annotations

import os
import time

from orderly.bench.consuming import Consuming
from orderly.bench.figures import (
    BOOKED,
    Consumed,
    Sent,
    Span,
    Where,
    rate_of,
    shares_of,
    window_of,
)
from orderly.bench.histogram import summary
from orderly.bench.load import weights
from orderly.bench.plan import SendPlan
from orderly.bench.sending import Sending
from orderly.bench.watcher import Watcher


def span_of(watcher: Watcher) -> Span:
    """The figures of a span that is over; best after both sides closed, for their last commits."""
    start, end, seen = watcher.start, _end(watcher), watcher.seen
    seconds = max(end - start.at, 1e-9)
    cpu = seen.cpu_end - start.cpu
    sending, consuming = watcher.sending, watcher.consuming
    return Span(
        seconds=seconds,
        window=window_of(seconds),
        cpu=cpu,
        rss=seen.rss,
        load=_load(),
        where=shares_of(seconds, cpu, _booked(watcher), seen.idle),
        ended=watcher.ended,
        sent=None if sending is None else _sent(watcher, sending, end),
        consumed=None if consuming is None else _consumed(watcher, consuming, end),
    )


def _end(watcher: Watcher) -> float:
    if watcher.consuming is not None and watcher.consuming.first is not None:
        return watcher.consuming.last
    if watcher.sending is not None and watcher.sending.ended_at:
        return watcher.sending.ended_at
    return time.monotonic()


def _load() -> float:
    """How many threads of the machine want to run, for each core; 0.0: not to be had."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:
        return 0.0


def _booked(watcher: Watcher) -> dict[Where, float]:
    now, before = watcher.seen.booked_end, watcher.start.booked
    booked = {kind: now.get(kind, 0.0) - before.get(kind, 0.0) for kind in BOOKED}
    booked[Where.HANDLER] = watcher.handler_cpu() - watcher.start.handler_cpu
    return booked


def _sent(watcher: Watcher, side: Sending, end: float) -> Sent:
    plan, requests = side.plan, side.watched.sends
    sums = weights(plan.keys, plan.skew)
    return Sent(
        planned=plan.count,
        messages=side.tallies.messages(),
        bytes=side.tallies.bytes(),
        rate=rate_of(watcher.seen.sent, watcher.start.at, side.ended_at or end),
        latency=summary(tally.latency for tally in side.tallies.all()),
        requests=requests.messages,
        round_trip=summary([requests.trips]),
        failed=dict(side.tallies.failed()),
        failed_requests=dict(requests.errors),
        sync=plan.sync,
        threads=plan.threads,
        wanted_rate=plan.rate,
        full=_full(plan, side.tallies.messages() / max(requests.messages, 1)),
        hot_share=sums[0] / sum(sums),
    )


def _full(plan: SendPlan, each: float) -> float:
    """How full requests of `each` messages are."""
    limits = plan.config
    return (
        1.0
        if plan.sync
        else max(each / limits.batch_messages, each * plan.size / limits.batch_bytes)
    )


def _consumed(watcher: Watcher, side: Consuming, end: float) -> Consumed:
    plan, seen, pulls, commits = side.plan, watcher.seen, side.watched.pulls, side.watched.commits
    return Consumed(
        expected=watcher.expected(),
        messages=side.tallies.messages(),
        bytes=side.tallies.bytes(),
        rate=rate_of(seen.consumed, watcher.start.at, end),
        first_after=None if side.first is None else side.first - watcher.began,
        latency=summary(tally.latency for tally in side.tallies.all()),
        pulls=pulls.trips.counts.total(),
        round_trip=summary([pulls.trips]),
        empty_pulls=pulls.empty,
        failed_requests=dict(pulls.errors + commits.errors),
        commits=commits.messages,
        commit_time=summary([commits.trips]),
        keys=side.order.keys,
        inversions=side.order.inversions,
        repeats=side.order.repeats,
        missing=side.order.missing,
        by_key=plan.config.by_key,
        queues=seen.queues,
        calls_at_once=plan.config.concurrency,
        busy=seen.busy / len(seen.idle) if seen.idle else 0.0,
        handler_ms=plan.handler_ms,
    )
