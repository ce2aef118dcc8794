"""The base scan: offsets of all chosen groups, with a handful of requests and one a topic.

It leaves no traces: no pull, no lock, no heartbeat, no group of its own, nothing created. It
asks each master for all committed offsets, all topics and all groups, and only then for the
maxima: read the other way round, a busy queue would look as if its group were ahead.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import final

from orderly.client import Client
from orderly.client.gate import Limits
from orderly.client.pipeline import Pipeline
from orderly.errors import OrderlyError, RemotingError
from orderly.monitoring.backlog.reading import BrokerReading, GroupReading, Scan
from orderly.monitoring.collecting.assembly import assemble, queues_wanted
from orderly.monitoring.collecting.memory import Memory
from orderly.monitoring.collecting.names import PROXY_TOPIC
from orderly.monitoring.collecting.opening import Opening, open_scan
from orderly.monitoring.collecting.parts import Catalogue, Part, catalogue, is_consumed
from orderly.monitoring.collecting.questions import route
from orderly.monitoring.collecting.round import Round
from orderly.monitoring.collecting.selection import EVERYTHING, Selection
from orderly.monitoring.collecting.spans import ask_spans
from orderly.monitoring.collecting.tables import Queues, Spans
from orderly.protocol.bodies import ClusterInfo
from orderly.protocol.codes import RequestCode
from orderly.protocol.topic_config import TopicConfig

_NOBODY: Mapping[str, Collection[str]] = {}


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """How a cluster is scanned.

    Attributes:
        deadline: seconds for a whole scan; what is not known by then is not read. A broker that
            hangs uses up half of it at most before the others are asked on.
        limits: for each broker.
        cold_safe: never let a broker read its log: one request a queue instead of one a topic,
            and no times of last messages.
    """

    deadline: float = 10.0
    limits: Limits = field(default_factory=Limits)
    cold_safe: bool = False


@final
class Collector:
    """Scans one cluster, again and again. One scan at a time; not thread-safe.

    Args:
        client: need not be started; it sends no heartbeat for this.
        selection: which groups and topics.
        settings: see their class.

    Attributes:
        pipeline: what it asks through; may be used for more questions after a scan.
        round: addresses and deadline of the last scan.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection = EVERYTHING,
        settings: ScanSettings | None = None,
    ) -> None:
        self.settings = settings or ScanSettings()
        self.selection = selection
        self.pipeline = Pipeline(client.connections, self.settings.limits)
        self.round = Round({}, 0.0)
        self._client = client
        self._memory = Memory()

    def scan(self, subscribed: Mapping[str, Collection[str]] = _NOBODY) -> Scan:
        """Read the offsets of all chosen groups. Blocks.

        A broker that does not answer leaves its part NOT_READ; the rest is fresh.

        Args:
            subscribed: topics by group that its members say they consume, so that they are seen
                before the group commits there for the first time.

        Raises:
            NameServerUnavailable: no name server answered: nothing is known.
        """
        at, began = time.time(), time.monotonic()
        self.pipeline.begin()
        cluster = self._client.admin.cluster()
        masters = {name: data.master for name, data in cluster.brokers.items() if data.master}
        self.round = Round(masters, began + self.settings.deadline)
        half = replace(self.round, deadline=began + self.settings.deadline / 2)
        openings = open_scan(self.pipeline, half, self.selection, self._memory, began)
        self.round = replace(self.round, proxied=_proxied(openings))
        openings |= self._absent(cluster, began)
        parts, chosen = self._placed([it.part for it in openings.values()], subscribed)
        wanted = queues_wanted(parts, chosen)
        spans = self._spans({name: wanted[name] for name in masters}, began)
        self._memory.forget_topics(chosen.topics)
        topics, committed = assemble(parts, chosen, wanted, spans)
        return Scan(
            at=at,
            seconds=time.monotonic() - began,
            cluster=next(iter(cluster.clusters)) if len(cluster.clusters) == 1 else "",
            brokers={n: self._broker(n, it, spans) for n, it in sorted(openings.items())},
            topics=topics,
            committed=committed,
            groups={group: GroupReading(group) for group in sorted(chosen.groups)},
            requests=self.pipeline.counts() + Counter([int(RequestCode.GET_BROKER_CLUSTER_INFO)]),
        )

    def consumes(self, topic: str) -> bool:
        """Whether a scan shows the topic if members say that they consume it."""
        return is_consumed(topic, self.selection)

    def _absent(self, cluster: ClusterInfo, now: float) -> dict[str, Opening]:
        """Brokers without a master, and those no name server lists any more."""
        reasons = {
            name: f"broker {name!r} has no master at the name server; wait until it is back"
            for name, data in cluster.brokers.items()
            if not data.master
        }
        for name, seconds in self._memory.missed(cluster.brokers.keys(), now).items():
            reasons[name] = (
                f"broker {name!r} is no longer listed by the name server; it answered"
                f" {seconds:.0f} s ago: start it again (if it was removed, restart this monitor)"
            )
        return {n: Opening(self._memory.recall(n), RemotingError(r)) for n, r in reasons.items()}

    def _placed(
        self, parts: list[Part], subscribed: Mapping[str, Collection[str]]
    ) -> tuple[list[Part], Catalogue]:
        """What the scan is about; queues no broker tells of are taken from the name server."""
        chosen = catalogue(parts, self.selection, subscribed)
        if all(part.configs is not None for part in parts) or not chosen.topics:
            return parts, chosen
        routes = self._by_route(sorted(chosen.topics))
        parts = [
            part if part.configs is not None else replace(part, configs=routes.get(part.broker))
            for part in parts
        ]
        return parts, catalogue(parts, self.selection, subscribed)

    def _by_route(self, topics: list[str]) -> dict[str, dict[str, TopicConfig]]:
        """Queue numbers by broker and topic, as the first name server that answers has them."""
        found: dict[str, dict[str, TopicConfig]] = {}
        for address in self._client.name_servers.addresses:
            asked = [route(topic) for topic in topics]
            answers = self.pipeline.ask(address, asked, self.round.deadline)
            for answer in answers:
                if isinstance(answer, OrderlyError):
                    continue
                for data in answer.queues:
                    found.setdefault(data.broker_name, {})[answer.topic] = TopicConfig(
                        name=answer.topic,
                        read_queues=data.read_queues,
                        write_queues=data.write_queues,
                        perm=int(data.permission),
                    )
            if not all(isinstance(answer, RemotingError) for answer in answers):
                break
        return found

    def _spans(self, wanted: Mapping[str, list[Queues]], now: float) -> Spans:
        memory = self._memory if self.settings.cold_safe else None
        return ask_spans(self.pipeline, self.round, wanted, memory, now)

    def _broker(self, name: str, opening: Opening, spans: Spans) -> BrokerReading:
        error = opening.error or spans.silent.get(name)
        traffic = self.pipeline.traffic(self.round.masters.get(name, ""))
        return BrokerReading(
            name,
            error=str(error) if error else None,
            requests=traffic.requests.total(),
            seconds=traffic.seconds,
            retention=self._memory.retention(name),
        )


def _proxied(openings: Mapping[str, Opening]) -> frozenset[str]:
    """The brokers at which proxies tell each other of their clients, or did."""
    return frozenset(
        name for name, it in openings.items() if PROXY_TOPIC in (it.part.configs or ())
    )
