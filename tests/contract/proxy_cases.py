"""What a proxy in cluster mode passes on, answers itself, and refuses."""

from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.ext import of_queue
from orderly.protocol.heartbeat import GetConsumerList, UnregisterClient
from orderly.protocol.locks import lock_request
from orderly.protocol.members import GetRunningInfo
from orderly.protocol.offsets import (
    GetMaxOffset,
    GetMinOffset,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from orderly.protocol.route import GetRouteInfo
from orderly.protocol.send import SendBatch, SendMessage, encode_batch
from orderly.protocol.statistics import GetConsumerConnections
from orderly.protocol.topics import GetTopicConfig
from tests.contract.steps import BORN, props, topic
from tests.support.waiting import eventually

CASES = {}
NAMED = {"broker_name": "broker-a"}
# What this library asks of name servers and brokers, and a proxy does not know.
UNKNOWN = (
    Code.GET_BROKER_CLUSTER_INFO,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    Code.DELETE_TOPIC_IN_NAMESRV,
    Code.UPDATE_AND_CREATE_TOPIC,
    Code.GET_ALL_TOPIC_CONFIG,
    Code.GET_TOPIC_CONFIG,
    Code.GET_TOPIC_STATS_INFO,
    Code.GET_CONSUME_STATS,
    Code.GET_ALL_CONSUMER_OFFSET,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.DELETE_SUBSCRIPTIONGROUP,
    Code.DELETE_TOPIC_IN_BROKER,
    Code.INVOKE_BROKER_TO_RESET_OFFSET,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    Code.QUERY_TOPIC_CONSUME_BY_WHO,
    Code.QUERY_CONSUME_TIME_SPAN,
    Code.QUERY_CONSUME_QUEUE,
    Code.VIEW_MESSAGE_BY_ID,
    Code.GET_CONSUMER_RUNNING_INFO,
    Code.CONSUME_MESSAGE_DIRECTLY,
    Code.GET_PRODUCER_CONNECTION_LIST,
    Code.GET_ALL_PRODUCER_INFO,
    Code.GET_BROKER_CONFIG,
    Code.UPDATE_BROKER_CONFIG,
    Code.GET_BROKER_RUNTIME_INFO,
)


def case(function):
    """Register a case: a function that asks a Wire."""
    CASES[function.__name__] = function
    return function


def sending(w, kind=SendMessage, *, key=None, **fields):
    """Send through the proxy: one message, or a batch of two."""
    named = {"__SHARDINGKEY": key} if key else {}
    properties = props(UNIQ_KEY="A" * 32, **named)
    alone = kind is SendMessage
    wanted = {"producer_group": "p", "topic": w.topic, "queue_id": 0, "born_timestamp": BORN}
    header = kind(**wanted | ({"properties": properties} if alone else {}) | fields)
    w.ask(header, b"one" if alone else encode_batch([(b"one", properties, 0)] * 2), on="proxy")


@case
def routes(w):
    topic(w)
    route = GetRouteInfo(topic=w.topic, accept_standard_json_only=True)
    reply = w.ask(route, on="proxy")
    w.say(reply.body.count(w.proxy.encode()))
    w.ask(GetRouteInfo(topic=f"no-{w.topic}", accept_standard_json_only=True), on="proxy")


@case
def what_it_does_not_know(w):
    for code in UNKNOWN:
        w.raw(code, {"topic": w.topic, "bname": "broker-a"}, on="proxy")
    w.ask(GetTopicConfig(topic=w.topic), on="proxy")


@case
def a_request_that_names_no_broker(w):
    topic(w)
    queue = {"topic": w.topic, "queue_id": 0}
    group = {"consumer_group": w.group} | queue
    w.ask(w.pull(), on="proxy")
    w.ask(QueryConsumerOffset(**group), on="proxy")
    w.ask(UpdateConsumerOffset(commit_offset=0, **group), on="proxy")
    w.ask(SearchOffset(timestamp=0, **queue), on="proxy")
    w.ask(GetMaxOffset(**queue), on="proxy")
    w.ask(GetMinOffset(**queue), on="proxy")
    sending(w)
    sending(w, SendBatch)


@case
def messages_and_offsets(w):
    topic(w)
    sending(w, **NAMED)
    sending(w, SendBatch, **NAMED)
    w.visible(w.topic, 0, 3)
    queue = of_queue(MessageQueue(w.topic, "broker-a", 0))
    group = {"consumer_group": w.group} | queue
    w.ask(UpdateConsumerOffset(commit_offset=1, **group), on="proxy")  # before the first pull
    w.ask(w.pull(**NAMED), on="proxy")
    w.ask(w.pull(3, **NAMED), on="proxy")
    w.ask(w.pull(9, **NAMED), on="proxy")
    w.ask(QueryConsumerOffset(set_zero_if_not_found=False, **group), on="proxy")
    w.ask(UpdateConsumerOffset(commit_offset=2, **group), on="proxy")
    w.ask(QueryConsumerOffset(set_zero_if_not_found=False, **group), on="proxy")
    w.ask(SearchOffset(timestamp=0, **queue), on="proxy")
    w.ask(GetMaxOffset(**queue), on="proxy")
    w.ask(GetMinOffset(**queue), on="proxy")


@case
def messages_of_another_type(w):
    for kind, name in ((None, "plain"), ("NORMAL", "normal"), ("FIFO", "fifo"), ("DELAY", "late")):
        full = f"{w.topic}-{name}"
        declared = {} if kind is None else {"attributes": f"+message.type={kind}"}
        topic(w, name=full, **declared)
        sending(w, topic=full, **NAMED)
        sending(w, key="k", topic=full, **NAMED)
        sending(w, SendBatch, topic=full, **NAMED)
    sending(w, topic=f"no-{w.topic}", **NAMED)
    sending(
        w, topic=f"%RETRY%{w.group}", key="k", reconsume_times=2, max_reconsume_times=1, **NAMED
    )


@case
def members_are_its_own(w):
    topic(w)
    listed = GetConsumerList(consumer_group=w.group)
    online = GetConsumerConnections(consumer_group=w.group)
    w.ask(listed, on="proxy")
    w.ask(online, on="proxy")
    for number in (1, 2):
        w.heartbeat(w.topic, on=f"proxy-{number}", client_id=f"c{number}", version=7)
    w.ask(listed, on="proxy")
    w.ask(online, on="proxy")
    w.ask(listed)
    w.ask(online)
    w.ask(GetRunningInfo(consumer_group=w.group, client_id="c1"))
    w.ask(UnregisterClient(client_id="c1", consumer_group=w.group), on="proxy-1")
    w.ask(listed, on="proxy")
    w.hang_up("proxy-2")
    eventually(lambda: w.quiet(listed, on="proxy").code)
    w.ask(online, on="proxy")
    w.say(w.pushed)


@case
def locks_are_the_brokers(w):
    topic(w)

    def ask(code, client_id, *numbers, on="proxy"):
        queues = [MessageQueue(w.topic, "broker-a", number) for number in numbers]
        w.raw(code, body=lock_request(w.group, client_id, queues), on=on)

    ask(Code.LOCK_BATCH_MQ, "c1", 0)
    ask(Code.LOCK_BATCH_MQ, "c1", 0, 1)
    ask(Code.LOCK_BATCH_MQ, "c2", 0, on="a")
    ask(Code.UNLOCK_BATCH_MQ, "c2", 0)
    ask(Code.LOCK_BATCH_MQ, "c2", 0, on="a")
    ask(Code.UNLOCK_BATCH_MQ, "c1", 0)
    ask(Code.LOCK_BATCH_MQ, "c2", 0, on="a")
    ask(Code.LOCK_BATCH_MQ, "c1", 0, 1)
