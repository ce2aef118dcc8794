"""A measurement as JSON. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from orderly.bench.figures import Consumed, Rate, Sent, Span
from orderly.bench.histogram import Times
from orderly.bench.plan import ConsumePlan, SendPlan
from orderly.bench.scratch import Names
from orderly.bench.verdict import verdict_of

SCHEMA = "orderly.bench/v1"
_MEGA = 1e6


def document(
    names: Names,
    plans: tuple[SendPlan, ConsumePlan],
    spans: Mapping[str, Span],
    left: list[str] | None,
) -> dict[str, Any]:
    """All of it; what was not measured is null.

    Args:
        names: of topic and group.
        plans: what was asked for.
        spans: what was measured, by name.
        left: what could not be taken away; None: it was to stay.
    """
    return {
        "schema": SCHEMA,
        "topic": names.topic,
        "group": names.group,
        "settings": {"send": asdict(plans[0]), "consume": _plain(asdict(plans[1]))},
        **dict.fromkeys(("send", "consume", "together")),
        **{name: _span(span) for name, span in spans.items()},
        "kept": left is None,
        "left_behind": left or [],
    }


def _plain(plan: dict[str, Any]) -> dict[str, Any]:
    """Without what a measurement has no option for."""
    kept = ("order", "concurrency", "batch_size", "pull_batch")
    return plan | {"config": {name: plan["config"][name] for name in kept}}


def _span(span: Span) -> dict[str, Any]:
    verdict = verdict_of(span)
    return {
        "ended": span.ended,
        "seconds": span.seconds,
        "window_seconds": span.window,
        "cpu_seconds": span.cpu,
        "cpu_seconds_per_100k": span.cpu_per_100k,
        "rss_bytes": span.rss,
        "machine_load_per_core": span.load,
        "where_time_goes": {kind.name.lower(): share for kind, share in span.where.items()},
        "sent": None if span.sent is None else _sent(span.sent),
        "consumed": None if span.consumed is None else _consumed(span.consumed),
        "verdict": asdict(verdict),
    }


def _sent(sent: Sent) -> dict[str, Any]:
    return {
        "planned": sent.planned,
        **_amounts(sent),
        "latency_ms": _ms(sent.latency),
        "requests": sent.requests,
        "messages_per_request": sent.messages / sent.requests if sent.requests else None,
        "batches_full": sent.full,
        "round_trip_ms": _ms(sent.round_trip),
        "failed_messages": dict(sent.failed),
        "failed_requests": dict(sent.failed_requests),
    }


def _consumed(found: Consumed) -> dict[str, Any]:
    return {
        "expected": found.expected,
        **_amounts(found),
        "first_message_after_seconds": found.first_after,
        "end_to_end_ms": _ms(found.latency),
        "pulls": found.pulls,
        "empty_pulls": found.empty_pulls,
        "messages_per_pull": found.messages / found.pulls if found.pulls else None,
        "pull_round_trip_ms": _ms(found.round_trip),
        "commits": found.commits,
        "commit_ms": _ms(found.commit_time),
        "failed_requests": dict(found.failed_requests),
        "keys": found.keys,
        "queues": found.queues,
        "handler_calls_waiting": found.busy,
        "inversions": found.inversions,
        "repeats": found.repeats,
        "lost": found.lost,
    }


def _amounts(side: Sent | Consumed) -> dict[str, Any]:
    each = side.bytes / side.messages if side.messages else 0.0
    return {
        "messages": side.messages,
        "bytes": side.bytes,
        "messages_per_second": asdict(side.rate),
        "megabytes_per_second": asdict(scaled(side.rate, each / _MEGA)),
    }


def scaled(rate: Rate, factor: float) -> Rate:
    """The rate of something else that comes with each."""
    values = (rate.mean, rate.minimum, rate.median, rate.maximum)
    return Rate(*(value * factor for value in values))


def _ms(times: Times | None) -> dict[str, float] | None:
    if times is None:
        return None
    names = ("mean", "p50", "p90", "p99", "max")
    return {name: getattr(times, name) * 1000 for name in names}
