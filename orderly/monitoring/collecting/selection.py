"""Which groups and topics a scan is about: names or patterns, over the brokers' own names.

Whose a topic is follows from its name: RocketMQ's own, a group's retries, its dead letters.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache

from orderly.errors import ConfigError
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX
from orderly.ordering.topic_names import PARK_PREFIX, STATE_PREFIX, state_topic

PROXY_TOPIC = "DefaultHeartBeatSyncerTopic"  # in which proxies list their clients for each other
_NAMESPACE_END = "%"
_OWN_PREFIXES = (STATE_PREFIX, PARK_PREFIX)
# As Java's TopicValidator has them, and that of proxies.
_SYSTEM_TOPICS = frozenset(
    {
        "TBW102",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "CHECKPOINT_TOPIC",
        PROXY_TOPIC,
    }
)
_SYSTEM_TOPIC_PREFIXES = ("rmq_sys_", "RMQ_SYS_")
# As Java's MixAll has them, and that of proxies.
_SYSTEM_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        f"CID_{PROXY_TOPIC}",
        "orderly-spark",  # that a broker makes at the first pull of our Spark source
        "orderly-tail",  # the same, of `orderly tail` in earlier releases
    }
)
_SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
# POP retry topics: "%RETRY%group_topic", since release 5.3 "%RETRY%group+topic" (KeyBuilder)
_POP_SEPARATORS = "_+"
_PART = "-"  # between the parts of a state topic's name


def is_system_topic(topic: str) -> bool:
    """Whether the topic is RocketMQ's own."""
    return topic in _SYSTEM_TOPICS or topic.startswith(_SYSTEM_TOPIC_PREFIXES)


def is_system_group(group: str) -> bool:
    """Whether the group is RocketMQ's own: predefined, or of a broker."""
    return group in _SYSTEM_GROUPS or group.startswith(_SYSTEM_GROUP_PREFIX)


def is_book_keeping(topic: str) -> bool:
    """Whether it is the state or park topic of a group of ours: no backlog of messages.

    Of a topic of another namespace its name says that, too, behind the prefix.
    """
    return any(part.startswith(_OWN_PREFIXES) for part in topic.split(_NAMESPACE_END))


def is_internal(topic: str) -> bool:
    """Whether no program's messages belong there: a system topic, retries, dead letters, state."""
    of_a_group = topic.startswith((RETRY_PREFIX, DEAD_PREFIX)) or is_book_keeping(topic)
    return of_a_group or is_system_topic(topic)


def dead_letter_topic(group: str) -> str:
    """Where the group's dead letters go."""
    return DEAD_PREFIX + group


def retry_topic(group: str) -> str:
    """Where the group's failed messages come again."""
    return RETRY_PREFIX + group


def group_of_retry_topic(topic: str, groups: Container[str], topics: Container[str]) -> str | None:
    """The group whose retry topic it is; None: not a retry topic, or of an unknown group.

    Args:
        topic: any topic.
        groups: all that are known: "%RETRY%a_b" is of group "a_b" if that exists, and only then
            of group "a" for topic "b" (POP).
        topics: all that are known.
    """
    if not topic.startswith(RETRY_PREFIX):
        return None
    name = topic.removeprefix(RETRY_PREFIX)
    if name in groups:
        return name
    splits = [at for at, mark in enumerate(name) if mark in _POP_SEPARATORS]
    fits = (name[:at] for at in reversed(splits) if name[at + 1 :] in topics)
    return next((group for group in fits if group in groups), None)


def pair_of_state_topic(
    topic: str, groups: Container[str], topics: Container[str]
) -> tuple[str, str] | None:
    """The group and the topic whose state a topic holds; None: it is none, or of neither.

    A name that was cut to fit shows neither (`state_topic`).

    Args:
        topic: any topic.
        groups: all that are known.
        topics: all that are known.
    """
    namespace, found, rest = topic.partition(STATE_PREFIX)
    if not found:
        return None
    names, _, _ = rest.rpartition(_PART)
    for at, mark in enumerate(names):
        group = namespace + names[:at]
        if mark != _PART or group not in groups:
            continue
        for consumed in (namespace + names[at + 1 :], names[at + 1 :]):
            if consumed in topics and state_topic(group, consumed) == topic:
                return group, consumed
    return None


# --- what is chosen -------------------------------------------------------------------------------


_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of groups and topics; names are compared as the brokers have them.

    Attributes:
        groups, topics: globs, of which one must fit; none: all.
        regex: they are regular expressions instead, which must fit a whole name.
        system: RocketMQ's own groups and topics, too, if they fit.

    Raises:
        ConfigError: not a regular expression.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    regex: bool = False
    system: bool = False

    def __post_init__(self) -> None:
        for pattern in (*self.groups, *self.topics):
            _compiled(pattern, self.regex)

    def group(self, name: str) -> bool:
        """Whether a group is chosen."""
        return self._fits(name, self.groups) and (self.system or not is_system_group(name))

    def topic(self, name: str) -> bool:
        """Whether a topic is chosen."""
        return self._fits(name, self.topics) and (self.system or not is_system_topic(name))

    @property
    def named_groups(self) -> tuple[str, ...]:
        """The groups that are given by their name."""
        return self._named(self.groups)

    @property
    def only_named(self) -> bool:
        """Whether no group can be chosen but by its name."""
        return bool(self.groups) and len(self.named_groups) == len(self.groups)

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The topics that are given by their name."""
        return self._named(self.topics)

    def _fits(self, name: str, patterns: Sequence[str]) -> bool:
        return not patterns or any(_compiled(p, self.regex).fullmatch(name) for p in patterns)

    def _named(self, patterns: Sequence[str]) -> tuple[str, ...]:
        return () if self.regex else tuple(p for p in patterns if not _WILD.search(p))


EVERYTHING = Selection()


@cache
def _compiled(pattern: str, regex: bool) -> re.Pattern[str]:
    try:
        return re.compile(pattern if regex else translate(pattern))
    except re.error as error:
        raise ConfigError(
            f"{pattern!r} is not a regular expression: {error}; leave out -r to give a glob"
        ) from error
