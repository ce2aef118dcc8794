"""Questions to members by way of the broker: running info, offsets, consume directly."""

from __future__ import annotations

from orderly.errors import ProtocolError
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.frame import RemotingCommand, request
from orderly.protocol.headers import (
    ConsumeDirectly,
    GetMemberOffsets,
    GetOffsetsOfMembers,
    GetRunningInfo,
    to_ext,
)
from orderly.protocol.reset_bodies import decode_member_offsets, encode_offsets_of_members
from orderly.testing.fake.exchange import Call, Refused
from orderly.testing.fake.members import Member
from orderly.testing.fake.relays import Answers, pass_on
from orderly.testing.fake.state import BrokerState

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
        raise Refused(ResponseCode.SYSTEM_ERROR, f"there is no message {offset_id!r:.80}")
    return data


def _online(state: BrokerState, group: str, client_id: str) -> Member:
    member = state.members.find(group, client_id)
    if member is None:
        remark = f"The Consumer <{group}> <{client_id}> not online"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    return member


def _relay(
    state: BrokerState, call: Call, member: Member, ext: dict[str, str], body: bytes
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
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
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
