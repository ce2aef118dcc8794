"""Members and their locks: heartbeats, farewells, who is online, locks, questions to members."""

from __future__ import annotations

from orderly.errors import ProtocolError
from orderly.namespace import RETRY_PREFIX
from orderly.protocol.codes import Language, RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.heartbeat import (
    ConsumerData,
    GetConsumerList,
    GetProducerConnections,
    UnregisterClient,
    decode_heartbeat,
    encode_consumer_ids,
    encode_producer_connections,
    encode_producers,
)
from orderly.protocol.locks import decode_lock_request, encode_locked
from orderly.protocol.members import ConsumeDirectly, GetRunningInfo
from orderly.protocol.offsets import (
    GetMemberOffsets,
    GetOffsetsOfMembers,
    decode_member_offsets,
    encode_offsets_of_members,
)
from orderly.protocol.pull import decode_filter_check
from orderly.protocol.statistics import (
    ConsumerConnection,
    ConsumerConnections,
    GetConsumerConnections,
    encode_connections,
)
from orderly.testing.fake.exchange import Call, RequestRefused
from orderly.testing.fake.pulling import check_filter
from orderly.testing.fake.state import (
    Answers,
    BrokerState,
    MemberTable,
    OnlineGroup,
    OnlineMember,
    pass_on,
)

_HEARTBEAT_REPLY = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
_LANGUAGES = {int(member): member.name for member in Language}


def heartbeat(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 34."""
    beat = decode_heartbeat(call.command.body)
    member = OnlineMember(
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


def _register(state: BrokerState, data: ConsumerData, member: OnlineMember) -> None:
    create = state.enabled("autoCreateSubscriptionGroup")
    config = state.groups.find(data.group, create=create)
    if config is None:  # not a member, and it does not learn so
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


def producer_connections(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 204."""
    name = call.read(GetProducerConnections).producer_group
    client_ids = state.producers.table().get(name)
    if client_ids is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{name}] not exist")
    return call.reply(body=encode_producer_connections(client_ids))


def client_ids(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 38."""
    return client_ids_in(state.members, call)


def client_ids_in(members: MemberTable, call: Call) -> RemotingCommand:
    """Answer code 38 from a table of members."""
    name = call.read(GetConsumerList).consumer_group
    group = members.group(name)
    if group is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {name}")
    ids = [member.client_id for member in group.members.values()]
    return call.reply(body=encode_consumer_ids(ids))


def connections(state: BrokerState, call: Call) -> RemotingCommand:
    """Answer code 203."""
    return connections_in(state.members, call)


def connections_in(members: MemberTable, call: Call) -> RemotingCommand:
    """Answer code 203 from a table of members."""
    name = call.read(GetConsumerConnections).consumer_group
    group = members.group(name)
    if group is None:
        remark = f"the consumer group[{name}] not online"
        raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    return call.reply(body=encode_connections(_connections(group)))


def _connections(group: OnlineGroup) -> ConsumerConnections:
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


# --- questions to members by way of the broker: running info, offsets, consume directly -----------


_PATIENCE = 10.0  # seconds for a member's answer
_OFFSETS_PATIENCE = 5.0
_PLACE_DIGITS = 16  # at the end of an offset id


def running_info(state: BrokerState, call: Call) -> None:
    """Take in code 307; the member's answer is passed on when it comes."""
    header = call.read(GetRunningInfo)
    member = _online(state, header.consumer_group, header.client_id)
    _relay(state, call, member, call.command.ext, b"")


def consume_directly(state: BrokerState, call: Call) -> None:
    """Take in code 309: the message as stored goes to the member, its answer comes back."""
    header = call.read(ConsumeDirectly)
    data = _message(state, header.msg_id or "")
    ext = call.command.ext | {"brokerName": state.name, "topicSysFlag": "0", "groupSysFlag": "0"}
    member = _online(state, header.consumer_group, header.client_id or "")
    _relay(state, call, member, ext, data)


def _message(state: BrokerState, offset_id: str) -> bytes:
    try:
        data = state.store.at_place(int(offset_id[-_PLACE_DIGITS:], 16))
    except ValueError:
        data = None
    if data is None:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"there is no message {offset_id!r:.80}")
    return data


def _online(state: BrokerState, group: str, client_id: str) -> OnlineMember:
    member = state.members.find(group, client_id)
    if member is None:
        remark = f"The Consumer <{group}> <{client_id}> not online"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
    return member


def _relay(
    state: BrokerState, call: Call, member: OnlineMember, ext: dict[str, str], body: bytes
) -> None:
    def question() -> RemotingCommand:
        return request(call.command.code, ext, body)

    state.out += state.relays.ask(call, [member], question, _PATIENCE, pass_on)


def offsets_of_members(state: BrokerState, call: Call) -> None:
    """Take in code 223: each member is asked with code 221, the answers are put together."""
    header = call.read(GetOffsetsOfMembers)
    group = state.members.group(header.group)
    if group is None:
        remark = f"No Any Consumer online in the consumer group: [{header.group}]"
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, remark)
    wanted = [m for m in group.members.values() if header.client_id in (None, "", m.client_id)]

    def question() -> RemotingCommand:
        ext = to_ext(GetMemberOffsets(topic=header.topic, group=header.group))
        return request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext)

    state.out += state.relays.ask(call, wanted, question, _OFFSETS_PATIENCE, _together)


def _together(asker: Call, answers: Answers) -> RemotingCommand:
    """All members' offsets; a member that failed to answer is left out."""
    found = {}
    for client_id, answer in answers.items():
        if answer.code == ResponseCode.SUCCESS:
            try:
                found[client_id] = decode_member_offsets(answer.body)
            except ProtocolError as error:
                return asker.reply(ResponseCode.SYSTEM_ERROR, str(error))
    return asker.reply(body=encode_offsets_of_members(found))
