"""Namespaces: tenants of one cluster, told apart by a prefix of their topic and group names.

`orders` of namespace `shop` is `shop%orders` at the broker, its group's retry topic
`%RETRY%shop%shipping` (Java: NamespaceUtil). Programs use the bare names.
"""

from __future__ import annotations

RETRY_PREFIX = "%RETRY%"
"""Begins the name of a group's retry topic."""
DEAD_PREFIX = "%DLQ%"
"""Begins the name of the topic of a group's dead letters."""
_KINDS = (RETRY_PREFIX, DEAD_PREFIX)
_SEPARATOR = "%"


def wrap(namespace: str, name: str) -> str:
    """Return the broker's name of a topic or group; a name that has the namespace keeps it."""
    kind, bare = _split(name)
    prefix = namespace + _SEPARATOR
    if not namespace or not bare or bare.startswith(prefix):
        return name
    return kind + prefix + bare


def unwrap(namespace: str, name: str) -> str:
    """Return the program's name of a topic or group; another namespace's name stays as it is."""
    kind, bare = _split(name)
    prefix = namespace + _SEPARATOR
    return kind + bare.removeprefix(prefix) if namespace else name


def is_retry_topic(topic: str) -> bool:
    """Whether it is the retry topic of some group."""
    return topic.startswith(RETRY_PREFIX)


def of_send_backs(topic: str) -> bool:
    """Whether it holds what a group sent back, or gave up: the same messages under the same ids."""
    return topic.startswith(_KINDS)


def first_topic(topic: str, stated: str | None) -> str:
    """The topic that a message was sent to.

    Only of a message of a retry or dead-letter topic, which consumers and brokers write, it is
    what the message says (`stated`, its property RETRY_TOPIC): elsewhere a sender may say anything.
    """
    return stated if stated and topic.startswith(_KINDS) else topic


def _split(name: str) -> tuple[str, str]:
    kind = next((kind for kind in _KINDS if name.startswith(kind)), "")
    return kind, name[len(kind) :]
