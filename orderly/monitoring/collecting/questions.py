"""The questions of a scan, and how brokers are asked by their names.

All of them only read, and none makes a group or takes a lock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from orderly.client.pipeline import Pipeline, Question
from orderly.errors import OrderlyError, RouteError
from orderly.model import MessageQueue, Permission, TopicRoute
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import from_ext, of_queue, to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.groups import decode_group_configs
from orderly.protocol.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    read_committed,
)
from orderly.protocol.route import GetRouteInfo, decode_route
from orderly.protocol.statistics import (
    GetConsumeStats,
    GetTopicStats,
    OffsetPair,
    TopicOffset,
    decode_consume_stats,
    decode_settings,
    decode_topic_stats,
    retention_of,
)
from orderly.protocol.topics import TopicConfig, decode_topic_configs


@dataclass(frozen=True, slots=True)
class ScanContext:
    """One scan's addresses and its end.

    Attributes:
        masters: address by broker name; a broker without a master is not in it.
        deadline: on time.monotonic.
        proxied: brokers with the topic in which proxies list their clients for each other.
    """

    masters: Mapping[str, str]
    deadline: float
    proxied: Collection[str] = ()


# --- to brokers by their names, within one scan ---------------------------------------------------


R = TypeVar("R")


class Asking:
    """Asks for one scan. One thread at a time.

    Args:
        pipeline: of the collector, with its limits.
        round_: addresses and end of the scan.
    """

    def __init__(self, pipeline: Pipeline, round_: ScanContext) -> None:
        self._pipeline = pipeline
        self._round = round_

    @property
    def proxied(self) -> Collection[str]:
        """See Round."""
        return self._round.proxied

    def ask(self, questions: Sequence[tuple[str, Question[R]]]) -> list[R | OrderlyError]:
        """Ask each broker its questions, all side by side; blocks.

        Args:
            questions: broker name and question.

        Returns:
            The answers, each at the place of its question; an error where an answer is missing.
        """
        by_address: dict[str, list[int]] = {}
        for place, (broker, _) in enumerate(questions):
            if broker in self._round.masters:
                by_address.setdefault(self._round.masters[broker], []).append(place)
        answered = self._pipeline.ask_each(
            {
                address: [questions[place][1] for place in places]
                for address, places in by_address.items()
            },
            self._round.deadline,
        )
        found: dict[int, R | OrderlyError] = {}
        for address, places in by_address.items():
            found.update(zip(places, answered[address], strict=True))
        return [
            found[place] if place in found else _nobody(broker)
            for place, (broker, _) in enumerate(questions)
        ]


def _nobody(broker: str) -> RouteError:
    return RouteError(f"broker {broker!r} has no master at the name server")


# --- the questions --------------------------------------------------------------------------------


_FOUND_OR_NONE = frozenset({ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND})
# Hours for which files are kept (Java: MessageStoreConfig)


def all_committed(
    groups: Collection[str] | None,
) -> Question[dict[tuple[str, str], dict[int, int]]]:
    """The offsets of all groups: one request, and a queue never committed is not in it.

    Args:
        groups: of which the answer is read; None: all.
    """
    return Question(
        request(RequestCode.GET_ALL_CONSUMER_OFFSET),
        lambda reply: read_committed(reply.body, groups),
        "the committed offsets of all groups",
    )


def all_topics() -> Question[Mapping[str, TopicConfig]]:
    """The settings of all topics."""
    return Question(
        request(RequestCode.GET_ALL_TOPIC_CONFIG),
        lambda reply: decode_topic_configs(reply.body).topics,
        "all topics",
    )


def all_groups() -> Question[dict[str, bool]]:
    """All groups by name, and whether they may consume."""
    return Question(
        request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
        lambda reply: {
            name: group.consume_enabled
            for name, group in decode_group_configs(reply.body).groups.items()
        },
        "all consumer groups",
    )


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """What a scan wants to know of a broker's settings; without an answer, what it usually is.

    Attributes:
        retention: seconds for which it keeps messages; None: not known.
        serves_reads: whether it lets anybody read.
    """

    retention: float | None = None
    serves_reads: bool = True


def settings() -> Question[BrokerSettings]:
    """For how long the broker keeps messages, and whether it serves reads."""
    return Question(request(RequestCode.GET_BROKER_CONFIG), _read_settings, "its settings")


def _read_settings(reply: RemotingCommand) -> BrokerSettings:
    found = decode_settings(reply.body)
    permission = found.get("brokerPermission", "")
    readable = not permission.isdecimal() or Permission.READ in Permission(int(permission))
    return BrokerSettings(retention_of(found), readable)


def topic_stats(topic: str) -> Question[dict[MessageQueue, TopicOffset]]:
    """Minimum, maximum and last time of each queue; the time is read from the log."""
    header = GetTopicStats(topic=topic)
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: decode_topic_stats(reply.body),
        f"the offsets of topic {topic!r}",
    )


def maximum(queue: MessageQueue) -> Question[int]:
    """The offset the next message gets; nothing is read from the log."""
    header = GetMaxOffset(**of_queue(queue))
    what = f"the maximum offset of {queue.topic}/{queue.queue_id}"
    return Question(request(header.code, to_ext(header)), _read_offset, what)


def minimum(queue: MessageQueue) -> Question[int]:
    """The oldest offset stored; nothing is read from the log."""
    header = GetMinOffset(**of_queue(queue))
    what = f"the minimum offset of {queue.topic}/{queue.queue_id}"
    return Question(request(header.code, to_ext(header)), _read_offset, what)


def _read_offset(reply: RemotingCommand) -> int:
    return from_ext(OffsetReply, reply.ext).offset


def offsets_of_group(group: str) -> Question[dict[MessageQueue, OffsetPair]]:
    """The offsets of one group; 0 can mean that there is no offset."""
    header = GetConsumeStats(consumer_group=group)
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: decode_consume_stats(reply.body),
        f"the offsets of group {group!r}",
    )


def one_committed(group: str, queue: MessageQueue) -> Question[int | None]:
    """The offset of a group in one queue; None if it never committed there."""
    header = QueryConsumerOffset(
        consumer_group=group,
        **of_queue(queue),
        set_zero_if_not_found=False,
    )
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: _read_offset(reply) if reply.code == ResponseCode.SUCCESS else None,
        f"the offset of group {group!r} in {queue}",
        accept=_FOUND_OR_NONE,
    )


def route(topic: str) -> Question[TopicRoute]:
    """Where a topic's queues are, asked of a name server."""
    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    return Question(
        request(header.code, to_ext(header)),
        lambda reply: decode_route(topic, reply.body),
        f"the route of topic {topic!r}",
    )
