"""One look at a cluster: the base scan, and the details of the groups whose turn it is."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol, final

from orderly.monitoring.backlog.reading import GroupReading, Scan
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.round import Round
from orderly.monitoring.collecting.scan import Collector


class AddsDetails(Protocol):
    """What asks about members, first messages and the like: see `details.Details`."""

    def add(self, scan: Scan, last: Snapshot | None, round_: Round, /) -> Scan:
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
            last: what the look before was judged to be: it tells where details are worth asking.

        Raises:
            NameServerUnavailable: no name server answered: nothing is known.
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
