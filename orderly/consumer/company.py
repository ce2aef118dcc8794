"""Who else is in the group, and whether they keep order as we do.

A group must not mix order="key" with order="queue": members by queue, Java's among them, know
nothing of what is finished ahead. Our own members say their order in their running info.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from orderly.client import Client
from orderly.consumer.session import now
from orderly.errors import ConfigError, OrderlyError
from orderly.protocol.codes import Language
from orderly.protocol.stats_bodies import ConsumerConnection

_PATIENCE = 10.0  # seconds; a broker waits as long for one member that hangs
_BY_KEY = "key"
_SETTING = "order"  # of a ConsumerConfig, all of which is in a running info


class Company:
    """The other members of a group, each asked once. Not thread-safe, but for reading `mixed`.

    Args:
        client: of the consumer.
        group: as the broker names it.
        order: ours: "queue" or "key".
        log: hears of members that did not answer, and of those that must not be there.

    Attributes:
        mixed: the members that keep order in another way, a text each. Replaced, never changed.
    """

    def __init__(self, client: Client, group: str, order: str, log: Any) -> None:
        self._client = client
        self._group = group
        self._by_key = order == _BY_KEY
        self._log = log
        self._members: frozenset[str] = frozenset()
        self._known: dict[str, str] = {}  # client id -> what is wrong with it, "" if nothing
        self.mixed: tuple[str, ...] = ()

    def check(self, members: Iterable[ConsumerConnection]) -> None:
        """Look at those who are there before a consumer starts.

        Raises:
            ConfigError: some keep order in another way.
        """
        self._meet(members)
        if self.mixed:
            here, there = ("key", "queue") if self._by_key else ("queue", "key")
            raise ConfigError(
                f"this member has order={here!r}, but members of group {self._group} keep order by"
                f" {there}: {', '.join(self.mixed)}. Stop them first, or use another group"
            )

    def changed(self, members: Iterable[str]) -> None:
        """Look at members that were not there before; an error event tells of wrong ones.

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
                hint="members by queue repeat what others finished ahead, and run keys that are"
                " suspended: stop the ones or the others",
            )

    def _meet(self, members: Iterable[ConsumerConnection]) -> None:
        give_up = now() + _PATIENCE
        for member in members:
            unknown = member.client_id not in {*self._known, self._client.client_id}
            if unknown and now() < give_up:
                self._known[member.client_id] = self._wrong_with(member)
        self.mixed = tuple(wrong for _, wrong in sorted(self._known.items()) if wrong)

    def _wrong_with(self, member: ConsumerConnection) -> str:
        if member.language != Language.PYTHON.name:  # another client, and so by queue
            return f"{member.client_id} ({member.language})" if self._by_key else ""
        try:
            info = self._client.groups.running_info(self._group, member.client_id)
        except ConfigError:  # has left meanwhile
            return ""
        except OrderlyError as error:
            self._log.warning(
                "member.order_unknown",
                member=member.client_id,
                error=str(error),
            )
            return ""
        theirs = info.properties.get(_SETTING, "unknown")
        if (theirs == _BY_KEY) == self._by_key:
            return ""
        return f"{member.client_id} (order={theirs!r})"
