"""What several commands ask and show of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orderly.errors import OrderlyError

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import QueueStatus


def queue_rows(client: Client, group: str, topic: str | None = None) -> list[QueueStatus]:
    """A group's queues, sorted, with their offsets; none if no broker knows the group.

    Raises:
        OrderlyError: there is no such topic, or a broker does not answer and nothing is known.
    """
    from orderly.monitoring.collecting.selection import Selection  # noqa: PLC0415  quick --help
    from orderly.monitoring.collecting.survey import survey  # noqa: PLC0415

    if topic is not None:
        client.routes.get(topic)  # or there is none
    snapshot = survey(client, Selection((group,), () if topic is None else (topic,)))
    rows = list(snapshot.groups[group].rows()) if group in snapshot.groups else []
    if any(row.maximum is not None for row in rows):
        return rows
    for broker in snapshot.brokers.values():
        if broker.error is not None:
            raise OrderlyError(f"the offsets of group {group} could not be read: {broker.error}")
    return rows


def members_online(client: Client, group: str) -> list[str] | None:
    """Client ids of the group's members that are connected; None: not known."""
    try:
        members = client.admin.consumer_connections(group)
    except OrderlyError:
        return None
    return [member.client_id for member in members.connections] if members else []


def queue_fields(row: QueueStatus) -> dict[str, str | int | None]:
    """A queue and its offsets, as every JSON output names them."""
    return {
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "min": row.minimum,
        "committed": row.committed,
        "max": row.maximum,
    }
