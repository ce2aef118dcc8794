"""Administration of groups: reset their offsets, ask their members, read their settings.

What only reads offsets, members and names is in `admin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orderly.client.admin import KNOWN_OR_NOT, Admin, Masters, listed
from orderly.client.routes import Routes
from orderly.config import check_group, check_offset, check_topic
from orderly.config.arguments import (
    check_count,
    check_flag,
    check_kind,
    check_number,
    check_queue,
    check_text,
)
from orderly.errors import BrokerError, ConfigError, RouteError
from orderly.model import BrokerData, MessageQueue
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import of_queue, to_ext
from orderly.protocol.frame import request
from orderly.protocol.groups import (
    GetGroupConfig,
    GroupConfig,
    GroupsOfTopic,
    decode_group_config,
    decode_group_configs,
    decode_groups_of_topic,
)
from orderly.protocol.heartbeat import Subscription, decode_producers
from orderly.protocol.members import GetRunningInfo, RunningInfo, decode_running_info
from orderly.protocol.offsets import (
    GetOffsetsOfMembers,
    ResetOffset,
    UpdateConsumerOffset,
    decode_offsets_of_members,
    decode_reset,
)
from orderly.protocol.pull import FilterCheck, encode_filter_check
from orderly.protocol.statistics import (
    OWN_RESETS,
    GetConsumerConnections,
    decode_connections,
    resets_by_itself,
)

_MEMBER_PATIENCE = 12.0  # seconds; the broker itself waits 10 for the member
_LATEST = 253_402_300_800.0  # seconds since the epoch: the year 10000
_THE_END = -1  # in place of a time
# A broker that did not look at the queue would go by the time: better repeat all than skip all.
_THE_START = 0
_NO_SUCH_GROUP = "No group in this broker"  # 5.0 to 5.2, with the code for any error
_ONLINE_OR_NOT = frozenset({ResponseCode.SUCCESS, ResponseCode.CONSUMER_NOT_ONLINE})


class GroupAdmin:
    """Administrative requests about groups. Thread-safe; every method blocks.

    If a broker does not answer, the method raises. Names are the broker's, with their namespace.
    """

    def __init__(self, masters: Masters, admin: Admin, routes: Routes) -> None:
        self._masters = masters
        self._admin = admin
        self._routes = routes

    # --- offsets -------------------------------------------------------------------------------

    def reset_offsets(
        self, group: str, topic: str, *, moment: float | None = None
    ) -> dict[MessageQueue, int]:
        """Set the group's offset in every queue of a topic to a time.

        A broker of release 5.2 or later resets the offsets itself, whether members run or not.
        Members learn of it with their next pull, which happens after a message or 15 s of silence.
        An older broker (or one with useServerSideResetOffset=false) asks the members to reset, and
        refuses if no member is online.

        Args:
            group: it must exist.
            topic: its name.
            moment: seconds since the epoch: the first message stored at or after it. None: the
                end.

        Returns:
            The new offsets.

        Raises:
            GroupNotFound: a broker does not know the group.
            BrokerError: among others: no member is online, and the broker needs one.
        """
        if moment is not None:
            check_number("moment", moment, 0, _LATEST)
        header = ResetOffset(
            topic=check_topic(topic),
            group=check_group(group),
            timestamp=_THE_END if moment is None else int(moment * 1000),
        )
        what = f"a reset of group {group!r} on topic {topic!r}"
        command = request(header.code, to_ext(header))
        replies = self._masters.ask_each(self._masters.of(topic), command, what)
        return {queue: at for reply in replies for queue, at in decode_reset(reply.body).items()}

    def reset_queues(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Set the group's offset in some queues, each to its own value.

        Everything is checked before anything is sent. If a broker fails on the way, its queues and
        those after them stay as they were. A broker before 5.2 (or one with
        useServerSideResetOffset=false) does not inform members of a new offset. There the offsets
        are written only if no member is online: a running member would overwrite them.

        Args:
            group: it must exist.
            offsets: by queue; minimum to maximum of the queue.

        Raises:
            ConfigError: no such queue, an offset the queue does not have, or members are online
                and a broker does not inform them.
            GroupNotFound: a broker that informs members does not know the group.
        """
        check_group(group)
        check_kind("offsets", offsets, Mapping, "a mapping of MessageQueue to int")
        for queue, offset in offsets.items():
            check_queue("each of offsets' queues", queue)
            check_count("each of offsets", offset, 0)
        self._check_offsets(offsets)
        holders = {queue: self._holder(queue) for queue in sorted(offsets)}
        brokers = {broker.broker_name: broker for broker in holders.values()}
        telling = {name for name, broker in brokers.items() if self._tells_members(broker)}
        if silent := brokers.keys() - telling:
            self._require_nobody_online(group, silent)
        for queue, broker in holders.items():
            offset = offsets[queue]
            own = broker.broker_name in telling
            header = (_reset if own else _commit)(group, queue, offset)
            what = f"a reset of group {group!r} in {queue} to {offset}"
            self._masters.ask(broker, request(header.code, to_ext(header)), what)

    def _check_offsets(self, offsets: Mapping[MessageQueue, int]) -> None:
        for topic in sorted({queue.topic for queue in offsets}):
            spans = self._admin.topic_stats(topic)
            for queue in sorted(queue for queue in offsets if queue.topic == topic):
                if queue not in spans:
                    raise ConfigError(
                        f"topic {topic} has no queue {queue}; it has: {listed(map(str, spans))}"
                    )
                span = spans[queue]
                check_offset(queue, offsets[queue], span.min_offset, span.max_offset)

    def _holder(self, queue: MessageQueue) -> BrokerData:
        broker = self._routes.get(queue.topic).broker(queue.broker_name)
        if broker is None:
            raise RouteError(f"{queue} has no broker in its topic's route; wait until it is back")
        return broker

    def _tells_members(self, broker: BrokerData) -> bool:
        """Whether a broker resets one queue, and not the whole topic in its place."""
        return resets_by_itself(self._admin.broker_settings(broker))

    def _require_nobody_online(self, group: str, silent: Iterable[str]) -> None:
        """Refuse to write offsets that running members would overwrite."""
        members = self._admin.consumer_connections(group)
        if members is not None:
            raise ConfigError(
                f"members of group {group!r} are online, and broker {listed(silent)} does not"
                f" inform them of a new offset: stop them first, or set {OWN_RESETS}=true in the"
                " broker's configuration (5.1 or later)"
            )

    # --- members -------------------------------------------------------------------------------

    def running_info(self, group: str, client_id: str, *, stack: bool = False) -> RunningInfo:
        """What a member of the group says about itself.

        Args:
            group: its name.
            client_id: of the member, as `Admin.consumer_connections` lists it.
            stack: also the stacks of its threads, if the member allows it.

        Raises:
            ConfigError: no such member is online.
            BrokerError: the member refused, or did not answer within 10 s.
        """
        check_text("client_id", client_id)
        check_flag("stack", stack)
        header = GetRunningInfo(
            consumer_group=check_group(group), client_id=client_id, jstack_enable=stack
        )
        reply = self._masters.ask(
            self._broker_of(group, client_id),
            request(header.code, to_ext(header)),
            f"the running info of {client_id!r} in group {group!r}",
            timeout=_MEMBER_PATIENCE,
        )
        return decode_running_info(reply.body)

    def _broker_of(self, group: str, client_id: str) -> BrokerData:
        """A broker that has the member's heartbeat."""
        header = GetConsumerConnections(consumer_group=group)
        command = request(header.code, to_ext(header))
        online: set[str] = set()
        for broker in self._masters.all():
            what = f"the members of group {group!r}"
            reply = self._masters.ask(broker, command, what, accept=_ONLINE_OR_NOT)
            if reply.code == ResponseCode.SUCCESS:
                online |= {c.client_id for c in decode_connections(reply.body).connections}
            if client_id in online:
                return broker
        raise ConfigError(
            f"no member {client_id!r} of group {group!r} is online; online: {listed(online)}"
        )

    def producers(self) -> dict[str, frozenset[str]]:
        """Client ids of the producers connected to any broker, by producer group.

        They are the producers of all topics: a broker does not know which topics a producer sends
            to.
        """
        command = request(RequestCode.GET_ALL_PRODUCER_INFO)
        found: dict[str, frozenset[str]] = {}
        for broker in self._masters.all():
            reply = self._masters.ask(broker, command, "the producers that are connected")
            for group, ids in decode_producers(reply.body).items():
                found[group] = found.get(group, frozenset()).union(ids)
        return found

    def consuming(self, topic: str) -> tuple[str, ...]:
        """Groups that have an offset in a topic, or members that subscribe to it; sorted.

        Raises:
            TopicNotFound: there is no such topic.
        """
        header = GroupsOfTopic(topic=check_topic(topic))
        command = request(header.code, to_ext(header))
        what = f"the groups of topic {topic!r}"
        replies = self._masters.ask_each(self._masters.of(topic), command, what)
        return tuple(sorted({name for r in replies for name in decode_groups_of_topic(r.body)}))

    def member_offsets(self, group: str, topic: str) -> dict[str, dict[MessageQueue, int]]:
        """Which offset comes next, by client id and owned queue, as the members say themselves.

        A member that does not answer its broker within 5 s is left out.

        Raises:
            BrokerError: among others: a broker without a member of the group.
        """
        header = GetOffsetsOfMembers(topic=check_topic(topic), group=check_group(group))
        found: dict[str, dict[MessageQueue, int]] = {}
        for broker in self._masters.of(topic):
            reply = self._masters.ask(
                broker,
                request(header.code, to_ext(header)),
                f"the offsets of the members of group {group!r}",
                timeout=_MEMBER_PATIENCE,
            )
            for client_id, offsets in decode_offsets_of_members(reply.body).items():
                found.setdefault(client_id, {}).update(offsets)
        return found

    # --- settings ------------------------------------------------------------------------------

    def group_config(self, group: str, broker: str) -> GroupConfig:
        """The group's settings on a broker, which creates a missing group if it is allowed to.

        Brokers before 5.0 are asked for the settings of all groups: those of one they do not
        answer. Brokers before 5.3 create none; one that is not there has the settings of a new one.

        Args:
            group: its name.
            broker: the broker's name.

        Raises:
            GroupNotFound: no such group, and the broker does not create groups.
            ConfigError: no such broker.
        """
        check_text("broker", broker)
        header = GetGroupConfig(group=check_group(group))
        command = request(header.code, to_ext(header))
        known = {data.broker_name: data for data in self._masters.all()}
        if broker not in known:
            raise ConfigError(f"there is no broker {broker!r}; there are: {listed(known)}")
        what = f"the settings of group {group!r}"
        try:
            reply = self._masters.ask(known[broker], command, what, accept=KNOWN_OR_NOT)
        except BrokerError as error:
            if error.code == ResponseCode.SYSTEM_ERROR and error.remark == _NO_SUCH_GROUP:
                return GroupConfig(name=group)
            raise
        if reply.code == ResponseCode.SUCCESS:
            return decode_group_config(reply.body)
        everything = request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        reply = self._masters.ask(known[broker], everything, what)
        return decode_group_configs(reply.body).groups.get(group) or GroupConfig(name=group)

    def check_filter(self, group: str, subscription: Subscription, client_id: str) -> None:
        """Ask every broker of the topic whether it understands a filter that is not by tags.

        Raises:
            ConfigError: a broker refuses the expression, or does not support such filters.
        """
        check_kind("subscription", subscription, Subscription)
        check_text("client_id", client_id)
        body = encode_filter_check(FilterCheck(client_id, check_group(group), subscription))
        command = request(RequestCode.CHECK_CLIENT_CONFIG, body=body)
        what = f"filter {subscription.expression!r} of topic {subscription.topic!r}"
        for broker in self._masters.of(subscription.topic):
            try:
                self._masters.ask(broker, command, what)
            except BrokerError as error:
                reason = _refused_filter(subscription, error)
                if reason is None:
                    raise
                raise ConfigError(f"broker {broker.broker_name!r} {reason}") from error


def _reset(group: str, queue: MessageQueue, offset: int) -> ResetOffset:
    """For a broker that informs members."""
    return ResetOffset(
        topic=queue.topic,
        group=group,
        timestamp=_THE_START,
        queue_id=queue.queue_id,
        offset=offset,
    )


def _commit(group: str, queue: MessageQueue, offset: int) -> UpdateConsumerOffset:
    """For a broker that does not."""
    return UpdateConsumerOffset(consumer_group=group, **of_queue(queue), commit_offset=offset)


def _refused_filter(subscription: Subscription, error: BrokerError) -> str | None:
    """Why the broker does not take the filter; None if it failed for another reason."""
    if error.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED:
        return f"does not understand the filter {subscription.expression!r}: {error.remark}"
    # "No such kind of filter" has no code of its own.
    if error.code == ResponseCode.SYSTEM_ERROR and "does not support" in error.remark:
        return (
            f"does not filter by {subscription.expression_type}: set enablePropertyFilter=true in"
            " its configuration, or subscribe by tags"
        )
    return None
