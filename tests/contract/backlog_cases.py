"""What a backlog is measured by: all offsets, all settings, ages, places in the log."""

from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.groups import GetGroupConfig, decode_group_configs
from orderly.protocol.offsets import GetMaxOffset, GetMinOffset
from orderly.protocol.pull import QueryConsumeQueue, ViewMessage, decode_consume_queue
from orderly.protocol.statistics import (
    GetConsumerConnections,
    GetConsumeStats,
    GetTimeSpans,
    GetTopicStats,
)
from orderly.protocol.topics import decode_topic_configs
from tests.contract.steps import case, commit, message, sent, settings, topic


def ages(w, **fields):
    w.ask(GetTimeSpans(**{"topic": w.topic, "group": w.group} | fields))


def places(w, index=0, count=1, *, queue_id=0, name=None):
    return w.ask(
        QueryConsumeQueue(topic=name or w.topic, queue_id=queue_id, index=index, count=count)
    )


def unnoted(w, code, ext=None):
    """Ask for what differs from broker to broker."""
    reply = w.raw(code, ext)
    w.heard.pop()
    return reply


@case
def all_committed_offsets(w):
    sent(w, "a", "b")
    w.raw(Code.GET_ALL_CONSUMER_OFFSET)
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 1)
    commit(w, 0, queue_id=1)
    w.raw(Code.GET_ALL_CONSUMER_OFFSET)
    for odd, queue_id in ((-7, 0), (99, 1), (3, 77), (4, -1)):
        commit(w, odd, queue_id=queue_id)
    w.raw(Code.GET_ALL_CONSUMER_OFFSET)
    w.raw(Code.DELETE_TOPIC_IN_BROKER, {"topic": w.topic})
    w.raw(Code.GET_ALL_CONSUMER_OFFSET)


@case
def all_topics_and_groups(w):
    topic(w, 2, read=4, perm=4)
    w.raw(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=settings(w, orderly=True, retry_queues=3))
    w.raw(Code.GET_ALL_TOPIC_CONFIG)
    w.raw(Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)


@case
def topics_and_groups_by_pages(w):
    for number in range(6):
        topic(w, name=f"{w.topic}-{number}")
        w.ask(GetGroupConfig(group=f"{w.group}-{number}"))
    for code, kind, decode, table in (
        (Code.GET_ALL_TOPIC_CONFIG, "Topic", decode_topic_configs, "topics"),
        (Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "Group", decode_group_configs, "groups"),
    ):
        whole = decode(unnoted(w, code).body)
        everything, present = sorted(getattr(whole, table)), whole.version
        for version in (present, "", "{}"):
            for seq in (0, 2, 4, 10_000):
                ext = {f"{kind.lower()}Seq": str(seq), f"max{kind}Num": "2", "dataVersion": version}
                page = sorted(getattr(decode(unnoted(w, code, ext).body), table))
                w.say((version == present, page == everything[seq : seq + 2], len(page)))
        w.raw(code, {f"max{kind}Num": "1"})


@case
def ages_of_messages(w):
    sent(w, "a", "b", "c")
    ages(w)
    w.ask(GetTopicStats(topic=w.topic))
    ages(w)
    ages(w, topic=w.topic + "-other")
    w.ask(GetGroupConfig(group=w.group))
    for offset in (0, 1, 3, 4, -1):
        commit(w, offset)
        commit(w, offset, queue_id=1)
        ages(w)
    ages(w, group="nobody-" + w.name)
    topic(w, 1, read=4)
    ages(w)


@case
def places_in_the_log(w):
    topic(w)
    places(w, queue_id=1)
    sent(w, "Aa", None)
    for index, count in ((0, 1), (1, 1), (0, 9), (0, 0), (2, 1), (3, 1), (-1, 1), (10**9, 1)):
        places(w, index, count)
    places(w, name=w.topic + "-other")
    (place,) = decode_consume_queue(places(w, 1).body).entries
    w.ask(ViewMessage(offset=place.physical_offset))


@case
def what_makes_a_queue_exist(w):
    topic(w, 4)
    for queue_id, header in enumerate(
        (GetMaxOffset(topic=w.topic, queue_id=0), GetMinOffset(topic=w.topic, queue_id=1))
    ):
        w.ask(header)
        places(w, queue_id=queue_id)
    ages(w)
    places(w, queue_id=2)
    w.ask(GetTopicStats(topic=w.topic))
    places(w, queue_id=2)
    places(w, queue_id=4)


@case
def statistics_of_groups_online(w):
    sent(w, "a", "b")
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 0)
    w.ask(GetConsumeStats(consumer_group=w.group))
    w.ask(GetConsumeStats(consumer_group="nobody-" + w.name))
    w.ask(GetConsumeStats(consumer_group="nobody-" + w.name, topic=w.topic))
    w.heartbeat(w.topic + "-other")
    w.ask(GetConsumeStats(consumer_group=w.group))
    w.ask(GetConsumeStats(consumer_group=w.group, topic=w.topic))
    w.heartbeat(w.topic, version=2)
    w.ask(GetConsumeStats(consumer_group=w.group))
    w.ask(GetConsumerConnections(consumer_group=w.group))
    ages(w)
    w.raw(Code.GET_ALL_CONSUMER_OFFSET)


@case
def messages_in_queues_nobody_reads(w):
    topic(w, 2)
    w.ask(message(w, queue_id=1), b"x")
    w.visible(w.topic, 1, 1)
    topic(w, 2, read=1)
    w.ask(GetGroupConfig(group=w.group))
    w.ask(GetTopicStats(topic=w.topic))
    w.ask(GetConsumeStats(consumer_group=w.group, topic=w.topic))
    ages(w)
