"""The report of a replay, or of a dry run. Pure but for drawing."""

from __future__ import annotations

from collections.abc import Iterator

from orderly.monitoring.reporting.charts import Bar, Stick, bars, columns
from orderly.spark.jobs.origin import Origin
from orderly.spark.jobs.replay.result import ReplayResult
from orderly.spark.reporting.contents import Column, Fact, Kind, Plot, Report, Section, Table

_BARS, _QUEUES, _OBJECTIONS = 15, 64, 20  # shown of each


def report(made_from: Origin, result: ReplayResult) -> Report:
    """What was sent, or would be."""
    return Report(
        title=f"Replay into {result.target}",
        verdict=result.verdict,
        headline=result.headline,
        origin=made_from,
        facts=tuple(_facts(result)),
        sections=(*_against(result), _keys(result), _queues(result)),
    )


def _facts(result: ReplayResult) -> Iterator[Fact]:
    is_dry = result.sent is None
    yield Fact("would be sent" if is_dry else "in the topic", f"{result.due:,}", "messages")
    yield Fact("keys", f"{result.extent.keys:,}", f"{result.extent.moved:,} in several queues")
    if result.sent is not None:
        yield Fact("sent now", f"{result.sent:,}", f"{result.before:,} by an earlier call")
        yield Fact("stored twice", f"{result.repeated:,}", "copies with the same id")
        yield Fact("missing", f"{result.missing:,}", "messages")
    if result.extent.keyless:
        yield Fact("without a key", f"{result.extent.keyless:,}", f"{result.skipped:,} left out")


def _against(result: ReplayResult) -> Iterator[Section]:
    if not result.objections:
        return
    shown = result.objections[:_OBJECTIONS]
    table = Table(
        [Column("group"), Column("queue"), Column("known")],
        [(it.group, str(it.queue), "yes" if it.known else "not in the table") for it in shown],
        len(result.objections) - len(shown),
        of="objection",
    )
    yield Section(
        "What speaks against it",
        "The copies come behind everything that is stored now. These groups have consumed messages"
        " that were sent after the originals; known: the table shows one of a selected key.",
        table=table,
    )


def _keys(result: ReplayResult) -> Section:
    shown = [Bar(it.key or "no key", it.messages, f"{it.messages:,}") for it in result.keys[:_BARS]]
    plots = (Plot("Messages of the most frequent keys", bars("keys", shown)),) if shown else ()
    table = Table(
        [
            Column("key", Kind.KEY),
            Column("messages", Kind.COUNT),
            Column("queues", Kind.COUNT),
            Column("queue"),
            Column("first offset", Kind.COUNT),
            Column("last offset", Kind.COUNT),
            Column("stored from", Kind.TIME),
            Column("to", Kind.TIME),
        ],
        [
            (
                it.key,
                it.messages,
                it.queues,
                it.queue if it.queues == 1 else f"{it.queue}, …",
                it.first_offset if it.queues == 1 else None,
                it.last_offset if it.queues == 1 else None,
                it.first_stored,
                it.last_stored,
            )
            for it in result.keys
        ],
        max(0, result.extent.keys - len(result.keys)),
        of="key",
    )
    text = (
        "Each key's messages go in the order of their queue. A key that lay in several queues is"
        " merged by store time, then by broker, queue and offset: more is not known of its order."
    )
    return Section("Keys", text, plots, table)


def _queues(result: ReplayResult) -> Section:
    sticks = [Stick(str(queue_id), messages) for _, queue_id, messages in result.queues[:_QUEUES]]
    plots = (Plot("Messages by the queue they were in", columns("from", sticks, "queue")),)
    return Section("Queues they come from", plots=plots if sticks else ())
