"""A snapshot as JSON: one schema for the command line, the exporter's API and its page. Pure.

What is not known is null, never 0. An estimate that never ends is `"drain_eta_seconds": null` with
`"drains": false`, because JSON has no infinity; `"drains": null` is "not known".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from orderly.monitoring.backlog.advice import advice
from orderly.monitoring.backlog.reading import BrokerReading, DeadLetters, Head
from orderly.monitoring.backlog.snapshot import (
    GroupStatus,
    QueueSkew,
    QueueStatus,
    Snapshot,
    Sums,
    TopicStatus,
)
from orderly.monitoring.backlog.states import VERDICTS, Verdict
from orderly.monitoring.backlog.thresholds import queues_text
from orderly.monitoring.texts import counted, iso_time

SCHEMA = "orderly.backlog/v2"

Fields = dict[str, Any]


class Detail(StrEnum):
    """How far a document, or a list of metrics, goes down."""

    GROUP = "group"
    TOPIC = "topic"
    BAD_QUEUES = "bad-queues"
    QUEUE = "queue"


def document(
    snapshot: Snapshot,
    detail: Detail = Detail.QUEUE,
    *,
    groups: Iterable[GroupStatus] | None = None,
) -> Fields:
    """Return the whole document.

    Args:
        snapshot: what to write.
        detail: how far down; with BAD_QUEUES all groups and topics, and the queues in trouble.
        groups: those to write; None: all of the snapshot.
    """
    chosen = snapshot.groups.values() if groups is None else groups
    return {
        "schema": SCHEMA,
        "time": iso_time(snapshot.at),
        "scan_seconds": snapshot.scan_seconds,
        "window_seconds": snapshot.window,
        "cluster": snapshot.cluster,
        "brokers": [broker_fields(broker) for broker in snapshot.brokers.values()],
        "groups": [_group(group, detail) for group in chosen],
    }


def is_bad(row: QueueStatus) -> bool:
    """Whether a queue is in trouble, or keys of it are parked: its verdict is not OK."""
    return row.verdict is not Verdict.OK


def _group(group: GroupStatus, detail: Detail) -> Fields:
    fields = group_fields(group)
    if detail is not Detail.GROUP:
        fields["topics"] = [_topic(topic, detail) for topic in group.topics.values()]
    return fields


def _topic(topic: TopicStatus, detail: Detail) -> Fields:
    fields = topic_fields(topic)
    if detail is Detail.QUEUE:
        fields["queues"] = [queue_fields(row) for row in topic.rows()]
    elif detail is Detail.BAD_QUEUES:
        fields["queues"] = [queue_fields(row) for row in topic.rows() if is_bad(row)]
    return fields


def broker_fields(broker: BrokerReading) -> Fields:
    """One broker in the scan."""
    return {
        "broker": broker.name,
        "up": broker.error is None,
        "error": broker.error,
        "requests": broker.requests,
        "scan_seconds": broker.seconds,
        "clock_offset_seconds": broker.clock_offset,
        "retention_seconds": broker.retention,
    }


def group_fields(group: GroupStatus) -> Fields:
    """One group, without its topics."""
    return {
        "group": group.group,
        "state": str(group.sums.state),
        "state_verdict": group.sums.state_verdict.name,
        "verdict": group.sums.verdict.name,
        "cause": cause_of(group),
        "model": group.model or None,
        "order": group.order or None,
        "members": _listed(group.members),
        "idle_members": _listed(group.idle),
        "owner_changes": group.owner_changes,
        "findings": list(group.findings),
        "dead_letters": None if group.dead is None else _dead(group.dead, group.dead_rate),
        "totals": sums_fields(group.sums),
    }


def cause_of(group: GroupStatus) -> str:
    """Why a group is in trouble: its worst state with the first queue, parked keys; "": it is not.

    In the words of `orderly backlog check`.
    """
    causes, sums = [], group.sums
    if VERDICTS[sums.state] is not Verdict.OK:
        worst = next((row for row in group.rows() if row.state is sums.state), None)
        count = sums.states.get(sums.state, 0)
        if worst is not None:
            first = f"{queues_text(count)}, first " if count > 1 else ""
            causes.append(f"{first}{worst.queue}: {worst.cause}")
    if sums.parked_keys:
        messages = counted(sums.parked_messages or 0, "message")
        causes.append(f"{counted(sums.parked_keys, 'key')} parked, with {messages}")
    return "; ".join(causes)


def topic_fields(topic: TopicStatus) -> Fields:
    """One topic of a group, without its queues."""
    return {
        "topic": topic.topic,
        "state": str(topic.sums.state),
        "state_verdict": topic.sums.state_verdict.name,
        "verdict": topic.sums.verdict.name,
        "totals": sums_fields(topic.sums),
        "skew": None if topic.skew is None else _skew(topic.skew),
    }


def sums_fields(sums: Sums) -> Fields:
    """What several queues are together."""
    return {
        "queues": sums.queues,
        "unknown": sums.unknown,
        "states": {str(state): count for state, count in sums.states.items()},
        "backlog": sums.backlog,
        "lost": sums.lost,
        "head_age_seconds": sums.head_age,
        "in_rate": sums.in_rate,
        "out_rate": sums.out_rate,
        **_drain(sums.drain_eta),
        "retention_eta_seconds": finite(sums.retention_eta),
        "parked_keys": sums.parked_keys,
        "parked_messages": sums.parked_messages,
        "parked_age_seconds": sums.parked_age,
    }


def queue_fields(row: QueueStatus) -> Fields:
    """One queue as its group sees it."""
    return {
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "state": str(row.state),
        "state_verdict": row.state_verdict.name,
        "verdict": row.verdict.name,
        "cause": row.cause,
        "advice": advice(row) if is_bad(row) else "",
        "min": row.minimum,
        "committed": row.committed,
        "max": row.maximum,
        "span": row.span,
        "backlog": row.backlog,
        "lost": row.lost,
        "head_age_seconds": row.head_age,
        "in_rate": row.in_rate,
        "out_rate": row.out_rate,
        **_drain(row.drain_eta),
        "retention_eta_seconds": finite(row.retention_eta),
        "owner": row.owner,
        "parked": _parked(row),
        "parked_keys": row.parked_keys,
        "parked_messages": row.parked_messages,
        "parked_age_seconds": row.parked_age,
        "head": None if row.head is None else _head(row.head),
    }


def finite(value: float | None) -> float | None:
    """`value`, or None for what JSON cannot say."""
    return value if value is not None and math.isfinite(value) else None


def _drain(eta: float | None) -> Fields:
    drains = None if eta is None else math.isfinite(eta)
    return {"drain_eta_seconds": finite(eta), "drains": drains}


def _listed(names: tuple[str, ...] | None) -> list[str] | None:
    return None if names is None else list(names)


def _dead(dead: DeadLetters, rate: float | None) -> Fields:
    oldest = None if dead.oldest_at is None else iso_time(dead.oldest_at)
    return {"messages": dead.messages, "oldest_time": oldest, "rate": rate}


def _skew(skew: QueueSkew) -> Fields:
    return asdict(skew) | {"busiest": str(skew.busiest)}


def _parked(row: QueueStatus) -> list[Fields] | None:
    if row.parked is None:
        return None
    return [{"key": each.key, "messages": each.messages} for each in row.parked]


def _head(head: Head) -> Fields:
    return {
        "offset": head.offset,
        "key": head.key,
        "tags": head.tags,
        "stored_time": iso_time(head.stored_at),
        "born_time": iso_time(head.born_at),
        "reconsumed": head.reconsumed,
        "size": head.size,
        "attempts": head.attempts,
        "fingerprint": head.fingerprint,
        "because": head.because,
    }
