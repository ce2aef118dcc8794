"""How far the groups of a topic are, as the brokers say.

What is not known counts as not finished.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator

from orderly.client import Client
from orderly.errors import OrderlyError
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus
from orderly.monitoring.collecting.names import is_system_group
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import survey
from orderly.monitoring.growing.standing import Behind, Standing
from orderly.monitoring.parked import ParkedMessages
from orderly.monitoring.texts import counted
from orderly.ordering.state.topic import park_topic
from orderly.protocol.heartbeat import MessageModel

_BROADCASTING = "broadcasting: its members keep their offsets themselves"
_NEW = "its members have committed nothing yet"


def look(client: Client, topic: str, ignored: Collection[str]) -> Standing:
    """Measure how far a topic is drained; joins nothing and disturbs nobody.

    Args:
        client: need not be started.
        topic: its name at the brokers.
        ignored: groups that do not count.

    Raises:
        OrderlyError: a broker did not answer: nothing is known.
    """
    spans = client.admin.topic_stats(topic)
    groups = [group for group in _groups(client, topic) if group.group not in ignored]
    behind = [found for group in groups if (found := _behind(group, topic)) is not None]
    if not behind and any(span.max_offset > span.min_offset for span in spans.values()):
        behind = list(_untold(client, topic, {group.group for group in groups}, ignored))
    if not behind:  # reading what is parked costs some requests a queue
        behind = list(_parked(client, topic, groups))
    return Standing({queue: span.max_offset for queue, span in spans.items()}, tuple(behind))


def _groups(client: Client, topic: str) -> list[GroupStatus]:
    snapshot = survey(client, Selection((), (topic,)))
    for broker in snapshot.brokers.values():
        if broker.error is not None:
            raise OrderlyError(f"the groups' offsets could not all be read: {broker.error}")
    return [group for group in snapshot.groups.values() if topic in group.topics]


def _untold(
    client: Client, topic: str, known: Collection[str], ignored: Collection[str]
) -> Iterator[Behind]:
    """Groups of whose members the brokers' offsets say nothing.

    A stock client commits only after its first success: a first message that hangs shows nowhere
    else. What a broadcasting group has committed is a left-over of other times.
    """
    for group in client.groups.consuming(topic):
        if group in ignored or is_system_group(group):
            continue
        members = client.admin.consumer_connections(group)
        if members is None or topic not in members.subscriptions:
            continue
        if members.message_model == MessageModel.BROADCASTING:
            yield Behind(group, None, _BROADCASTING)
        elif group not in known:
            yield Behind(group, None, _NEW)


def _behind(group: GroupStatus, topic: str) -> Behind | None:
    """What a group has not finished of a topic; None: nothing."""
    counts = [_left(row) for row in group.topics[topic].rows()]
    if None in counts:
        return Behind(group.group, None, "never committed in some queue, or not to be read")
    total = sum(count for count in counts if count is not None)
    return Behind(group.group, total) if total else None


def _left(row: QueueStatus) -> int | None:
    """Messages of a queue that lie above the committed offset; None: not known.

    All of them, also what a group that keeps order by key has finished ahead: only when the lowest
    is done, too, can no key of the queue be waiting.
    """
    if row.minimum is None or row.maximum is None:
        return None
    if row.maximum == row.minimum:
        return 0
    if row.committed is None:
        return None
    return max(0, row.maximum - max(row.committed, row.minimum))


def _parked(client: Client, topic: str, groups: Collection[GroupStatus]) -> Iterator[Behind]:
    """Groups with parked keys: their later messages would be handled in another queue."""
    present = frozenset(client.admin.topics())
    for group in groups:
        if park_topic(group.group, topic) not in present:
            continue
        keys = ParkedMessages(client, group.group, topic).keys()
        if keys:
            of = f"{shlex.quote(group.group)} -t {shlex.quote(topic)}"
            why = f"{counted(len(keys), 'key')} parked: `orderly parked release {of} --all`"
            yield Behind(group.group, None, why)
