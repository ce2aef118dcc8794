"""Header fields of administrative questions that this library answers only in its tests."""

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
