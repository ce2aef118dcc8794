"""Which connections are producers of which group (ProducerManager)."""

from __future__ import annotations

from collections.abc import Iterable


class Producers:
    """Client ids by group and connection. Not thread-safe."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, str]] = {}

    def register(self, groups: Iterable[str], connection_id: int, client_id: str) -> None:
        """Take in a heartbeat."""
        for group in groups:
            self._groups.setdefault(group, {})[connection_id] = client_id

    def remove(self, group: str, connection_id: int) -> None:
        """A producer says farewell."""
        members = self._groups.get(group, {})
        members.pop(connection_id, None)
        if not members:
            self._groups.pop(group, None)

    def disconnected(self, connection_id: int) -> None:
        """A connection ended."""
        for group in list(self._groups):
            self.remove(group, connection_id)

    def table(self) -> dict[str, list[str]]:
        """Client ids by group."""
        return {group: list(members.values()) for group, members in self._groups.items()}
