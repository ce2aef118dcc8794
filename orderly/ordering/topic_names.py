"""The names of the two topics that a group keeps for each topic consumed with order="key".

`orderly-state-<group>-<topic>-<16 hex digits>` holds its state, `orderly-park-…` the messages of
parked keys; in the group's namespace if it has one: `shop%orderly-state-shipping-orders-1f0c…`.
ACL rules for the prefixes `orderly-state-shipping-` and `orderly-park-shipping-` (Pub, Sub, Get,
and Create unless operators make the topics) cover what a group needs.
"""

from __future__ import annotations

from hashlib import sha256

STATE_PREFIX = "orderly-state-"
PARK_PREFIX = "orderly-park-"
MOST_CHARACTERS = 127  # of a topic's name (Java: TopicValidator.TOPIC_MAX_LENGTH)
_MOST_OF_NAMESPACE = 48  # characters; a longer one is left out, or little else could be read
_HASH_DIGITS = 16
_SEPARATORS = 2  # around the topic
_NAMESPACE_END = "%"


def state_topic(group: str, topic: str) -> str:
    """Return the name of the state topic.

    Long names are cut to fit; the hash, of both full names, keeps them apart.

    Args:
        group: the consumer group, as the broker names it.
        topic: the topic consumed, as the broker names it.
    """
    return _name(STATE_PREFIX, group, topic)


def park_topic(group: str, topic: str) -> str:
    """Return the name of the topic in which messages are parked; as `state_topic`."""
    return _name(PARK_PREFIX, group, topic)


def _name(prefix: str, group: str, topic: str) -> str:
    namespace, short_group = _split(group)
    in_namespace, short_topic = _split(topic)
    if in_namespace != namespace:  # another tenant's topic: its name in full
        short_topic = topic
    if len(namespace) > _MOST_OF_NAMESPACE:
        namespace = ""
    digest = sha256(f"{group}\n{topic}".encode()).hexdigest()[:_HASH_DIGITS]
    start = namespace + prefix
    room = MOST_CHARACTERS - len(start) - _SEPARATORS - _HASH_DIGITS
    shown_group = short_group[: max(room // 2, room - len(short_topic))]
    shown_topic = short_topic[: room - len(shown_group)]
    return f"{start}{shown_group}-{shown_topic}-{digest}"


def _split(name: str) -> tuple[str, str]:
    """The namespace with its "%", or nothing, and the rest."""
    namespace, end, bare = name.partition(_NAMESPACE_END)
    return (namespace + end, bare) if end else ("", name)
