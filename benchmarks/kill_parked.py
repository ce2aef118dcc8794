"""What kill rounds parked: read from the park topic at the end, and counted."""

import time
from collections import Counter
from dataclasses import dataclass

from orderly import Client
from orderly.monitoring.parked import ParkedMessages
from orderly.protocol.park_record import Parked, Result
from orderly.testing import Delivered
from tests.support.accounts import BAD, DEADLY, WRITTEN
from tests.support.topics import ParkTopic


@dataclass(frozen=True)
class Found:
    """What is in the park topic.

    Attributes:
        operator: who released it.
        records: every `Parked` that was appended.
        results: every `Result` of a command.
        left: keys that are parked still.
        clock: what to subtract from the time of day to have the clock of deliveries.
    """

    operator: object
    records: tuple
    results: tuple
    left: tuple
    clock: float

    @property
    def settled(self):
        """As deliveries: a parked message may count as done once it is stored."""
        return [
            Delivered(
                r.key, None, r.original.queue.queue_id, r.offset, ended=r.stored_at - self.clock
            )
            for r in self.records
        ]

    def figures(self, accounts, processes):
        """What happened, and what was wrong, in words."""
        copies = Counter((r.original.queue, r.offset) for r in self.records)
        outcomes = self.operator.outcomes
        deaths = Counter(w.number for w in accounts.answers(DEADLY, replayed=False))
        killers = accounts.trouble.killers
        replayed = [write.number for write in accounts.answers(WRITTEN, replayed=True)]
        begun = Counter(r.id for r in self.results if not r.done and not r.settled)
        bodies = {int(record.original.body) for record in self.records}
        figures = {
            "parked": len(copies),
            "parked_twice_or_more": sum(copies.values()) - len(copies),
            "bad_answers": len(accounts.answers(BAD)),
            "releases": len(outcomes),
            "releases_that_stopped": sum(o.failed_at is not None for o in outcomes),
            "releases_refused": sum(o.refused for o in outcomes),
            "releases_unanswered": self.operator.unanswered,
            "releases_begun_again_by_an_heir": sum(times > 1 for times in begun.values()),
            "replayed": len(set(replayed)),
            "replayed_again": len(replayed) - len(set(replayed)),
            "killers": len(killers),
            "deaths_by_killers": processes.died,
            "members_that_failed": processes.failed,
            "deaths_until_a_killer_was_parked": [deaths[number] for number in killers],
            "deaths_by_releases": len(accounts.answers(DEADLY, replayed=True)),
            "killers_never_parked": len(set(killers) - bodies),
            "others_blamed_for_deaths": len(self._blamed() - set(killers)),
            "left_parked": len(self.left),
        }
        return figures, [f"key {key} is parked still" for key in self.left]

    def _blamed(self):
        """Numbers of the messages that were parked because processes died."""
        return {int(r.original.body) for r in self.records if "process died" in r.details.reason}


def park_topic_of(operator, namesrv, group, topic):
    """Read all of it."""
    with Client(namesrv=namesrv) as client:
        clock = time.time() - time.monotonic()
        onlooker = ParkTopic(client, group, topic)
        queues = client.routes.get(topic).read_queues()
        found = [record for queue in queues for record in onlooker.records(queue)]
        records, results = (tuple(r for r in found if isinstance(r, t)) for t in (Parked, Result))
        left = ParkedMessages(client, group, topic).keys()
        return Found(operator, records, results, left, clock)
