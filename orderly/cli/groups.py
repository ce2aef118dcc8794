"""What several commands show of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orderly.errors import OrderlyError

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.verdict import QueueBacklog


def members_online(client: Client, group: str) -> list[str] | None:
    """Client ids of the group's members that are connected; None: not known."""
    try:
        members = client.admin.consumer_connections(group)
    except OrderlyError:
        return None
    return [member.client_id for member in members.connections] if members else []


def queue_fields(row: QueueBacklog) -> dict[str, str | int | None]:
    """A queue and its offsets, as every JSON output names them."""
    return {
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "min": row.minimum,
        "committed": row.committed,
        "max": row.maximum,
    }
