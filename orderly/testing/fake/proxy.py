"""RocketMQ's proxy in cluster mode before the cluster: what it passes on, answers, and refuses.

Source: RemotingProtocolServer and its activities. It keeps members to itself: brokers do not know
them, and nobody is notified of their changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from orderly.model import BrokerData
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from orderly.protocol import properties as names
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import QueueHeader, from_ext
from orderly.protocol.frame import RemotingCommand
from orderly.protocol.heartbeat import UnregisterClient, decode_heartbeat
from orderly.protocol.locks import decode_lock_request
from orderly.protocol.properties import decode_properties
from orderly.protocol.route import GetRouteInfo, encode_route
from orderly.protocol.send import SendMessage
from orderly.protocol.topics import APPEARS_LATER, MessageType
from orderly.testing.fake import membership
from orderly.testing.fake.exchange import Call, RequestRefused
from orderly.testing.fake.name_server import NameServer, no_route
from orderly.testing.fake.state import BrokerState, MemberTable, OnlineMember, ProducerTable

PassOn = Callable[[BrokerState, Call], RemotingCommand | None]

_OWN = {names.MSG_REGION: "", names.TRACE_ON: "false"}  # in every answer
_NO_NAME = "Request doesn't have field bname"
_SENDS = frozenset({Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE})
_QUEUES = _SENDS | {
    Code.PULL_MESSAGE,
    Code.QUERY_CONSUMER_OFFSET,
    Code.UPDATE_CONSUMER_OFFSET,
    Code.SEARCH_OFFSET_BY_TIMESTAMP,
    Code.GET_MAX_OFFSET,
    Code.GET_MIN_OFFSET,
}
_LOCKS = frozenset({Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ})


class FakeProxy:
    """The proxy. Not thread-safe.

    Args:
        address: "ip:port", which it gives for every broker.
        name_server: knows the routes.
        running: the brokers that can be reached now, by name.
        pass_on: has a broker answer.
    """

    def __init__(
        self,
        address: str,
        name_server: NameServer,
        running: Callable[[], Mapping[str, BrokerState]],
        pass_on: PassOn,
    ) -> None:
        self._address = address
        self._name_server = name_server
        self._running = running
        self._pass_on = pass_on
        self.members = MemberTable()
        self.producers = ProducerTable()

    def disconnected(self, connection_id: int) -> None:
        """A connection ended: its memberships with it."""
        self.producers.disconnected(connection_id)
        for group in self.members.groups_of(connection_id):
            self.members.remove(group, connection_id)

    def answer(self, call: Call) -> RemotingCommand | None:
        """Carry a request out, or have a broker do it; None: no answer, or not yet.

        A real one (5.5.0) answers under a number that is not the request's where it cannot reach
        the broker; so here nothing is answered.

        Raises:
            RequestRefused: it does not.
        """
        code = call.command.code
        known = code in _MEMBERS or code in _QUEUES | _LOCKS | {Code.GET_ROUTEINFO_BY_TOPIC}
        if not known:
            remark = f" request type {code} not supported"
            raise RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
        try:
            reply = self._known(code, call)
        except RequestRefused as refusal:
            refusal.ext = {**refusal.ext, **_OWN}
            raise
        if reply is not None:
            reply.ext = {**reply.ext, **_OWN}
        return reply

    def _known(self, code: int, call: Call) -> RemotingCommand | None:
        if code in _QUEUES:
            return self._to_broker(_broker_name(call), call)
        if code in _LOCKS:
            (first, *_) = decode_lock_request(call.command.body).queues
            return self._to_broker(first.broker_name, call)
        return _MEMBERS[code](self, call) if code in _MEMBERS else self._route(call)

    def _route(self, call: Call) -> RemotingCommand:
        topic = call.read(GetRouteInfo).topic
        found = self._name_server.route(topic)
        if found is None:
            raise no_route(topic)
        brokers = (BrokerData(b.broker_name, b.cluster, {0: self._address}) for b in found.brokers)
        route = replace(found, brokers=tuple(brokers), order_conf="")
        return call.reply(body=encode_route(route, standard=True))

    def _to_broker(self, name: str, call: Call) -> RemotingCommand | None:
        broker = self._running().get(name)
        if broker is None:
            return None
        if call.command.code in _SENDS:
            _check_type(broker, call)
        return self._pass_on(broker, call)

    # --- members -------------------------------------------------------------------------------

    def heartbeat(self, call: Call) -> RemotingCommand:
        """Answer code 34."""
        beat, sent = decode_heartbeat(call.command.body), call.command
        member = OnlineMember(
            call.connection_id, beat.client_id, call.peer, sent.language, sent.version, call.now
        )
        self.producers.register(
            [data.group for data in beat.producers], call.connection_id, beat.client_id
        )
        for data in beat.consumers:
            self.members.register(data, member)
        return call.reply()

    def unregister(self, call: Call) -> RemotingCommand:
        """Answer code 35."""
        header = call.read(UnregisterClient)
        if header.producer_group is not None:
            self.producers.remove(header.producer_group, call.connection_id)
        if header.consumer_group is not None:
            self.members.remove(header.consumer_group, call.connection_id)
        return call.reply()


def _members_of(
    answer: Callable[[MemberTable, Call], RemotingCommand],
) -> Callable[[FakeProxy, Call], RemotingCommand]:
    return lambda proxy, call: answer(proxy.members, call)


_MEMBERS: Mapping[int, Callable[[FakeProxy, Call], RemotingCommand]] = {
    Code.HEART_BEAT: FakeProxy.heartbeat,
    Code.UNREGISTER_CLIENT: FakeProxy.unregister,
    Code.CHECK_CLIENT_CONFIG: lambda _, call: call.reply(),
    Code.GET_CONSUMER_LIST_BY_GROUP: _members_of(membership.client_ids_in),
    Code.GET_CONSUMER_CONNECTION_LIST: _members_of(membership.connections_in),
}


def _broker_name(call: Call) -> str:
    if call.command.code in _SENDS:
        name = call.read(SendMessage).broker_name
    else:
        name = from_ext(QueueHeader, call.command.ext).broker_name
    if name is None:
        raise RequestRefused(ResponseCode.VERSION_NOT_SUPPORTED, _NO_NAME)
    return name


def _check_type(broker: BrokerState, call: Call) -> None:
    """Refuse what the topic is not declared for (DefaultTopicMessageTypeValidator)."""
    header = call.read(SendMessage)
    if header.topic.startswith((RETRY_PREFIX, DEAD_PREFIX)):
        return
    config = broker.topics.get(header.topic)
    declared = MessageType.UNSPECIFIED if config is None else config.message_type
    sent = _type_of(decode_properties((header.properties or "").encode()))
    if declared not in (sent, MessageType.MIXED):
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"TopicMessageType validate failed, the expected type is {declared}, but actual type"
            f" is {sent}",
        )


def _type_of(properties: Mapping[str, str]) -> MessageType:
    """What a proxy takes a message for; of a batch it reads only the batch's own properties."""
    if properties.get("TRAN_MSG", "").lower() == "true":
        return MessageType.TRANSACTION
    if APPEARS_LATER.intersection(properties):
        return MessageType.DELAY
    return MessageType.FIFO if names.SHARDING_KEY in properties else MessageType.NORMAL
