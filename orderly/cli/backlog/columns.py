"""The columns of a listing, for groups, topics and queues, in one table. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orderly.cli.backlog.lines import Level, Line
from orderly.cli.formats import Column, Kind
from orderly.cli.formats.answer import Cell

Of = Callable[[Line], Any]  # a Cell
"""Takes a cell from a line."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column, the levels that have it, and where its cells come from."""

    column: Column
    levels: tuple[Level, ...]
    of: Of


_ALL = (Level.GROUP, Level.TOPIC, Level.QUEUE)
_SUMS = (Level.GROUP, Level.TOPIC)
_QUEUE = (Level.QUEUE,)


def _figure(name: str) -> Of:
    """A figure of a queue, or of several together."""
    return lambda line: getattr(line.figures, name)


def _row(name: str) -> Of:
    """A figure that only a queue has."""
    return lambda line: getattr(line.row, name, None)


def _place(name: str) -> Of:
    """Where the queue is."""
    return lambda line: getattr(line.row and line.row.queue, name, None)


def _head(name: str) -> Of:
    """A fact about the first message not finished."""
    return lambda line: getattr(line.row and line.row.head, name, None)


def _members(line: Line) -> Cell:
    return None if line.group.members is None else len(line.group.members)


def _dead(line: Line) -> Cell:
    return None if line.group.dead is None else line.group.dead.messages


def _skew(line: Line) -> Cell:
    return getattr(line.topic and line.topic.skew, "max_over_mean", None)


FIELDS = (
    Field(Column("group"), _ALL, lambda line: line.group.group),
    Field(
        Column("topic"), (Level.TOPIC, Level.QUEUE), lambda line: getattr(line.topic, "topic", None)
    ),
    Field(Column("broker"), _QUEUE, _place("broker_name")),
    Field(Column("queue", Kind.COUNT), _QUEUE, _place("queue_id")),
    Field(Column("state", Kind.STATE), _ALL, lambda line: str(line.figures.state)),
    Field(Column("min", Kind.COUNT, wide=True), _QUEUE, _row("minimum")),
    Field(Column("committed", Kind.COUNT), _QUEUE, _row("committed")),
    Field(Column("max", Kind.COUNT), _QUEUE, _row("maximum")),
    Field(Column("span", Kind.COUNT, wide=True), _QUEUE, _row("span")),
    Field(Column("backlog", Kind.COUNT), _ALL, _figure("backlog")),
    Field(Column("age", Kind.SECONDS), _ALL, _figure("head_age")),
    Field(Column("eta", Kind.SECONDS), _ALL, _figure("drain_eta")),
    Field(Column("parked", Kind.COUNT), _ALL, _figure("parked_messages")),
    Field(Column("dead", Kind.COUNT), _SUMS, _dead),
    Field(Column("queues", Kind.COUNT), _SUMS, _figure("queues")),
    Field(Column("unknown", Kind.COUNT, wide=True), _SUMS, _figure("unknown")),
    Field(Column("members", Kind.COUNT), _SUMS, _members),
    Field(Column("in/s", Kind.RATE, wide=True), _ALL, _figure("in_rate")),
    Field(Column("out/s", Kind.RATE, wide=True), _ALL, _figure("out_rate")),
    Field(Column("retention", Kind.SECONDS, wide=True), _ALL, _figure("retention_eta")),
    Field(Column("lost", Kind.COUNT, wide=True), _ALL, _figure("lost")),
    Field(Column("parked age", Kind.SECONDS, wide=True), _ALL, _figure("parked_age")),
    Field(Column("dead age", Kind.SECONDS, wide=True), _SUMS, lambda line: line.dead_age),
    Field(Column("skew", Kind.RATIO, wide=True), (Level.TOPIC,), _skew),
    Field(Column("key", wide=True), _QUEUE, _head("key")),
    Field(Column("attempts", Kind.COUNT, wide=True), _QUEUE, _head("attempts")),
    Field(Column("owner", wide=True), _QUEUE, _row("owner")),
    Field(Column("cause", wide=True), _QUEUE, _row("cause")),
    Field(
        Column("findings", Kind.COUNT, wide=True),
        (Level.GROUP,),
        lambda line: len(line.group.findings),
    ),
)


def fields_of(level: Level) -> list[Field]:
    """The columns of a level."""
    return [field for field in FIELDS if level in field.levels]
