"""Every error `orderly` raises, in one tree.

    OrderlyError
    ├── ConfigError (ValueError)        a setting or an argument is wrong; nothing was sent
    │   └── InvalidMessage              a message the broker would refuse, drop or cut
    ├── NotAvailableYet                 a feature that this release does not have
    ├── LifecycleError                  start/close in the wrong order, the same group twice
    ├── ProtocolError                   bytes from a peer that break the wire format
    │   └── UndecodableBody             one message's body cannot be read; the rest of it can
    ├── RemotingError                   no answer: the connection, not the broker, failed
    │   ├── ConnectFailed
    │   ├── ConnectionLost
    │   ├── RequestTimeout
    │   ├── ReplyTooLarge               it answered with more than `max_frame` allows
    │   └── NameServerUnavailable       no name server of the list answered
    ├── BrokerError                     the broker answered with an error (code, remark, address)
    │   ├── BrokerBusy                  flow control: the request was not executed
    │   ├── BrokerUnavailable           shutting down; the request was not executed
    │   ├── TopicNotFound
    │   ├── GroupNotFound
    │   ├── NoPermission
    │   ├── NotAtProxy                  only brokers and name servers answer this
    │   └── OffsetNotFound              "none stored": the only reply that means it
    ├── RouteError                      a topic with no queue to write to or read from
    │   └── LayoutChanged               strict layout: the route differs from the pin
    ├── SendFailed                      a message that was not acknowledged; see its cause
    │   └── PrecedingSendFailed         held back behind a failed send of the same key
    ├── LockLost                        this member no longer has the queue; another may have it
    ├── QueueRecreated                  the last applied message is of a queue that was deleted
    ├── DataLost                        messages to be read are no longer at the broker
    ├── WorkerDied                      a worker process ended before it answered
    ├── HandlerHung (TimeoutError)      a handler ran over handler_timeout and was stopped
    ├── NotPicklable                    a value that cannot pass between worker processes
    ├── OffsetFileError                 the offset file of a broadcasting consumer
    ├── NativeLibraryError              librocketmq: not found, not loadable, or too old
    ├── NativeCallFailed                a call of librocketmq that did not succeed
    ├── UnsupportedByDriver             what librocketmq cannot do, and the class that can
    └── EmbeddedBrokerError             the local broker: Java, jars, ports, start

Each error has two flags, so that a loop can ask the error instead of checking a list of types:
`retriable` (the same request can succeed later, unchanged) and `refresh_route` (the cached
route can be stale). Every message says what to do next; `__cause__` keeps what led to it.
"""

from __future__ import annotations


class OrderlyError(Exception):
    """Root of the tree. `retriable` and `refresh_route` are class attributes."""

    retriable: bool = False
    refresh_route: bool = False


class ConfigError(OrderlyError, ValueError):
    """A setting or an argument is wrong. Raised before anything is sent."""


class InvalidMessage(ConfigError):
    """A message the broker would refuse, drop or cut. Raised before anything is sent."""


class NotAvailableYet(OrderlyError, NotImplementedError):
    """A feature that this release does not have; the text names the alternative."""


class LifecycleError(OrderlyError, RuntimeError):
    """A call that does not fit the object's state: started twice, used after close."""


class ProtocolError(OrderlyError):
    """Bytes from a peer that break the wire format or exceed one of this library's limits."""


class UndecodableBody(ProtocolError):
    """A message's body cannot be read. Retrying does not help: the sender must send it again.

    Attributes: retriable (True: it can be read where an extra is installed).
    """

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class RemotingError(OrderlyError):
    """No usable answer came.

    Whether the request was executed is unknown unless a subclass says so.
    """

    retriable = True
    refresh_route = True

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class ConnectFailed(RemotingError):
    """The connection could not be opened; the request was not sent."""


class ConnectionLost(RemotingError):
    """The connection ended with the request unanswered."""


class RequestTimeout(RemotingError, TimeoutError):
    """No reply within the time-out; the broker may still execute the request."""


class ReplyTooLarge(RemotingError):
    """The request was executed, but its reply was dropped: it is larger than `max_frame`.

    Attributes: size (bytes of the reply).
    """

    retriable = False
    refresh_route = False

    def __init__(self, message: str, address: str = "", *, size: int = 0) -> None:
        super().__init__(message, address)
        self.size = size


class NameServerUnavailable(RemotingError):
    """No name server of the list answered; `__cause__` is the last failure."""


class BrokerError(OrderlyError):
    """The peer answered with an error code.

    Attributes: code (response code), remark (the peer's text, "" if none), address.
    """

    def __init__(self, message: str, *, code: int = 0, remark: str = "", address: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.remark = remark
        self.address = address


class BrokerBusy(BrokerError):
    """Flow control (codes 2 and 215): the request was not executed; try again later."""

    retriable = True


class BrokerUnavailable(BrokerError):
    """The peer is shutting down or not in service (codes 14 and 1500); not executed."""

    retriable = True
    refresh_route = True


class TopicNotFound(BrokerError):
    """The server does not know the topic (code 17)."""

    refresh_route = True


class GroupNotFound(BrokerError):
    """The server does not know the consumer group (code 26)."""


class NoPermission(BrokerError):
    """The broker or the topic does not permit it (code 16)."""

    refresh_route = True


class NotAtProxy(BrokerError):
    """A proxy does not know this request (code 3): name the cluster's name servers in its place."""


class OffsetNotFound(BrokerError):
    """No offset is stored for this group and queue (code 22)."""


class RouteError(OrderlyError):
    """The topic's route has no usable queue: none is writable, or none is readable."""

    refresh_route = True


class LayoutChanged(RouteError):
    """Strict layout: the route's queues differ from the pinned ones; sending would move keys."""


class SendFailed(OrderlyError):
    """A message that was not acknowledged; `__cause__` says why.

    If the cause is a time-out or a lost connection, it can be stored nevertheless.
    """


class PrecedingSendFailed(SendFailed):
    """Not sent: an earlier message of the same key failed. Call `producer.resume(key)` to go on."""


class LockLost(OrderlyError):
    """This member no longer has the queue: stop, another member can be working on the same key."""


class QueueRecreated(OrderlyError):
    """A newer message has a lower offset than the last one applied: the queue was recreated."""


class DataLost(OrderlyError):
    """Messages that a pipeline should read are no longer at the broker."""


class WorkerDied(OrderlyError):
    """A worker process ended before its handler answered; what it had not named done comes again.

    Attributes: exit_code (below 0: a signal's number; None: unknown), offset (of the first message
        that was not named done).
    """

    def __init__(
        self, message: str, *, exit_code: int | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.exit_code = exit_code
        self.offset = offset


class HandlerHung(OrderlyError, TimeoutError):
    """A handler ran longer than `handler_timeout` and was stopped; its messages come again."""


class NotPicklable(OrderlyError):
    """A value or an error that cannot pass between a consumer and its worker process."""


class OffsetFileError(OrderlyError):
    """The offset file of a broadcasting consumer cannot be read or written; see its cause."""


class NativeLibraryError(OrderlyError):
    """librocketmq is not found, cannot be loaded, or lacks a call; the text says which."""


class NativeCallFailed(OrderlyError):
    """A call of librocketmq did not succeed.

    Attributes: code (its status; -1: it gave none).
    """

    def __init__(self, message: str, *, code: int = -1) -> None:
        super().__init__(message)
        self.code = code


class UnsupportedByDriver(OrderlyError, NotImplementedError):
    """What the native driver cannot do; the text names the class that can."""


class EmbeddedBrokerError(OrderlyError):
    """The embedded broker could not be prepared, started or reached; the text says what to do."""
