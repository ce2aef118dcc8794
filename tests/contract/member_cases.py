"""Groups, members, locks, and questions to members."""

from orderly.model import MessageQueue
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.groups import GetGroupConfig, GroupConfig, GroupsOfTopic, encode_group_config
from orderly.protocol.heartbeat import GetConsumerList, MessageModel, Subscription, UnregisterClient
from orderly.protocol.members import (
    ConsumeDirectly,
    DirectOutcome,
    DirectResult,
    GetRunningInfo,
    RunningInfo,
    encode_direct_result,
    encode_running_info,
)
from orderly.protocol.offsets import GetOffsetsOfMembers, encode_member_offsets
from orderly.protocol.pull import FilterCheck, encode_filter_check
from orderly.protocol.statistics import GetConsumerConnections, GetConsumeStats
from orderly.protocol.topics import GetTopicConfig
from tests.contract.steps import (
    case,
    locking,
    message,
    sent,
    settings,
    told,
    topic,
)
from tests.support.waiting import eventually


@case
def a_groups_settings(w):
    w.ask(GetGroupConfig(group=w.group))
    w.raw(
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings(w, retry_max_times=3, orderly=True)
    )
    w.ask(GetGroupConfig(group=w.group))
    w.raw(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)


@case
def groups_that_cannot_be(w):
    for name in ("with space", "x" * 121):
        body = encode_group_config(GroupConfig(name=name))
        w.raw(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)
        w.ask(GetGroupConfig(group=name))


@case
def nobody_online(w):
    w.ask(GetConsumerList(consumer_group=w.group))
    w.ask(GetConsumerConnections(consumer_group=w.group))
    w.ask(GetRunningInfo(consumer_group=w.group, client_id="c1"))
    w.ask(GetOffsetsOfMembers(topic=w.topic, group=w.group))
    w.ask(UnregisterClient(client_id="c1", consumer_group=w.group))


@case
def members_online(w):
    topic(w)
    w.heartbeat(w.topic, f"%RETRY%{w.group}", tags="a || b")
    w.ask(GetConsumerList(consumer_group=w.group))
    w.ask(GetConsumerConnections(consumer_group=w.group))
    w.ask(GetTopicConfig(topic=f"%RETRY%{w.group}"))
    w.ask(GroupsOfTopic(topic=w.topic))
    w.ask(GetConsumeStats(consumer_group=w.group, topic=w.topic))
    w.ask(GetConsumeStats(consumer_group=w.group, topic=f"%RETRY%{w.group}"))
    w.ask(UnregisterClient(client_id="c1", consumer_group=w.group))
    w.ask(GetConsumerList(consumer_group=w.group))


@case
def a_member_is_a_connection(w):
    topic(w)
    w.heartbeat(w.topic)
    w.heartbeat(w.topic, on="b")
    w.ask(GetConsumerList(consumer_group=w.group))
    w.heartbeat(w.topic, on="b", client_id="c2")
    w.ask(GetConsumerList(consumer_group=w.group))
    w.hang_up("b")

    def ids():
        reply = w.ask(GetConsumerList(consumer_group=w.group))
        w.heard.pop()
        return reply.body.count(b"c")

    eventually(lambda: ids() == 2)  # "consumerIdList" holds one itself
    w.ask(GetConsumerList(consumer_group=w.group))


@case
def members_are_told_of_changes(w):
    topic(w)
    w.heartbeat(w.topic)
    told(w, "a", 1)
    w.heartbeat(w.topic)
    w.heartbeat(w.topic, tags="other", version=9)
    w.heartbeat(w.topic, on="b", client_id="c2", version=9)
    told(w, "b", 1)
    told(w, "a", 2)
    w.heartbeat(w.topic, "more", version=9)
    told(w, "b", 2)
    told(w, "a", 3)
    w.ask(UnregisterClient(client_id="c2", consumer_group=w.group), on="b")
    told(w, "a", 4)
    w.say(len(w.pushed["b"]))


