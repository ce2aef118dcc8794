"""The values that all other modules use: messages, queues, routes. Frozen, comparable, no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import Field, dataclass, fields, make_dataclass, replace
from enum import IntFlag
from typing import Any, ClassVar, Protocol, Self, final

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


class Unread(Protocol):
    """Reads what a pull brought of a message and nobody looked at yet."""

    def properties(self, data: bytes) -> dict[str, str]:
        """Read the properties."""

    def sharding_key(self, data: bytes) -> str | None:
        """Read the sharding key of the properties."""

    def rest(self, data: bytes) -> Rest:
        """Read the rest of the head."""


# offset_message_id, born_time, store_time, born_host, store_host, flag, physical_offset
Rest = tuple[str, float, float, str, str, int, int]

_NAMES = (
    "queue",
    "queue_offset",
    "body",
    "properties",
    "message_id",
    "offset_message_id",
    "born_time",
    "store_time",
    "born_host",
    "store_host",
    "reconsume_times",
    "flag",
    "sys_flag",
    "physical_offset",
    "stored_size",
    "namespace",
    "held_size",
)


class ReceivedMessage:
    """A message as the broker stored it. Like a frozen dataclass, `dataclasses.replace` included.

    Times are seconds since the epoch, by the clock of the host that wrote them. `queue_offset` is
    authoritative: filtered pulls have gaps. `message_id` is the sender's id (UNIQ_KEY), which stays
    the same in retries and dead letters; `offset_message_id` names the stored copy. `stored_size`
    is the number of bytes at the broker. `held_size` is about the memory that the message takes in
    this process, with its body unpacked and all fields used (0: no orderly consumer pulled it).
    """

    # Most handlers look at the body, and at nothing else: what a pull brought besides is kept as
    # bytes until somebody does. Two threads that read it at once write the same.
    __slots__ = (
        "_body",
        "_head",
        "_held_size",
        "_message_id",
        "_namespace",
        "_properties",
        "_queue",
        "_queue_offset",
        "_reconsume_times",
        "_rest",
        "_stored_size",
        "_sys_flag",
        "_text",
        "_unread",
    )
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]] = {
        field.name: field for field in fields(make_dataclass("_", _NAMES))
    }

    def __init__(  # noqa: PLR0917 - as the order has been since it was a dataclass
        self,
        queue: MessageQueue,
        queue_offset: int,
        body: bytes,
        properties: Mapping[str, str],
        message_id: str,
        offset_message_id: str,
        born_time: float,
        store_time: float,
        born_host: str,
        store_host: str,
        reconsume_times: int,
        flag: int,
        sys_flag: int,
        physical_offset: int,
        stored_size: int,
        namespace: str = "",
        held_size: int = 0,
    ) -> None:
        self._queue = queue
        self._queue_offset = queue_offset
        self._body = body
        self._reconsume_times = reconsume_times
        self._sys_flag = sys_flag
        self._stored_size = stored_size
        self._held_size = held_size
        self._namespace = namespace
        self._unread: Unread | None = None
        self._head = self._text = b""
        self._properties: Mapping[str, str] | None = properties
        self._message_id: str | None = message_id
        self._rest: Rest | None = (
            offset_message_id, born_time, store_time, born_host, store_host, flag, physical_offset,
        )  # fmt: skip

    @classmethod
    def read_late(  # noqa: PLR0917 - by place, since it is called for each message
        cls,
        unread: Unread,
        head: bytes,
        text: bytes,
        queue: MessageQueue,
        queue_offset: int,
        body: bytes,
        reconsume_times: int,
        sys_flag: int,
        stored_size: int,
        held_size: int,
    ) -> Self:
        """Make a message of which only these fields are read so far.

        Args:
            unread: reads the others from `head` and `text`.
            head: bytes.
            text: bytes, of the properties.
            queue: this field and the next ones are known already.
            queue_offset: as in the class.
            body: decompressed.
            reconsume_times: as stored.
            sys_flag: as in the class.
            stored_size: bytes.
            held_size: bytes.
        """
        self = cls.__new__(cls)
        self._queue = queue
        self._queue_offset = queue_offset
        self._body = body
        self._reconsume_times = reconsume_times
        self._sys_flag = sys_flag
        self._stored_size = stored_size
        self._held_size = held_size
        self._namespace = ""
        self._unread = unread
        self._head = head
        self._text = text
        self._properties = self._message_id = self._rest = None
        return self

    def _read_rest(self) -> Rest:
        rest = self._rest
        if rest is None:
            assert self._unread is not None, "it was given, or is to be read"
            rest = self._rest = self._unread.rest(self._head)
        return rest

    @property
    def queue(self) -> MessageQueue:
        """The queue it was pulled from."""
        return self._queue

    @property
    def queue_offset(self) -> int:
        """Its place in the queue."""
        return self._queue_offset

    @property
    def body(self) -> bytes:
        """The payload from the sender, unpacked."""
        return self._body

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that the sender, its client and the broker set."""
        found = self._properties
        if found is None:
            assert self._unread is not None, "it was given, or is to be read"
            found = self._properties = self._unread.properties(self._text)
        return found

    @property
    def message_id(self) -> str:
        """The sender's id (UNIQ_KEY), or `offset_message_id` if the sender gave none."""
        found = self._message_id
        if found is None:
            found = self.properties.get("UNIQ_KEY") or self.offset_message_id
            self._message_id = found
        return found

    @property
    def offset_message_id(self) -> str:
        """Names the stored copy."""
        return self._read_rest()[0]

    @property
    def born_time(self) -> float:
        """When the message was created (seconds since the epoch)."""
        return self._read_rest()[1]

    @property
    def store_time(self) -> float:
        """When the broker stored it (seconds since the epoch)."""
        return self._read_rest()[2]

    @property
    def born_host(self) -> str:
        """The address of the sender ("host:port")."""
        return self._read_rest()[3]

    @property
    def store_host(self) -> str:
        """The address of the broker that stored it ("host:port")."""
        return self._read_rest()[4]

    @property
    def reconsume_times(self) -> int:
        """How often it was tried before."""
        return self._reconsume_times

    @property
    def flag(self) -> int:
        """The sender's own number."""
        return self._read_rest()[5]

    @property
    def sys_flag(self) -> int:
        """Bits that say how it is stored."""
        return self._sys_flag

    @property
    def physical_offset(self) -> int:
        """Its place in the broker's log."""
        return self._read_rest()[6]

    @property
    def stored_size(self) -> int:
        """Bytes at the broker."""
        return self._stored_size

    @property
    def namespace(self) -> str:
        """The namespace in which it was consumed, or ""."""
        return self._namespace

    @property
    def held_size(self) -> int:
        """About the bytes of memory that it takes here."""
        return self._held_size

    def changed(self, **fields: Any) -> Self:
        """Return the same message with other values of some fields."""
        return replace(self, **fields)

    def _values(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in _NAMES])

    def __eq__(self, other: object) -> bool:
        """All fields count but `held_size`."""
        if other.__class__ is not self.__class__ or not isinstance(other, ReceivedMessage):
            return NotImplemented
        return self._values()[:-1] == other._values()[:-1]

    def __hash__(self) -> int:
        """Properties cannot be hashed, most often; then neither can it."""
        return hash(self._values()[:-1])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it: worker processes get it, too."""
        return type(self), self._values()

    def __repr__(self) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in _NAMES[:-1]])
        return f"{type(self).__name__}({shown})"

    @property
    def raw_body(self) -> bytes:
        """The body; if it cannot be read, its bytes as they are stored."""
        return self._body

    @property
    def topic(self) -> str:
        """The topic to which the message was sent, without the consumer's namespace.

        For a retried message the original topic.
        """
        topic = self.queue.topic
        return unwrap(self.namespace, first_topic(topic, self.properties.get("RETRY_TOPIC")))

    @property
    def sharding_key(self) -> str | None:
        """Property `__SHARDINGKEY`, or None."""
        if self._properties is None and self._unread is not None:
            return self._unread.sharding_key(self._text)
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
    """A message whose body cannot be read. `body` raises UndecodableBody; all else can be read.

    For example, the sender marked the body as compressed, but it is not. Only code that reads this
    body fails, with a clear error. The key, the properties and the offset say where it belongs.

    Args:
        stored: the same message with the body as it is stored; its `sys_flag` says how.
        why: for people; shows nothing of the body.
        retriable: True: it can be read once an extra is installed.
    """

    __slots__ = ("_retriable", "_stored", "_why")

    def __init__(self, stored: ReceivedMessage, why: str, retriable: bool = False) -> None:
        super().__init__(**{name: getattr(stored, name) for name in _NAMES})
        self._stored = stored
        self._why = why
        self._retriable = retriable

    @property
    def stored(self) -> ReceivedMessage:
        """The same message with the body as it is stored."""
        return self._stored

    @property
    def why(self) -> str:
        """Why it cannot be read, for people."""
        return self._why

    @property
    def retriable(self) -> bool:
        """True: it can be read once an extra is installed."""
        return self._retriable

    @property
    def body(self) -> bytes:
        """Raises UndecodableBody."""
        place = f"offset {self.queue_offset} of {self.queue}"
        text = f"the body of the message at {place} cannot be read: {self.why}"
        raise UndecodableBody(text, retriable=self.retriable)

    def changed(self, **fields: Any) -> Self:
        """Return the same message with other values of some fields."""
        return type(self)(self.stored.changed(**fields), self.why, self.retriable)

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
    """How many queues of a topic a broker serves, and the permission of these queues."""

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
    """The brokers and queues of a topic, as a name server reports them."""

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
