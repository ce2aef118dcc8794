"""What `orderly skew` found, for programs: CSV, and one document for JSON and YAML. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from orderly.cli.formats import Answer, Column, Kind
from orderly.cli.formats.answer import Cell
from orderly.cli.skew_report import Report, share_of, short
from orderly.cli.text import printable
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.skew.what_if import Outcome

SCHEMA = "orderly.skew/v1"
_PARTS = ("part", "name", "selector", "messages", "share", "max over mean", "gini", "moved")


def answer(report: Report) -> Answer:
    """For programs: one list of queues, keys and outcomes, or a document."""
    columns = [Column(name, Kind.TEXT if at < 3 else Kind.NUMBER) for at, name in enumerate(_PARTS)]
    return Answer(columns, list(_lines(report)), partial(_document, report))


def _lines(report: Report) -> Iterator[Sequence[Cell]]:
    inflow, keys = report.found.inflow, report.found.keys
    for queue, count in inflow.messages.items():
        yield "queue", str(queue), None, count, share_of(count, inflow), None, None, None
    for key in keys.top:
        yield "key", report.key(key.key), None, key.least, key.least / keys.keyed, None, None, None
    for each in keys.outcomes:
        if (skew := each.skew) is not None:
            yield ("what-if", str(each.queues), each.selector, None, skew.top_share,
                   skew.max_over_mean, skew.gini, each.moved)  # fmt: skip


def _document(report: Report) -> dict[str, Any]:
    found = report.found
    return {
        "schema": SCHEMA,
        "topic": found.topic,
        "layout": str(found.layout),
        "group": None if report.group is None else report.group.group,
        "inflow": _inflow_fields(report),
        "keys": _key_fields(report),
        "what_if": [_outcome_fields(report, each) for each in found.keys.outcomes],
        "advice": [printable(line) for line in report.advice()],
        "errors": dict(found.errors),
    }


def _inflow_fields(report: Report) -> dict[str, Any]:
    inflow, status = report.found.inflow, report.rows()
    return {
        "basis": str(inflow.basis),
        "seconds": inflow.seconds,
        "messages": inflow.total,
        "skew": _skew_fields(inflow.skew),
        "queues": [
            {
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "messages": count,
                "share": share_of(count, inflow),
                "backlog": status[queue].backlog if queue in status else None,
                "owner": status[queue].owner if queue in status else None,
            }
            for queue, count in inflow.messages.items()
        ],
    }


def _skew_fields(skew: QueueSkew | None) -> dict[str, Any] | None:
    return None if skew is None else asdict(skew) | {"busiest": str(skew.busiest)}


def _key_fields(report: Report) -> dict[str, Any]:
    keys = report.found.keys
    return {
        "messages_planned": report.found.planned,
        "messages_read": keys.messages,
        "without_key": keys.keyless,
        "different": keys.keys,
        "in_several_queues": keys.splits,
        "least_share_of_busiest_queue": keys.least_share,
        "top": [
            {
                "key": report.key(key.key),
                "messages_least": key.least,
                "messages_most": key.most,
                "share_least": key.least / keys.keyed,
                "share_most": key.most / keys.keyed,
                "queue": short(key.queue),
                "in_several_queues": key.split,
            }
            for key in keys.top
        ],
    }


def _outcome_fields(report: Report, outcome: Outcome) -> dict[str, Any]:
    top = report.found.keys.top
    moves = [key for key in top if outcome.place(key.key) != key.queue]
    return {
        "queues": outcome.queues,
        "selector": outcome.selector,
        "skew": _skew_fields(outcome.skew),
        "moved_share": outcome.moved,
        "moved_keys": [
            {
                "key": report.key(key.key),
                "from": short(key.queue),
                "to": short(outcome.place(key.key)),
            }
            for key in moves
        ],
    }
