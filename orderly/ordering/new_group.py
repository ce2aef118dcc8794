"""Whether a group is new in a topic, and where the topic's queues ended before it began there.

A queue without a committed offset can be one of two things. The group is new: then the queue begins
where `consume_from` says. Or the group is known (it has an offset in another queue of the topic),
and the queue is new to it, or its offset was lost: then it begins with its first message, whatever
`consume_from` says, or what was sent there meanwhile would be skipped (apache/rocketmq issue 9307).

With consume_from="last", say, two members of a new group start at once. One takes queue 0 and
commits its start. Then the other one takes queue 1: its group has an offset by now, and all the
same it is as new there as it was a moment ago. So each member looks *before it joins*: first where
the queues end, then whether there is an offset anywhere. If there is none, the group begins later
than that, and what the queues had was sent before it began. And a member leaves a queue to another
one only if it sees that one among the members, so after that one's look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from orderly.errors import NotAvailableYet, OrderlyError, RouteError, TopicNotFound
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import Dialogue, HasOffsets, Peeked, QueueEnds
from orderly.ordering.rebalance_plan import by_broker
from orderly.ordering.state_records import StateReader

Queues = tuple[MessageQueue, ...]
StateQueueOf = Callable[[MessageQueue], MessageQueue]


@dataclass(frozen=True, slots=True)
class NewGroup:
    """A topic in which a group had not begun when a member looked.

    Attributes:
        ends: of each queue that the topic had then, where it ended, and its last message.
    """

    ends: Mapping[MessageQueue, Peeked]


def find_new_group(
    queues: Sequence[MessageQueue], state_queue_of: StateQueueOf | None = None, *, nearest: str = ""
) -> Dialogue[NewGroup | None]:
    """Find out whether the group is new in a topic; None: it is known there.

    One broker that knows it is enough; that it is new all must say.

    Args:
        queues: all that the topic has.
        state_queue_of: where what was finished of a queue is on record; None: by queue.
        nearest: the broker to ask first.

    Raises:
        OrderlyError: no broker that answers knows the group, and one does not answer.
    """
    brokers = sorted(
        by_broker(queues).values(), key=lambda of_broker: of_broker[0].broker_name != nearest
    )
    if (yield from _is_known(brokers, state_queue_of)):
        return None
    ends: dict[MessageQueue, Peeked] = {}
    for of_broker in brokers:
        ends.update((yield QueueEnds(of_broker)))
    if (yield from _is_known(brokers, state_queue_of)):  # it began while we looked
        return None
    return NewGroup(ends)


def _is_known(brokers: Iterable[Queues], state_queue_of: StateQueueOf | None) -> Dialogue[bool]:
    failure: OrderlyError | None = None
    for of_broker in brokers:
        try:
            if (yield HasOffsets(of_broker)):
                return True
            if state_queue_of is not None:
                state_queues = tuple(map(state_queue_of, of_broker))
                if (yield from _is_on_record(state_queues)):
                    return True
        except OrderlyError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def _is_on_record(state_queues: Queues) -> Dialogue[bool]:
    """Whether an owner of a queue got as far as to write where it began.

    Offsets may be gone where records are not: they are deleted with the topic, say.
    """
    try:
        ends: Mapping[MessageQueue, Peeked] = yield QueueEnds(state_queues)
    except (TopicNotFound, RouteError):  # no state topic, or not at this broker, which has answered
        return False
    for queue, last in ends.items():
        if last.end:
            try:
                found, damaged = yield from StateReader(queue, last.end).newest(before=last.end)
            except NotAvailableYet:  # a newer release wrote it
                return True
            if found is not None or damaged:
                return True
    return False
