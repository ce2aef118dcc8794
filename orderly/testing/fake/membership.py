"""Members and their locks: heartbeats, farewells, who is online, the queue locks."""

from __future__ import annotations

from orderly.namespace import RETRY_PREFIX
from orderly.protocol.broker_bodies import (
    decode_lock_request,
    encode_connections,
    encode_consumer_ids,
    encode_locked,
)
from orderly.protocol.codes import Language, ResponseCode
from orderly.protocol.filter_check import decode_filter_check
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.headers import GetConsumerConnections, GetConsumerList, UnregisterClient
from orderly.protocol.heartbeat import ConsumerData, decode_heartbeat
from orderly.protocol.producer_table import encode_producers
from orderly.protocol.stats_bodies import ConsumerConnection, ConsumerConnections
from orderly.testing.fake.exchange import Call, Refused
from orderly.testing.fake.members import Group, Member
from orderly.testing.fake.pulling import check_filter
from orderly.testing.fake.state import BrokerState

_HEARTBEAT_REPLY = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
_LANGUAGES = {int(member): member.name for member in Language}


def heartbeat(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 34."""
    beat = decode_heartbeat(call.command.body)
    member = Member(
        call.connection_id,
        beat.client_id,
        call.peer,
        call.command.language,
        call.command.version,
        call.now,
    )
    groups = [data.group for data in beat.producers]
    state.producers.register(groups, call.connection_id, beat.client_id)
    for data in beat.consumers:
        _register(state, data, member)
    return call.reply(ext=_HEARTBEAT_REPLY)


def _register(state: BrokerState, data: ConsumerData, member: Member) -> None:
    create = state.enabled("autoCreateSubscriptionGroup")
    config = state.groups.find(data.group, create=create)
    if config is None:  # not a member, and not told so
        return
    state.ensure_topic(RETRY_PREFIX + data.group, config.retry_queues)
    state.notify(data.group, state.members.register(data, member))


def unregister(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 35. Locks stay."""
    header = call.read(UnregisterClient)
    group = header.consumer_group
    if header.producer_group is not None:
        state.producers.remove(header.producer_group, call.connection_id)
    if group is not None:
        state.notify(group, state.members.remove(group, call.connection_id))
    return call.reply()


def producers(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 328."""
    return call.reply(body=encode_producers(state.producers.table()))


def client_ids(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 38."""
    name = call.read(GetConsumerList).consumer_group
    group = state.members.group(name)
    if group is None:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    ids = [member.client_id for member in group.members.values()]
    return call.reply(body=encode_consumer_ids(ids))


def connections(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 203."""
    name = call.read(GetConsumerConnections).consumer_group
    group = state.members.group(name)
    if group is None:
        remark = f"the consumer group[{name}] not online"
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    return call.reply(body=encode_connections(_connections(group)))


def _connections(group: Group) -> ConsumerConnections:
    members = tuple(
        ConsumerConnection(m.client_id, m.address, _LANGUAGES.get(m.language, "OTHER"), m.version)
        for m in group.members.values()
    )
    return ConsumerConnections(
        members, group.consume_type, group.model, group.consume_from, group.subscriptions
    )


def check_client(state: BrokerState, call: Call) -> RemotingCommand:  # noqa: ARG001
    """Answer code 46."""
    check_filter(decode_filter_check(call.command.body).subscription.expression_type)
    return call.reply()


def lock(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 41."""
    wanted = decode_lock_request(call.command.body)
    granted = state.locks.lock(wanted.group, wanted.client_id, wanted.queues, call.now)
    return call.reply(body=encode_locked(granted))


def unlock(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 42."""
    wanted = decode_lock_request(call.command.body)
    state.locks.unlock(wanted.group, wanted.client_id, wanted.queues)
    return call.reply()
