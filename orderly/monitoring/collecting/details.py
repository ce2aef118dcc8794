"""What a scan learns beside the offsets, about the groups whose turn it is.

Every question only reads. None makes a group or a subscription, takes a lock or pulls; the worst
that can happen is that something is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from orderly.client.pipeline import Pipeline
from orderly.model import MessageQueue
from orderly.monitoring.backlog.members import is_broadcasting, keeps_order_by_key
from orderly.monitoring.backlog.reading import (
    BrokerReading,
    GroupReading,
    Head,
    QueueRecord,
    Recreation,
    Scan,
)
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.ages import Ages, AgesAsked, DeadAges, TimeSpans, clock_offsets
from orderly.monitoring.collecting.assembly import ScannedQueue, queues_by_key
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.generations import Generations
from orderly.monitoring.collecting.heads import Heads, lagging_topics, with_attempts, worst_heads
from orderly.monitoring.collecting.members import MemberPoller
from orderly.monitoring.collecting.questions import Asking, ScanContext

if TYPE_CHECKING:
    from orderly.monitoring.collecting.state_reading import Recorded, Records


class Details:
    """Asks for details, a few in each scan, and keeps what older answers said. Not thread-safe.

    Args:
        pipeline: the collector's; each scan begins its round.
        budgets: of each scan.
        asked: groups that come first in every scan.
    """

    def __init__(
        self, pipeline: Pipeline, budgets: Budgets | None = None, asked: Collection[str] = ()
    ) -> None:
        self._pipeline = pipeline
        self._budgets = budgets or Budgets()
        self._asked = frozenset(asked)
        self._roster = MemberPoller(self._budgets, self._asked)
        self._ages = Ages(self._budgets, self._asked)
        self._heads = Heads()
        self._dead = DeadAges()
        self._generations = Generations()
        self._clocks: dict[str, float] = {}
        self._read_ages: Mapping[AgesAsked, TimeSpans] = {}  # of the scan before

    def add(self, scan: Scan, last: Snapshot | None, round_: ScanContext) -> Scan:
        """Return the scan with details; blocks, until the round's deadline at most.

        Who does not answer leaves a gap, and raises nothing.

        Args:
            scan: offsets, topics, and an entry for each group.
            last: what the scan before was judged to be: there the worst queues are known.
            round_: whom to ask, and until when.
        """
        asking = Asking(self._pipeline, round_)
        lagging = lagging_topics(scan)
        self._roster.ask(asking, scan, lagging)
        self._ask_ages_and_heads(asking, scan, self._counting(lagging), last)
        self._dead.ask(asking, scan, scan.groups, self._budgets.groups)
        rows = list(queues_by_key(scan, {group for group in scan.groups if self._by_key(group)}))
        if rows:
            self._records.ask(asking, scan, rows, self._budgets.records)
        recreated = self._generations.look(asking, scan, rows, self._newest)
        return replace(
            scan,
            brokers=self._brokers(scan, round_),
            groups=self._groups(scan, rows, recreated),
            requests=Counter(scan.requests) | self._pipeline.counts(),
        )

    @cached_property
    def _records(self) -> Records:
        """Made where a group keeps order by key: to read them takes half of a consumer's code."""
        from orderly.monitoring.collecting.state_reading import Records  # noqa: PLC0415

        return Records(self._asked)

    def _newest(self, group: str, queue: MessageQueue) -> Recorded | None:
        return self._records.newest(group, queue)

    def _counting(self, lagging: Mapping[str, Collection[str]]) -> dict[str, Collection[str]]:
        """Without groups whose offsets at the broker mean nothing."""
        return {
            group: topics
            for group, topics in lagging.items()
            if not is_broadcasting(self._roster.of(group))
        }

    def _by_key(self, group: str) -> bool:
        """Whether records count: a member that is online may say that it orders by queue now."""
        return keeps_order_by_key(self._roster.of(group)) is not False

    def _ask_ages_and_heads(
        self,
        asking: Asking,
        scan: Scan,
        lagging: Mapping[str, Collection[str]],
        last: Snapshot | None,
    ) -> None:
        self._heads.settle(scan)
        self._clocks |= clock_offsets(self._read_ages, self._heads.read)
        self._read_ages = self._ages.ask(asking, scan, lagging)
        places = worst_heads(scan, lagging, self._heads.knows, last, self._budgets.heads)
        self._heads.ask(asking, places)

    def _brokers(self, scan: Scan, round_: ScanContext) -> dict[str, BrokerReading]:
        return {
            name: replace(
                broker,
                clock_offset=self._clocks.get(name),
                requests=self._pipeline.traffic(round_.masters[name]).requests.total(),
            )
            if name in round_.masters
            else broker
            for name, broker in scan.brokers.items()
        }

    def _groups(
        self,
        scan: Scan,
        rows: list[ScannedQueue],
        recreated: Mapping[str, Mapping[MessageQueue, Recreation]],
    ) -> dict[str, GroupReading]:
        records: dict[str, dict[MessageQueue, QueueRecord | None]] = {}
        for row in rows:
            record = self._records.of(row, scan)
            found = recreated.get(row.group, {}).get(row.queue)
            if record is not None and found is not None and found.recorded:
                record = replace(record, unfinished=row.maximum - row.minimum, low=row.minimum)
            records.setdefault(row.group, {})[row.queue] = record
        heads: dict[str, dict[MessageQueue, Head]] = {}
        for (group, queue), head in self._heads.read.items():
            heads.setdefault(group, {})[queue] = head
        detailed = {}
        for group in scan.groups:
            reading = self._ages.with_delays(self._roster.of(group))
            reading = self._dead.with_dead(reading, scan)
            known = with_attempts(heads.get(group, {}), reading)
            detailed[group] = replace(
                reading,
                heads=known,
                records=records.get(group, {}),
                recreated=recreated.get(group, {}),
            )
        return detailed
