"""What a rebalance round changes: a plan, computed from values, carried out by the shell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from orderly.errors import ConfigError, OrderlyError
from orderly.model import MessageQueue
from orderly.ordering.allocation import Allocation


@dataclass(frozen=True, slots=True)
class RebalancePlan:
    """Queues to give up and queues to take, both sorted."""

    revoked: tuple[MessageQueue, ...] = ()
    gained: tuple[MessageQueue, ...] = ()


def my_share(
    client_id: str,
    queues: Collection[MessageQueue],
    members: Collection[str],
    allocate: Allocation,
) -> frozenset[MessageQueue] | None:
    """Return the queues that are this client's, or None for "keep what you have".

    None if the member list is empty or does not hold this client: the broker has not seen our
    heartbeat yet, or lost it. Taking that for "I own nothing" would stop a healthy consumer.

    Raises:
        ConfigError: the strategy failed; the caller keeps its assignment then.
    """
    if client_id not in members:
        return None
    try:
        mine = frozenset(allocate(client_id, sorted(queues), sorted(set(members))))
    except OrderlyError:
        raise
    except Exception as error:
        raise ConfigError(
            f"the allocation strategy {allocate!r} failed ({error!r}): it must return some of the"
            " queues it is given, whichever member asks"
        ) from error
    return mine & frozenset(queues)


def plan(
    share: Collection[MessageQueue],
    active: Collection[MessageQueue],
    leaving: Collection[MessageQueue],
) -> RebalancePlan:
    """Compare the share with what is held.

    Args:
        share: the queues that are ours by allocation.
        active: queues held and working.
        leaving: queues held but dropped, waiting for a handler or a broker: they are neither
            revoked twice nor taken again before they are gone.
    """
    wanted = set(share)
    return RebalancePlan(
        revoked=_sorted(set(active) - wanted),
        gained=_sorted(wanted - set(active) - set(leaving)),
    )


def by_broker(queues: Sequence[MessageQueue]) -> dict[str, tuple[MessageQueue, ...]]:
    """Group queues by broker name: one lock request each."""
    grouped: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        grouped.setdefault(queue.broker_name, []).append(queue)
    return {name: tuple(of_broker) for name, of_broker in sorted(grouped.items())}


def _sorted(queues: Collection[MessageQueue]) -> tuple[MessageQueue, ...]:
    return tuple(sorted(queues))
