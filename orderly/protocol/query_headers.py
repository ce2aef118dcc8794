"""Header fields of questions about everything on a broker: what monitoring asks.

The committed offsets of all groups (GET_ALL_CONSUMER_OFFSET) need no header. Nothing here makes a
group, a subscription or a lock at the broker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from orderly.protocol.codes import RequestCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsOfTopic:
    """Which groups subscribe to a topic or have offsets in it."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsOfGroup:
    """In which topics a group has offsets."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_TOPICS_BY_CONSUMER

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessage:
    """A message by its place in the broker's log (the last 16 digits of an offset id).

    The broker does not check that a message begins there: check what comes.
    """

    code: ClassVar[RequestCode] = RequestCode.VIEW_MESSAGE_BY_ID

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTopicConfigs:
    """One page of all topics' settings, by name (GetAllTopicConfigRequestHeader).

    Without any field the answer is whole, whatever the broker's settings; so ask for pages only
    where it could exceed a frame (about 80,000 topics). A broker without enableSplitMetadata (it
    is on by default) and those before 5.5 answer a page with everything.

    Args:
        topic_seq: how many topics the pages before had.
        max_topic_num: topics a page; the broker's limit (2000) applies as well.
        data_version: `TopicConfigs.version` of the page before; where it is not the present one,
            the broker begins again at 0.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_TOPIC_CONFIG

    topic_seq: int
    max_topic_num: int | None = None
    data_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetGroupConfigs:
    """One page of all groups' settings; as GetTopicConfigs, and whole without any field."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG

    group_seq: int
    max_group_num: int | None = None
    data_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTimeSpans:
    """How old the messages of a topic are, and the first that a group has not finished.

    The broker checks neither that the group exists nor that it consumes the topic.
    """

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_TIME_SPAN

    topic: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryConsumeQueue:
    """Where the messages of a queue are in the broker's log: `count` of them from `index` on."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_QUEUE

    topic: str
    queue_id: int
    index: int
    count: int = 1
