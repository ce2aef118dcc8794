"""--redact-keys: keys of messages may be personal data, and screens are shared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.settings import settings_of
from orderly.config.fields import require
from orderly.foreign_text import hidden
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus, Snapshot, TopicStatus

if TYPE_CHECKING:
    from orderly.monitoring.parked import KeyReport, Listing
    from orderly.protocol.park_record import Parked


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


# --- parked keys and dead letters: which, where, since when; not what -----------------------------


def listing_without_keys(listing: Listing) -> Listing:
    """Hashes instead of keys; of failures their fingerprints."""
    return replace(listing, keys=tuple(map(_report, listing.keys)))


def _report(report: KeyReport) -> KeyReport:
    first = None if report.first is None else _without_texts(report.first)
    return replace(report, key=hidden(report.key), first=first)


def _without_texts(found: Parked) -> Parked:
    details = replace(found.details, reason="", first_error=None, last_error=None)
    return replace(found, details=details)


def letter_without_key(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a dead letter."""
    return fields | {"key": None if fields["key"] is None else hidden(fields["key"])}
