"""Routes and topics."""

from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.groups import GetGroupConfig
from orderly.protocol.heartbeat import (
    GetProducerConnections,
    Heartbeat,
    ProducerData,
    UnregisterClient,
    decode_producer_connections,
    decode_producers,
    encode_heartbeat,
)
from orderly.protocol.offsets import GetMaxOffset, GetMinOffset, SearchOffset
from orderly.protocol.route import GetRouteInfo
from orderly.protocol.topics import (
    DeleteTopicInBroker,
    DeleteTopicInNameServer,
    GetTopicConfig,
    MessageType,
)
from tests.contract.steps import (
    BORN,
    case,
    commit,
    message,
    props,
    reset,
    sent,
    stored,
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


@case
def connections_of_a_producer_group(w):
    listed = GetProducerConnections(producer_group=w.group)
    w.ask(listed)
    beat = encode_heartbeat(Heartbeat("c1", producers=(ProducerData(w.group),)))
    w.raw(Code.HEART_BEAT, body=beat)
    w.say(_listed(w, listed))
    w.raw(Code.HEART_BEAT, body=beat, on="b")
    w.say(_listed(w, listed))
    w.hang_up("a")
    eventually(lambda: _listed(w, listed) == ("c1",))


def _listed(w, listed):
    """The client ids of the group's connections."""
    return decode_producer_connections(w.quiet(listed, on="b").body)


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


# --- deleted, and made again -------------------------------------------------------------------


def deleted(w):
    w.ask(DeleteTopicInBroker(topic=w.topic))
    w.ask(DeleteTopicInNameServer(topic=w.topic), on="ns")


def looked_at(w):
    """All that a client can ask about queue 0."""
    w.ask(GetRouteInfo(topic=w.topic, accept_standard_json_only=True), on="ns")
    w.ask(GetTopicConfig(topic=w.topic))
    for offset in (0, 1, 2, 3, 50):
        w.ask(w.pull(offset))
    w.note(w.later(w.pull(50, flags=4 | 2, suspend_timeout_millis=100)))
    for zero in (None, False, True):
        stored(w, zero=zero)
    w.ask(GetMaxOffset(topic=w.topic, queue_id=0))
    w.ask(GetMinOffset(topic=w.topic, queue_id=0))
    for moment in (0, BORN, 4_000_000_000_000):
        w.ask(SearchOffset(topic=w.topic, queue_id=0, timestamp=moment))
    w.raw(Code.GET_ALL_CONSUMER_OFFSET)


@case
def a_topic_is_deleted_and_made_again(w):
    sent(w, "a", "b", "c")
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 2)
    deleted(w)
    looked_at(w)
    commit(w, 2)
    w.ask(message(w), b"nowhere")
    topic(w)
    looked_at(w)
    commit(w, 2)  # by who was not told of it
    looked_at(w)
    for number in range(4):
        properties = props(UNIQ_KEY=f"{number:032X}")
        w.ask(message(w, properties=properties), f"new {number}".encode())
        w.visible(w.topic, 0, number + 1)
        looked_at(w)


@case
def a_reset_ends_with_its_topic(w):
    sent(w, "a", "b", "c")
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 2)
    reset(w, timestamp=0, queue_id=0, offset=1)
    deleted(w)
    sent(w, "a", "b")
    stored(w, zero=False)
    w.ask(w.pull(1))
    commit(w, 2)
    stored(w)


@case
def a_long_pull_outlives_its_topic(w):
    sent(w, "a", "b")
    waiting = w.later(w.pull(2, flags=4 | 2, suspend_timeout_millis=100))
    deleted(w)
    w.note(waiting)
    topic(w)
    waiting = w.later(w.pull(0, flags=4 | 2, suspend_timeout_millis=15000))
    for _ in range(3):
        w.ask(w.pull(0))  # by now that one waits
    deleted(w)
    sent(w, "a")
    w.note(waiting)
