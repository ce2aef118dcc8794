"""Which member owns which queues: pure functions of sorted queues and sorted client ids.

Every member computes this alone, so the answer may depend on nothing else, and all members must
use the same strategy. Each strategy answers as the Java client does, so that members in Java and
in Python share one group. The strategies that know machine rooms are in `allocation_rooms`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import md5

from orderly.config.arguments import check_queues, is_int
from orderly.errors import ConfigError
from orderly.model import MessageQueue

Allocation = Callable[[str, Sequence[MessageQueue], Sequence[str]], Sequence[MessageQueue]]
"""(my client id, sorted queues, sorted client ids) -> my queues.

Any function of that form will do. It must give each queue to one member, whichever member asks;
a queue that it gives to nobody is consumed by nobody. It must be thread-safe.
"""


def averagely(
    client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> Sequence[MessageQueue]:
    """Contiguous blocks; the first `len(queues) % len(members)` members get one more.

    Java: AllocateMessageQueueAveragely. A client that is not among the members gets nothing.
    """
    if client_id not in members:
        return ()
    index = members.index(client_id)
    share, rest = divmod(len(queues), len(members))
    start = index * share + min(index, rest)
    return queues[start : start + share + (index < rest)]


def by_circle(
    client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> Sequence[MessageQueue]:
    """One queue each in turn, so that every member has queues of every broker.

    Java: AllocateMessageQueueAveragelyByCircle. A client that is not among the members gets
    nothing.
    """
    if client_id not in members:
        return ()
    return queues[members.index(client_id) :: len(members)]


def by_config(queues: Iterable[MessageQueue]) -> Allocation:
    """Always the same queues for this member, independently of the other members.

    Give each member its own list. A queue in no list is not consumed; a queue in two lists is
    consumed by the member that locks it first. The group's retry topic is allocated in the same
    way, so its queues must be in a list too. Java: AllocateMessageQueueByConfig.

    Args:
        queues: this member's queues, of all its topics.

    Raises:
        ConfigError: no queue, or something other than queues.
    """
    fixed = check_queues("by_config's queues", queues)
    if not fixed:
        raise ConfigError(
            "by_config needs the queues of this member, as in"
            " [MessageQueue('orders', 'broker-a', 0)]"
        )
    return ByConfig(fixed)


@dataclass(frozen=True, slots=True)
class ByConfig:
    """The strategy that `by_config` returns."""

    queues: tuple[MessageQueue, ...]

    def __call__(
        self, _client_id: str, _queues: Sequence[MessageQueue], _members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Return the fixed queues, those of other topics too, as Java does."""
        return self.queues


def consistent_hash(virtual_nodes: int = 10) -> Allocation:
    """Hash members and queues onto a ring: when a member leaves, only its queues move.

    The shares are less even than those of `averagely`; more virtual nodes even them out.
    Java: AllocateMessageQueueConsistentHash with its own hash function.

    Args:
        virtual_nodes: points of each member on the ring; the same number for all members of the
            group, in Java too.

    Raises:
        ConfigError: less than one virtual node, so that no member would get a queue.
    """
    if not is_int(virtual_nodes) or virtual_nodes < 1:
        raise ConfigError(
            "consistent_hash needs 1 virtual node or more (virtual_nodes), not"
            f" {virtual_nodes!r}; Java's default is 10"
        )
    return ConsistentHash(virtual_nodes)


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """The strategy that `consistent_hash` returns."""

    virtual_nodes: int

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Return the queues whose next point on the ring is one of this client's."""
        if client_id not in members:
            return ()
        # Of two members with one point the later keeps it, as in Java: members come sorted.
        owners = {
            _point(f"{member}-{node}"): member
            for member in members
            for node in range(self.virtual_nodes)
        }
        ring = sorted(owners)

        def owner(queue: MessageQueue) -> str:
            place = bisect_left(ring, _point(_java_text(queue)))
            return owners[ring[place % len(ring)]]

        return [queue for queue in queues if owner(queue) == client_id]


def _java_text(queue: MessageQueue) -> str:
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name},"
        f" queueId={queue.queue_id}]"
    )


def _point(text: str) -> int:
    # "replace": half a surrogate pair becomes a question mark, as in Java.
    digest = md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


STRATEGIES: Mapping[str, Allocation] = {
    "averagely": averagely,
    "circle": by_circle,
    "consistent-hash": consistent_hash(),
}
"""Those that need no settings, by the name that a text setting gives them."""
