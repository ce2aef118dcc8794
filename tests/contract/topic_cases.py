"""Routes and topics."""

from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.headers import (
    DeleteTopicInNameServer,
    GetRouteInfo,
    GetTopicConfig,
    UnregisterClient,
)
from orderly.protocol.heartbeat import Heartbeat, ProducerData, encode_heartbeat
from orderly.protocol.message_types import MessageType
from orderly.protocol.producer_table import decode_producers
from tests.contract.steps import (
    case,
    message,
    topic,
)
from tests.support.waiting import eventually


@case
def a_route(w):
    topic(w, 3)
    w.ask(GetRouteInfo(topic=w.topic, accept_standard_json_only=True), on="ns")
    bare = w.ask(GetRouteInfo(topic=w.topic), on="ns", version=399)
    w.say(b"{0:" in bare.body)
    w.say(b'{"0":' in w.ask(GetRouteInfo(topic=w.topic), on="ns", version=401).body)


@case
def no_route(w):
    w.ask(GetRouteInfo(topic=w.topic), on="ns")


@case
def clusters_and_topics(w):
    topic(w)
    reply = w.raw(Code.GET_BROKER_CLUSTER_INFO, on="ns")
    w.say(b"{0:" in reply.body)
    w.raw(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, on="ns")


@case
def requests_nobody_knows(w):
    w.raw(9999)
    w.raw(9999, on="ns")
    w.ask(GetRouteInfo(topic=w.topic))


@case
def a_topic_and_its_settings(w):
    topic(w, 2, read=4, order=True, attributes="+message.type=FIFO")
    w.ask(GetTopicConfig(topic=w.topic))
    topic(w, 5)
    w.ask(GetTopicConfig(topic=w.topic))
    w.ask(GetRouteInfo(topic=w.topic, accept_standard_json_only=True), on="ns")
    w.ask(GetTopicConfig(topic=w.topic + "-other"))


@case
def message_types(w):
    for kind in MessageType:
        topic(w, name=f"{w.topic}-{kind.lower()}", attributes=f"+message.type={kind}")
    topic(w, attributes="+message.type=NOSUCH")
    w.ask(GetTopicConfig(topic=f"{w.topic}-lite"))
    topic(w, name=f"{w.topic}-fifo", perm=4)
    w.ask(GetTopicConfig(topic=f"{w.topic}-fifo"))


@case
def producers_by_group(w):
    beat = Heartbeat("c1", producers=(ProducerData(w.group),))
    w.raw(Code.HEART_BEAT, body=encode_heartbeat(beat))
    w.say(_producers(w))
    w.ask(UnregisterClient(client_id="c1", producer_group=w.group))
    w.say(_producers(w))
    w.raw(Code.HEART_BEAT, body=encode_heartbeat(beat))
    w.hang_up("a")
    eventually(lambda: _producers(w) is None)


def _producers(w):
    """The client ids of the group's producers."""
    return decode_producers(w.quietly(Code.GET_ALL_PRODUCER_INFO).body).get(w.group)


@case
def topics_that_cannot_be(w):
    topic(w, name="with space")
    topic(w, name="")
    topic(w, name="x" * 128)
    topic(w, name="TBW102")
    w.raw(Code.UPDATE_AND_CREATE_TOPIC, {"topic": w.topic})


@case
def a_topic_the_name_server_forgot(w):
    topic(w)
    w.ask(DeleteTopicInNameServer(topic=w.topic), on="ns")
    w.ask(GetRouteInfo(topic=w.topic), on="ns")
    w.ask(GetTopicConfig(topic=w.topic))


@case
def permissions_in_the_route(w):
    topic(w, perm=4)
    w.ask(GetRouteInfo(topic=w.topic, accept_standard_json_only=True), on="ns")
    w.ask(message(w), b"sends are not refused")
    topic(w, perm=2)
    w.ask(w.pull())
