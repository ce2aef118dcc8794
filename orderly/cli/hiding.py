"""Parked keys and dead letters as --redact-keys shows them: which, where, since when; not what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from orderly.foreign_text import hidden

if TYPE_CHECKING:
    from orderly.monitoring.parking.reports import KeyReport, Listing
    from orderly.protocol.park_record import Parked


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
