"""The topic and the group that a measurement makes for itself, and takes away again."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.namespace import DEAD_PREFIX, RETRY_PREFIX, wrap
from orderly.ordering.state.topic import PARK_PREFIX, STATE_PREFIX, park_topic, state_topic
from orderly.protocol.group_config import GroupConfig

PREFIX = "orderly-bench-"


@dataclass(frozen=True, slots=True)
class Names:
    """What a measurement works on, without the namespace.

    Attributes:
        run: a number that tells this run's messages from others'.
        topic: made for it, unless `own_topic` is False.
        group: made for it.
        own_topic: whether the topic is made, and deleted in the end.
    """

    run: int
    topic: str
    group: str
    own_topic: bool


def new_names(topic: str | None = None) -> Names:
    """Names that nobody has.

    Args:
        topic: a user's topic instead of a new one.
    """
    run = secrets.randbits(32)
    name = f"{PREFIX}{run:08x}"
    return Names(run, topic or name, name, own_topic=topic is None)


def make(client: Client, names: Names, queues: int, cluster: str | None = None) -> None:
    """Make the topic and the group.

    Args:
        client: asks.
        names: of them.
        queues: on each broker.
        cluster: may be left out where there is only one.

    Raises:
        OrderlyError: it cannot be; what is there then is for `remove`.
    """
    namespace = client.config.namespace
    if names.own_topic:
        client.admin.create_topic(wrap(namespace, names.topic), queues, cluster=cluster)
    client.housekeeping.put_group(GroupConfig(name=wrap(namespace, names.group), orderly=True))


def remove(client: Client, names: Names) -> list[str]:
    """Delete the topic, the group, and the topics that groups get.

    Returns:
        What is still there, and why; empty: nothing.
    """
    topic, group = (wrap(client.config.namespace, name) for name in (names.topic, names.group))
    left: list[str] = []
    own = [topic] if names.own_topic else []
    delete(client, (*own, *_of_group(client, group, topic, left)), (group,), left)
    return left


def delete(client: Client, topics: Iterable[str], groups: Iterable[str], left: list[str]) -> None:
    """Delete topics and groups; what is still there then is added to `left`, with the reason."""
    keeper = client.housekeeping
    for name in topics:
        _try(left, f"topic {name}", partial(keeper.delete_topic, name))
    for name in groups:
        _try(left, f"group {name}", partial(keeper.delete_group, name))


def leftovers(client: Client) -> tuple[list[str], list[str]]:
    """Topics and groups of measurements, ended or not, in the client's namespace."""
    namespace = client.config.namespace and re.escape(f"{client.config.namespace}%")
    ours = re.compile(
        rf"(?:{RETRY_PREFIX}|{DEAD_PREFIX})?{namespace}(?:{STATE_PREFIX}|{PARK_PREFIX})?"
        rf"{PREFIX}[0-9a-f]{{8}}(?:-.*)?"
    )
    names = client.admin.topics(), client.admin.groups()
    topics, groups = ([name for name in found if ours.fullmatch(name)] for found in names)
    return topics, groups


def _of_group(client: Client, group: str, topic: str, left: list[str]) -> list[str]:
    """The topics that a broker or a member made for the group, as far as they are there."""
    names = (
        RETRY_PREFIX + group,
        DEAD_PREFIX + group,
        state_topic(group, topic),
        park_topic(group, topic),
    )
    there: set[str] = set()
    _try(left, f"topics of group {group}", lambda: there.update(client.admin.topics()))
    return [name for name in names if name in there]


def _try(left: list[str], what: str, delete: Callable[[], object]) -> None:
    try:
        delete()
    except OrderlyError as error:
        left.append(f"{what}: {error}")
