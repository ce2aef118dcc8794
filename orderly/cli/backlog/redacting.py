"""--redact-keys: keys of messages may be personal data, and screens are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import click

from orderly.cli.settings import settings_of
from orderly.config.fields import require
from orderly.foreign_text import hidden
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus, Snapshot, TopicStatus

F = TypeVar("F", bound=Callable[..., Any])


def redact_option(command: F) -> F:
    """Add --redact-keys as the argument `redact_keys`."""
    return click.option(
        "--redact-keys",
        type=click.Choice(["hash"]),
        callback=_or_the_settings,
        help="Show hashes instead of keys. Default: `redact_keys` of the settings.",
    )(command)


def _or_the_settings(ctx: click.Context, _: click.Parameter, given: str | None) -> str | None:
    if given or ctx.resilient_parsing:  # to complete a word needs none
        return given
    found, origin = settings_of(ctx).found().get("redact_keys", ("", ""))
    require(found in ("", "hash"), f"redact_keys of {origin} must be 'hash', not {found!r}")
    return found or None


def redacted(snapshot: Snapshot, redact: str | None) -> Snapshot:
    """The snapshot without keys, if that is wanted."""
    if redact is None:
        return snapshot
    return replace(snapshot, groups={name: _group(it) for name, it in snapshot.groups.items()})


def _group(group: GroupStatus) -> GroupStatus:
    return replace(group, topics={name: _topic(topic) for name, topic in group.topics.items()})


def _topic(topic: TopicStatus) -> TopicStatus:
    def rows() -> Iterator[QueueStatus]:
        return map(_row, topic.rows())

    return replace(topic, make_rows=rows)


def _row(row: QueueStatus) -> QueueStatus:
    head, parked = row.head, row.parked
    if head is not None and head.key is not None:
        head = replace(head, key=hidden(head.key))
    if parked is not None:
        parked = tuple(replace(each, key=hidden(each.key)) for each in parked)
    return replace(row, head=head, parked=parked)
