"""Whether the other members of the group keep order as we do.

Before a start `orderly.client.preflight` looks at them; this is for those that join later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orderly.client import Client
from orderly.client.preflight import orders_of
from orderly.errors import OrderlyError
from orderly.protocol.statistics import ConsumerConnection


class GroupOrderCheck:
    """The other members of a group, each asked once. Not thread-safe, but for reading `mixed`.

    Args:
        client: of the consumer.
        group: as the broker names it.
        order: ours: "queue" or "key".
        log: for members that did not answer, and those that must not be there.

    Attributes:
        mixed: the members that keep order in another way, a text each. Replaced, never changed.
    """

    def __init__(self, client: Client, group: str, order: str, log: Any) -> None:
        self._client = client
        self._group = group
        self._order = order
        self._log = log
        self._members: frozenset[str] = frozenset()
        self._known: dict[str, str] = {}  # client id -> what is wrong with it, "" if nothing
        self.mixed: tuple[str, ...] = ()

    def changed(self, members: Iterable[str]) -> None:
        """Look at members that were not there before; wrong ones are logged as an error.

        Cheap while the members are the same. Each new member is asked once, which may block for
        some seconds if one hangs; one that does not answer is a warning.

        Args:
            members: client ids of all members.
        """
        present = frozenset(members)
        if present == self._members:
            return
        self._members = present
        before = self.mixed
        self._known = {name: wrong for name, wrong in self._known.items() if name in present}
        try:
            found = self._client.admin.consumer_connections(self._group)
        except OrderlyError as error:
            self._log.warning("group.order_not_checked", error=str(error))
            found = None
        self._meet(found.connections if found else ())
        if set(self.mixed) - set(before):
            self._log.error(
                "group.order_mixed",
                members=self.mixed,
                hint="members that keep order by queue repeat messages that others finished, and"
                " run keys that are suspended: stop one kind of member",
            )

    def _meet(self, members: Iterable[ConsumerConnection]) -> None:
        unknown = [member for member in members if member.client_id not in self._known]
        for asked in orders_of(self._client, self._group, self._order, unknown):
            self._known[asked.client_id] = asked.wrong
            if asked.error is not None:
                self._log.warning(
                    "member.order_unknown", member=asked.client_id, error=str(asked.error)
                )
        self.mixed = tuple(wrong for _, wrong in sorted(self._known.items()) if wrong)
