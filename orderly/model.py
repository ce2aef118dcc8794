"""The values everything else speaks of. Frozen, comparable, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Self, final

from orderly.errors import UndecodableBody
from orderly.namespace import first_topic, unwrap

NO_PROPERTIES: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, order=True)
class MessageQueue:
    """One queue of a topic on one broker: the unit of order.

    Sorts by (topic, broker_name, queue_id), as Java's MessageQueue.compareTo does. Every member of
    a group must sort in the same way, or allocations overlap.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class _ReadLate:
    """Fields that a pull brought and nobody looked at yet are read when somebody does.

    Most handlers look at the body, and at nothing else: a pull is read in a third of the time.
    """

    __slots__ = ("_read",)
    _read: Callable[[ReceivedMessage, str], Mapping[str, Any]]

    if not TYPE_CHECKING:  # or no misspelt attribute would be found

        def __getattr__(self, name: str) -> Any:
            """Called for a slot that is unset; two threads at once write the same."""
            values = {} if name == "_read" or name[:2] == "__" else self._read(self, name)
            if name not in values:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            for field_name, value in values.items():
                object.__setattr__(self, field_name, value)
            return values[name]


@dataclass(frozen=True, slots=True)
class ReceivedMessage(_ReadLate):
    """A message as the broker stored it.

    Times are seconds since the epoch, by the clock of the host that wrote them. `queue_offset` is
    authoritative: filtered pulls have gaps. `message_id` is the sender's id (UNIQ_KEY), which stays
    the same in retries and dead letters; `offset_message_id` names the stored copy. `stored_size`
    is the number of bytes at the broker. `held_size` is about the memory that the message takes in
    this process, with its body unpacked and all fields used (0: no orderly consumer pulled it).
    """

    queue: MessageQueue
    queue_offset: int
    body: bytes
    properties: Mapping[str, str]
    message_id: str
    offset_message_id: str
    born_time: float
    store_time: float
    born_host: str
    store_host: str
    reconsume_times: int
    flag: int
    sys_flag: int
    physical_offset: int
    stored_size: int
    namespace: str = ""
    held_size: int = field(default=0, repr=False, compare=False)

    @classmethod
    def read_late(  # noqa: PLR0917 - by place, since it is called for each message
        cls,
        read: Callable[[ReceivedMessage, str], Mapping[str, Any]],
        queue: MessageQueue,
        queue_offset: int,
        body: bytes,
        reconsume_times: int,
        sys_flag: int,
        stored_size: int,
        held_size: int,
    ) -> ReceivedMessage:
        """Make a message of which only these fields are read so far.

        Args:
            read: (message, name of a field) -> values of that field, and of others that were as
                cheap; {} if there is no property of that name.
            queue: this field and the next ones are known already.
            queue_offset: as in the class.
            body: decompressed.
            reconsume_times: as stored.
            sys_flag: as in the class.
            stored_size: bytes.
            held_size: bytes.
        """
        message = object.__new__(cls)
        keep = object.__setattr__  # it is frozen for all others
        keep(message, "_read", read)
        keep(message, "queue", queue)
        keep(message, "queue_offset", queue_offset)
        keep(message, "body", body)
        keep(message, "reconsume_times", reconsume_times)
        keep(message, "sys_flag", sys_flag)
        keep(message, "stored_size", stored_size)
        keep(message, "held_size", held_size)
        keep(message, "namespace", "")
        return message

    def changed(self, **fields: Any) -> Self:
        """Return the same message with other values of some fields."""
        return replace(self, **fields)

    @property
    def raw_body(self) -> bytes:
        """The body; if it cannot be read, its bytes as they are stored."""
        return self.body

    @property
    def topic(self) -> str:
        """Topic the message was sent to, without the namespace it was consumed in.

        For a retried message the original one.
        """
        topic = self.queue.topic
        return unwrap(self.namespace, first_topic(topic, self.properties.get("RETRY_TOPIC")))

    @property
    def sharding_key(self) -> str | None:
        """Property `__SHARDINGKEY`, or None."""
        return self.properties.get("__SHARDINGKEY")

    @property
    def tags(self) -> str | None:
        """The tag, or None."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """The index keys (property `KEYS` split at spaces)."""
        return tuple(self.properties.get("KEYS", "").split())


@final
class UndecodableMessage(ReceivedMessage):
    """A message whose body cannot be read. Its `body` raises UndecodableBody, all else is there.

    Its sender marked it as compressed and it is not, say. So whoever needs the body fails, clearly
    and with this message only; its key, properties and offset say where it belongs.

    Args:
        stored: the same message with the body as it is stored; its `sys_flag` says how.
        why: for people; shows nothing of the body.
        retriable: True: it can be read once an extra is installed.
    """

    __slots__ = ("retriable", "stored", "why")
    stored: ReceivedMessage
    why: str
    retriable: bool

    def __init__(self, stored: ReceivedMessage, why: str, retriable: bool = False) -> None:
        keep = object.__setattr__  # it is frozen
        keep(self, "_read", _read_stored)
        keep(self, "stored", stored)
        keep(self, "why", why)
        keep(self, "retriable", retriable)

    def changed(self, **fields: Any) -> Self:
        """Return the same message with other values of some fields."""
        return type(self)(self.stored.changed(**fields), self.why, self.retriable)

    @property
    def raw_body(self) -> bytes:
        """The body's bytes as they are stored."""
        return self.stored.body

    def __eq__(self, other: object) -> bool:
        """Equal are equal ones that cannot be read for the same reason."""
        if not isinstance(other, UndecodableMessage):
            return False
        return (self.stored, self.why) == (other.stored, other.why)

    def __hash__(self) -> int:
        """Properties cannot be hashed, so neither can it."""
        return hash(self.stored)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it: worker processes get it, too."""
        return type(self), (self.stored, self.why, self.retriable)

    def __repr__(self) -> str:
        """Show it with the bytes as they are stored."""
        return f"{type(self).__name__}({self.stored!r}, {self.why!r})"


def _read_stored(message: ReceivedMessage, name: str) -> Mapping[str, Any]:
    """Read what `UndecodableMessage` does not have itself."""
    assert isinstance(message, UndecodableMessage), "only its `_read` is this"
    if name == "body":
        place = f"offset {message.queue_offset} of {message.queue}"
        text = f"the body of the message at {place} cannot be read: {message.why}"
        raise UndecodableBody(text, retriable=message.retriable)
    return {name: getattr(message.stored, name)}


@dataclass(frozen=True, slots=True)
class SendResult:
    """The broker's answer about a stored message.

    `status` is "SEND_OK", or "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT" or "SLAVE_NOT_AVAILABLE":
    then the message is stored with weaker durability (codes 10, 12, 11).
    """

    queue: MessageQueue
    queue_offset: int
    message_id: str
    offset_message_id: str
    status: str = "SEND_OK"


class Permission(IntFlag):
    """A queue's permission bits (PermName in Java)."""

    INHERIT = 1
    WRITE = 2
    READ = 4


