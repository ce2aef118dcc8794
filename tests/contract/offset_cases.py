"""Offsets: stored, reset, and the statistics of them."""

from orderly.protocol.groups import DeleteGroup, GetGroupConfig, GroupsOfTopic, TopicsOfGroup
from orderly.protocol.offsets import GetMaxOffset, GetMinOffset, SearchOffset
from orderly.protocol.statistics import GetConsumeStats, GetTopicStats
from tests.contract.steps import (
    BORN,
    case,
    commit,
    reset,
    sent,
    stored,
)


@case
def stored_offsets(w):
    sent(w, "a", "b")
    stored(w)
    stored(w, zero=False)
    stored(w, zero=True)
    stored(w, queue_id=1)
    commit(w, 1)
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 1, topic=w.topic + "-other")
    for offset in (2, 1, 1000):
        commit(w, offset)
        stored(w)
    stored(w, queue_id=1)


@case
def a_group_is_deleted(w):
    sent(w, "a", "b")
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 1)
    w.ask(DeleteGroup(group_name=w.group))
    stored(w)
    w.ask(DeleteGroup(group_name=w.group, clean_offset=True))
    stored(w)
    w.ask(TopicsOfGroup(group=w.group))
    w.ask(DeleteGroup(group_name=w.group, clean_offset=True))


@case
def ends_and_times(w):
    sent(w, "a", "b")
    for queue_id in (0, 1, 9):
        w.ask(GetMaxOffset(topic=w.topic, queue_id=queue_id))
        w.ask(GetMinOffset(topic=w.topic, queue_id=queue_id))
    for moment in (0, 1000, BORN, 4_000_000_000_000):
        for boundary in (None, "lower", "upper"):
            w.ask(SearchOffset(topic=w.topic, queue_id=0, timestamp=moment, boundary_type=boundary))
    w.ask(SearchOffset(topic=w.topic, queue_id=1, timestamp=1000))
    w.ask(SearchOffset(topic=w.topic, queue_id=9, timestamp=1000))


@case
def a_reset_of_one_queue(w):
    sent(w, "a", "b", "c")
    w.ask(GetGroupConfig(group=w.group))
    commit(w, 1)
    reset(w, timestamp=0, queue_id=0, offset=2)
    stored(w)
    commit(w, 3)
    stored(w)
    w.ask(w.pull(1))
    commit(w, 3)
    stored(w)
    w.ask(w.pull(1))


@case
def resets_of_whole_topics(w):
    sent(w, "a", "b")
    w.ask(GetGroupConfig(group=w.group))
    reset(w)
    stored(w)
    reset(w, timestamp=0)
    reset(w, timestamp=4_000_000_000_000)
    reset(w, queue_id=0)
    w.ask(w.pull(0, flags=4 | 2, suspend_timeout_millis=5000))


@case
def resets_that_are_refused(w):
    sent(w, "a")
    reset(w)
    w.ask(GetGroupConfig(group=w.group))
    reset(w, topic=w.topic + "-other")
    for offset in (-5, 2, 3):
        reset(w, timestamp=0, queue_id=0, offset=offset)


@case
def statistics(w):
    sent(w, "a", "b")
    w.ask(GetTopicStats(topic=w.topic))
    w.ask(GetTopicStats(topic=w.topic + "-other"))
    w.ask(GetConsumeStats(consumer_group=w.group, topic=w.topic))
    w.ask(GetConsumeStats(consumer_group=w.group))
    w.ask(w.pull())
    w.ask(GetConsumeStats(consumer_group=w.group, topic=w.topic))
    commit(w, 1)
    w.ask(GetConsumeStats(consumer_group=w.group))
    w.ask(GroupsOfTopic(topic=w.topic))
    w.ask(TopicsOfGroup(group=w.group))
