"""Allocation by machine room: consume only the brokers of a room, or those first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from orderly.config.arguments import check_arguments, is_async, yields
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.ordering.allocation import Allocation

RoomOf = Callable[[str], str]
"""Broker name, or client id, -> room."""

_T = TypeVar("_T")


def machine_room(rooms: Iterable[str]) -> Allocation:
    """Only queues of brokers named "room@name" with a room in `rooms`, shared by all members.

    No member consumes the queues of other brokers, including the group's retry topic. All members
    must have the same rooms. Java: AllocateMessageQueueByMachineRoom.

    Args:
        rooms: names of rooms.

    Raises:
        ConfigError: no room, one text instead of several, or a name no broker can have.
    """
    given = tuple(rooms) if isinstance(rooms, Iterable) and not isinstance(rooms, str) else ()
    named = all(isinstance(name, str) and name and "@" not in name for name in given)
    if not given or not named:
        raise ConfigError(
            "machine_room needs the rooms of brokers named 'room@name', as in ['room-a'],"
            f" not {rooms!r}"
        )
    return MachineRoom(tuple(sorted(set(given))))


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """What `machine_room` makes."""

    rooms: tuple[str, ...]

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Return a block of equal size for each, then one more for the first members."""
        if client_id not in members:
            return ()
        index = members.index(client_id)
        inside = [queue for queue in queues if self._holds(queue.broker_name)]
        share = len(inside) // len(members)
        # Unlike `averagely`, Java hands out the rest after all blocks, not within them.
        rest = inside[share * len(members) :]
        return inside[index * share : (index + 1) * share] + rest[index : index + 1]

    def _holds(self, broker_name: str) -> bool:
        # Java's split drops what is empty at the end: "room@name@" is room and name as well.
        parts = broker_name.rstrip("@").split("@")
        return len(parts) == 2 and parts[0] in self.rooms


def machine_room_nearby(
    inner: Allocation, room_of_broker: RoomOf, room_of_member: RoomOf
) -> Allocation:
    """Queues go to members in the room of their broker. If a room has no member, they go to all.

    Java: AllocateMachineRoomNearby; the two functions are its MachineRoomResolver.

    Args:
        inner: shares the queues of one room among its members.
        room_of_broker: broker name -> room.
        room_of_member: client id -> room.

    Both functions must give the same answer on every member. If one returns no room (an empty
    answer), the allocation raises ConfigError, as in Java; the consumer then keeps the queues it
    has.

    Raises:
        ConfigError: something that cannot be called so, or an async function.
    """
    given = (inner, room_of_broker, room_of_member)
    if any(not callable(each) or is_async(each) or yields(each) for each in given):
        raise ConfigError(
            "machine_room_nearby needs three functions: inner, a strategy such as averagely;"
            " room_of_broker, of a broker name; and room_of_member, of a client id; not"
            f" ({inner!r}, {room_of_broker!r}, {room_of_member!r})"
        )
    check_arguments("inner", inner, "client_id", "queues", "members")
    check_arguments("room_of_broker", room_of_broker, "broker")
    check_arguments("room_of_member", room_of_member, "client_id")
    return MachineRoomNearby(inner, room_of_broker, room_of_member)


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """What `machine_room_nearby` makes."""

    inner: Allocation
    room_of_broker: RoomOf
    room_of_member: RoomOf

    def __call__(
        self, client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
    ) -> Sequence[MessageQueue]:
        """Return the share of this room's queues, then that of each deserted room's.

        Raises:
            ConfigError: a broker or a member has no room.
        """
        if client_id not in members:
            return ()
        queues_in = _grouped(queues, lambda queue: _room(self.room_of_broker, queue.broker_name))
        members_in = _grouped(members, lambda member: _room(self.room_of_member, member))
        mine: list[MessageQueue] = []
        here = _room(self.room_of_member, client_id)
        if here in queues_in:
            mine += self.inner(client_id, queues_in[here], members_in[here])
        for deserted in sorted(queues_in.keys() - members_in.keys()):
            mine += self.inner(client_id, queues_in[deserted], members)
        return mine


def _grouped(things: Iterable[_T], room_of: Callable[[_T], str]) -> dict[str, list[_T]]:
    rooms: dict[str, list[_T]] = {}
    for thing in things:
        rooms.setdefault(room_of(thing), []).append(thing)
    return rooms


def _room(room_of: RoomOf, name: str) -> str:
    room = room_of(name)
    if not room:
        raise ConfigError(
            f"{name!r} is in no machine room ({room_of!r} answered {room!r}): make the function"
            " name a room for every broker and member, if need be one room for all others"
        )
    return room
