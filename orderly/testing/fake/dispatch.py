"""Which request goes where: the table of a broker and the table of a name server."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orderly.errors import OrderlyError
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import RemotingCommand
from orderly.testing.fake import (
    administration,
    measuring,
    membership,
    name_server,
    pulling,
    reading,
    relaying,
    sending,
)
from orderly.testing.fake.exchange import Call, Refused
from orderly.testing.fake.name_server import NameServer
from orderly.testing.fake.state import BrokerState

OfBroker = Callable[[BrokerState, Call], RemotingCommand | None]
OfNameServer = Callable[[NameServer, Call], RemotingCommand]

BROKER: Mapping[int, OfBroker] = {
    Code.PULL_MESSAGE: pulling.pull,
    Code.QUERY_CONSUMER_OFFSET: reading.query_offset,
    Code.UPDATE_CONSUMER_OFFSET: reading.update_offset,
    Code.UPDATE_AND_CREATE_TOPIC: administration.create_topic,
    Code.GET_ALL_TOPIC_CONFIG: administration.topic_list,
    Code.UPDATE_BROKER_CONFIG: administration.change_settings,
    Code.GET_BROKER_CONFIG: administration.settings,
    Code.GET_BROKER_RUNTIME_INFO: administration.running,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: reading.search_offset,
    Code.GET_MAX_OFFSET: reading.max_offset,
    Code.GET_MIN_OFFSET: reading.min_offset,
    Code.VIEW_MESSAGE_BY_ID: measuring.view_message,
    Code.HEART_BEAT: membership.heartbeat,
    Code.UNREGISTER_CLIENT: membership.unregister,
    Code.GET_CONSUMER_LIST_BY_GROUP: membership.client_ids,
    Code.LOCK_BATCH_MQ: membership.lock,
    Code.UNLOCK_BATCH_MQ: membership.unlock,
    Code.GET_ALL_CONSUMER_OFFSET: measuring.all_offsets,
    Code.CHECK_CLIENT_CONFIG: membership.check_client,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: administration.put_group,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: administration.group_list,
    Code.DELETE_SUBSCRIPTIONGROUP: administration.delete_group,
    Code.GET_TOPIC_STATS_INFO: reading.topic_stats,
    Code.GET_CONSUMER_CONNECTION_LIST: membership.connections,
    Code.GET_CONSUME_STATS: reading.consume_stats,
    Code.DELETE_TOPIC_IN_BROKER: administration.delete_topic,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: reading.reset_offsets,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: relaying.offsets_of_members,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: administration.groups_of_topic,
    Code.QUERY_CONSUME_TIME_SPAN: measuring.time_spans,
    Code.GET_CONSUMER_RUNNING_INFO: relaying.running_info,
    Code.CONSUME_MESSAGE_DIRECTLY: relaying.consume_directly,
    Code.SEND_MESSAGE_V2: sending.send,
    Code.SEND_BATCH_MESSAGE: sending.send_batch,
    Code.QUERY_CONSUME_QUEUE: measuring.consume_queue,
    Code.GET_ALL_PRODUCER_INFO: membership.producers,
    Code.QUERY_TOPICS_BY_CONSUMER: administration.topics_of_group,
    Code.GET_TOPIC_CONFIG: administration.topic_config,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: administration.group_config,
}

NAME_SERVER: Mapping[int, OfNameServer] = {
    Code.GET_ROUTEINFO_BY_TOPIC: name_server.route,
    Code.GET_BROKER_CLUSTER_INFO: name_server.clusters,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: name_server.topic_list,
    Code.DELETE_TOPIC_IN_NAMESRV: name_server.delete_topic,
}


def answer(state: BrokerState | NameServer, call: Call) -> RemotingCommand | None:
    """Carry a request out. None: no answer, or not yet."""
    try:
        if isinstance(state, NameServer):
            return NAME_SERVER.get(call.command.code, _unknown)(state, call)
        return BROKER.get(call.command.code, _unknown)(state, call)
    except Refused as refusal:
        return call.reply(refusal.code, refusal.remark, ext=refusal.ext)
    except (OrderlyError, UnicodeError) as error:  # as Java's exceptions leak
        return call.reply(ResponseCode.SYSTEM_ERROR, str(error))


def _unknown(state: object, call: Call) -> RemotingCommand:  # noqa: ARG001
    remark = f" request type {call.command.code} not supported"
    return call.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