@dataclass(frozen=True, slots=True)
class QueueData:
    """How many queues of a topic a broker serves, and what may be done with them."""

    broker_name: str
    read_queues: int
    write_queues: int
    permission: Permission
    topic_sys_flag: int = 0


@dataclass(frozen=True, slots=True)
class BrokerData:
    """A broker's addresses ("host:port") by broker id; id 0 is the master."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]

    @property
    def master(self) -> str | None:
        """Address of the master, or None while it is down."""
        return self.addresses.get(0)


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Where a topic's queues live, as a name server gave it."""

    topic: str
    queues: tuple[QueueData, ...]
    brokers: tuple[BrokerData, ...]
    order_conf: str = ""

    def broker(self, broker_name: str) -> BrokerData | None:
        """The broker of that name, or None if the route does not list it."""
        return next((b for b in self.brokers if b.broker_name == broker_name), None)

    def read_queues(self) -> tuple[MessageQueue, ...]:
        """All queues to consume, sorted; also while a master is down (a slave may serve them)."""
        return self._queues(
            (q.broker_name, q.read_queues) for q in self.queues if Permission.READ in q.permission
        )

    def write_queues(self) -> tuple[MessageQueue, ...]:
        """All queues to send to, in the order selectors count them.

        The writable ones of brokers with a master, sorted
        (Java: MQClientInstance.topicRouteData2TopicPublishInfo).
        """
        masters = {b.broker_name: b.master for b in reversed(self.brokers)}
        return self._queues(
            (q.broker_name, q.write_queues)
            for q in self.queues
            if Permission.WRITE in q.permission and masters.get(q.broker_name) is not None
        )

    def _queues(self, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
        return tuple(
            MessageQueue(self.topic, name, queue_id)
            for name, count in sorted(counts)
            for queue_id in range(count)
        )