@case
def broadcasting_members_are_told_nothing(w):
    topic(w)
    w.heartbeat(w.topic, model=MessageModel.BROADCASTING)
    w.heartbeat(w.topic, on="b", client_id="c2", model=MessageModel.BROADCASTING)
    w.ask(GetConsumerConnections(consumer_group=w.group))
    w.say(dict(w.pushed))


@case
def who_is_not_to_be_told_is_not(w):
    topic(w)
    w.raw(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings(w, notify_members_changed=False))
    w.heartbeat(w.topic)
    w.ask(GetConsumerList(consumer_group=w.group))
    w.say(dict(w.pushed))


@case
def filters_are_checked(w):
    for kind in ("TAG", "SQL92"):
        data = Subscription(w.topic, "a > 1", expression_type=kind)
        w.raw(Code.CHECK_CLIENT_CONFIG, body=encode_filter_check(FilterCheck("c1", w.group, data)))


@case
def broken_bodies(w):
    for code in (Code.HEART_BEAT, Code.LOCK_BATCH_MQ, Code.UNLOCK_BATCH_MQ):
        w.raw(code, body=b"{not json")


@case
def locks(w):
    locking(w, Code.LOCK_BATCH_MQ, "c1", 0, 1)
    locking(w, Code.LOCK_BATCH_MQ, "c2", 1, 2)
    locking(w, Code.LOCK_BATCH_MQ, "c1", 0, 1, 2)
    locking(w, Code.UNLOCK_BATCH_MQ, "c2", 0, 1)
    locking(w, Code.LOCK_BATCH_MQ, "c2", 0)
    locking(w, Code.UNLOCK_BATCH_MQ, "c1", 0)
    locking(w, Code.LOCK_BATCH_MQ, "c2", 0)
    locking(w, Code.LOCK_BATCH_MQ, "c1", 5, name="no-such-topic")
    w.raw(Code.LOCK_BATCH_MQ, body=b'{"clientId":"c1","mqSet":[{"topic":"t"}]}')
    locking(w, Code.LOCK_BATCH_MQ, "c1")


@case
def locks_outlive_a_membership_and_a_connection(w):
    w.heartbeat(w.topic, on="b")
    locking(w, Code.LOCK_BATCH_MQ, "c1", 0)
    w.ask(UnregisterClient(client_id="c1", consumer_group=w.group), on="b")
    w.hang_up("b")
    locking(w, Code.LOCK_BATCH_MQ, "c2", 0)


@case
def a_members_account_of_itself(w):
    w.answer[Code.GET_CONSUMER_RUNNING_INFO] = lambda _: encode_running_info(
        RunningInfo({"PROP_CLIENT_VERSION": "V"})
    )
    w.heartbeat(w.topic, on="b")
    w.ask(GetRunningInfo(consumer_group=w.group, client_id="c1"))
    w.ask(GetRunningInfo(consumer_group=w.group, client_id="c2"))


@case
def the_offsets_of_members(w):
    offsets = {MessageQueue(w.topic, "broker-a", 0): 7}
    w.answer[Code.GET_CONSUMER_STATUS_FROM_CLIENT] = lambda _: encode_member_offsets(offsets)
    w.heartbeat(w.topic, on="a")
    w.heartbeat(w.topic, on="b", client_id="c2")
    w.ask(GetOffsetsOfMembers(topic=w.topic, group=w.group), on="c")
    w.ask(GetOffsetsOfMembers(topic=w.topic, group=w.group, client_id="c2"), on="c")


@case
def a_message_consumed_directly(w):
    sent(w, "a")
    offset_id = w.ask(message(w), b"x").ext["msgId"]
    bodies = []

    def consume(command):
        bodies.append((len(command.body) > 100, command.ext["brokerName"]))
        return encode_direct_result(DirectResult(DirectOutcome.SUCCESS))

    w.answer[Code.CONSUME_MESSAGE_DIRECTLY] = consume
    w.heartbeat(w.topic, on="b")
    fields = {"consumer_group": w.group, "msg_id": offset_id, "topic": w.topic}
    w.ask(ConsumeDirectly(client_id="c1", **fields))
    w.say(bodies)
    w.ask(ConsumeDirectly(client_id="c2", **fields))
