"""One survey of a cluster, for the command line: looks, details, verdicts; no thread stays."""

from __future__ import annotations

import time

from orderly.client import Client
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.look import AddsDetails, Observer
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import Selection


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
    """Measure and judge the backlog of some groups, now. Blocks.

    Args:
        client: need not be started.
        selection: which groups and topics; details are asked for its named groups first.
        settings: of each scan.
        backlog: judges; None: one with its default settings.
        budgets: what to ask beside the offsets; None: nothing.
        samples: how many scans. One knows no rates and nothing that needs time to be seen.
        interval: seconds between two scans.

    Returns:
        What the last scan was judged to be. A group that does not exist is not in it; what a
        broker did not tell is UNKNOWN, and the broker's reading says why.

    Raises:
        NameServerUnavailable: no name server answered: nothing is known.
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
