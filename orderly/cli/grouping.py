"""--group-by of lists of messages that failed: what they have in common, the most first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from orderly.cli.output import Table, print_json, print_table

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Alike:
    """What a group of rows comes to: different keys, messages, and from when to when."""

    keys: set[object] = field(default_factory=set)
    messages: int = 0
    times: list[str] = field(default_factory=list)


def group_by_option(*choices: str) -> Callable[[F], F]:
    """Add --group-by as the argument `group_by`."""
    return click.option(
        "--group-by", type=click.Choice(choices), help="Count them by this instead of listing them."
    )


def grouped(rows: Iterable[Mapping[str, Any]], by: str) -> list[dict[str, Any]]:
    """Count rows by their field `by`, the most messages first.

    Args:
        rows: with the fields `by` (None: not known), key, messages and time (ISO 8601 in UTC).
        by: the field.
    """
    found: dict[str | None, Alike] = {}
    for row in rows:
        alike = found.setdefault(row[by], Alike())
        alike.messages += row["messages"]
        alike.keys |= set() if row["key"] is None else {(row["topic"], row["key"])}
        alike.times += [] if row["time"] is None else [row["time"]]
    told = [
        {
            by: value,
            "keys": len(alike.keys),
            "messages": alike.messages,
            "first": min(alike.times, default=None),
            "last": max(alike.times, default=None),
        }
        for value, alike in found.items()
    ]
    return sorted(told, key=lambda it: (-it["messages"], str(it[by])))


def print_groups(
    rows: Iterable[Mapping[str, Any]], by: str, output: str, document: Mapping[str, Any]
) -> None:
    """Print what `grouped` tells, as a table or, within `document`, as JSON."""
    groups = grouped(rows, by)
    if output == "json":
        print_json({**document, "by": by, "groups": groups})
    else:
        columns = (by, "keys", "messages", "first", "last")
        print_table(Table(columns, [tuple(each.values()) for each in groups]))
