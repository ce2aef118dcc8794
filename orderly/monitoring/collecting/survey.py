"""One survey of a cluster, for the command line: scans, details, verdicts; no thread stays."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol, final

from orderly.client import Client
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.questions import ScanContext
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import Selection


class AddsDetails(Protocol):
    """What asks about members, first messages and the like: see `details.Details`."""

    def add(self, scan: Scan, last: Snapshot | None, round_: ScanContext, /) -> Scan:
        """The scan with what is known about its groups."""


@final
class Observer:
    """Looks at a cluster, again and again. Not thread-safe.

    A topic that members consume and whose group has not committed there yet is seen from the
    look on that follows the one in which the members were asked.

    Args:
        collector: of the offsets.
        details: of the groups; None: offsets only.
    """

    def __init__(self, collector: Collector, details: AddsDetails | None) -> None:
        self._collector = collector
        self._details = details
        self._subscribed: Mapping[str, Collection[str]] = {}

    def look(self, last: Snapshot | None) -> Scan:
        """Scan once. Blocks.

        Args:
            last: what the look before was judged to be: it says where details are worth asking.

        Raises:
            NameServerUnavailable: no name server answered, so nothing is known.
        """
        began = time.monotonic()
        scan = self._collector.scan(self._subscribed)
        if self._details is None:
            return scan
        scan = self._details.add(scan, last, self._collector.round)
        self._subscribed = subscriptions(scan.groups)
        return replace(scan, seconds=time.monotonic() - began)

    def overlooked(self, scan: Scan) -> bool:
        """Whether members consume topics that the next look will see, and `scan` did not."""
        return any(
            (group, topic) not in scan.committed and self._collector.consumes(topic)
            for group, topics in self._subscribed.items()
            for topic in topics
        )


def subscriptions(groups: Mapping[str, GroupReading]) -> dict[str, Collection[str]]:
    """Which topics the members of each group say they consume."""
    return {
        name: group.connections.subscriptions.keys()
        for name, group in groups.items()
        if group.connections is not None
    }


def survey(
    client: Client,
    selection: Selection,
    *,
    settings: ScanSettings | None = None,
    backlog: Backlog | None = None,
    budgets: Budgets | None = None,
    samples: int = 1,
    interval: float = 5.0,
) -> Snapshot:
    """Measure and judge the backlog of some groups now. Blocks.

    Args:
        client: need not be started.
        selection: which groups and topics. Named groups get their details first.
        settings: of each scan.
        backlog: judges the scans; None: one with its default settings.
        budgets: what to ask besides the offsets; None: nothing.
        samples: how many scans. A single scan gives no rates, and no states that need time.
        interval: seconds between two scans.

    Returns:
        The judged last scan. A group that does not exist is not in it. If a broker did not answer,
        its part is UNKNOWN, and the broker's reading says why.

    Raises:
        NameServerUnavailable: no name server answered, so nothing is known.
    """
    collector = Collector(client, selection, settings)
    details: AddsDetails | None = None
    if budgets is not None:
        from orderly.monitoring.collecting.details import (  # noqa: PLC0415  a quarter of all imports
            Details,
        )

        details = Details(collector.pipeline, budgets, asked=selection.named_groups)
    observer = Observer(collector, details)
    judge = backlog or Backlog()
    began = time.monotonic()
    scan = observer.look(None)
    if samples == 1 and observer.overlooked(scan):
        scan = observer.look(None)
    snapshot = judge.take(scan)
    for number in range(1, samples):
        time.sleep(max(0.0, began + number * interval - time.monotonic()))
        snapshot = judge.take(observer.look(snapshot))
    return snapshot
