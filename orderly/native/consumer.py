"""The consumer over librocketmq: ordered by queue, its handler a native listener."""

from __future__ import annotations

import threading
from typing import NoReturn, Self

from orderly.config import ClientConfig, check_group, check_topic
from orderly.config.arguments import check_count
from orderly.errors import ConfigError, LifecycleError, NativeCallFailed
from orderly.namespace import wrap
from orderly.native.library import (
    CLUSTERING,
    CONSUMING,
    Library,
    Life,
    MessageCallback,
    check_driver,
    connect,
    instance_name,
)
from orderly.native.listeners import DeadLetters, NativeListener, refusal
from orderly.protocol.heartbeat import Subscription


class NativeConsumer:
    """Consumes topics in order, queue by queue, through librocketmq.

        consumer = NativeConsumer("shipping", native.listener(ship), namesrv="localhost:9876")
        with consumer.subscribe("orders"):
            stop.wait()

    A new group begins at the end of its topics: librocketmq has no setting for that. To begin
    elsewhere, set the group's offsets before it starts (`orderly offsets reset`). Thread-safe. The
    consumer ends with the process at the latest.

    Args:
        group: the consumer group.
        listener: what handles the messages; see `orderly.native.listeners`.
        namesrv: "host:port;host:port" of the name servers; wins over the config's.
        config: name servers, namespace and keys; `tls` is refused.
        threads: how many queues are handled side by side, at most.
        library: None: the listener's, because only that library can read its messages.

    Raises:
        ConfigError: a setting outside its range, no name server, not a native listener, or one of
            another library.
        NativeLibraryError: no librocketmq, or one that lacks a call.
        UnsupportedByDriver: `tls`.
    """

    def __init__(
        self,
        group: str,
        listener: NativeListener,
        *,
        namesrv: str = "",
        config: ClientConfig | None = None,
        threads: int = 20,
        library: Library | None = None,
    ) -> None:
        if not isinstance(listener, NativeListener):
            raise ConfigError(
                f"the listener must be made by orderly.native.listeners, not {type(listener)!r}"
            )
        self.group = check_group(group)
        self._config = check_driver(config, namesrv)
        check_count("threads", threads, 1)
        self._threads = threads
        self._library = library or listener.library
        if self._library.path != listener.library.path:
            raise ConfigError(
                f"the listener reads messages of {listener.library.path}, the consumer is of"
                f" {self._library.path}: give both the same library"
            )
        self._library.require(CONSUMING)
        self._dead_letters = DeadLetters(group, config=self._config)
        self._listener = listener.serving(self._dead_letters)
        self._callback = MessageCallback(self._consume)  # kept: the library holds its address
        self._inside = threading.local()
        self._topics: dict[str, str] = {}
        self._handle = 0
        self._life = Life("consumer", self._start, self._end)

    def subscribe(self, topic: str, tags: str = "*") -> Self:
        """Consume a topic, from `start` on.

        Args:
            topic: its name.
            tags: "a || b", or "*" for all.

        Raises:
            ConfigError: a bad name or tag expression.
            LifecycleError: it runs already.
        """
        if self._handle:
            raise LifecycleError("librocketmq takes no topic while it runs: subscribe before start")
        if not isinstance(tags, str) or "\0" in tags:  # C would end the text there
            raise ConfigError(f"tags must be a str such as '*' or 'A || B', not {tags!r}")
        real = check_topic(wrap(self._config.namespace, topic))
        self._topics[real] = Subscription.from_expression(real, tags, 0).expression
        return self

    def start(self) -> Self:
        """Join the group.

        Raises:
            ConfigError: no topic is subscribed.
            LifecycleError: started or closed before.
            NativeCallFailed: librocketmq did not start.
        """
        if not self._topics:
            raise ConfigError("subscribe to a topic before start")
        self._life.begin()
        return self

    def close(self) -> None:
        """Wait for the messages that are being handled, then leave the group. Idempotent.

        Raises:
            LifecycleError: called by the listener's function, which would wait for itself.
        """
        if getattr(self._inside, "handling", False):
            raise LifecycleError(
                "the listener's function cannot close its own consumer: close it from another"
                " thread"
            )
        self._life.finish()
        self._dead_letters.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # --- what librocketmq has no call for ------------------------------------------------------

    def pause(self, *_queues: object) -> NoReturn:
        """Raise UnsupportedByDriver: OrderlyConsumer can."""
        raise refusal("pausing queues")

    def seek(self, *_queue_and_position: object) -> NoReturn:
        """Raise UnsupportedByDriver: OrderlyConsumer can."""
        raise refusal("setting offsets")

    def suspend(self, *_seconds: object) -> NoReturn:
        """Raise UnsupportedByDriver: a handler of OrderlyConsumer can."""
        raise refusal("suspending a message for some seconds")

    def commit(self) -> NoReturn:
        """Raise UnsupportedByDriver: a handler of OrderlyConsumer can."""
        raise refusal("manual commit")

    def rollback(self) -> NoReturn:
        """Raise UnsupportedByDriver: a handler of OrderlyConsumer can."""
        raise refusal("rollback")

    def parked(self) -> NoReturn:
        """Raise UnsupportedByDriver: OrderlyConsumer can."""
        raise refusal("parking a key")

    def backlog(self) -> NoReturn:
        """Raise UnsupportedByDriver; `orderly backlog` measures this group as any other."""
        raise refusal("counting a backlog (`orderly backlog` measures any group's)")

    # --------------------------------------------------------------------------------------------

    def _consume(self, _consumer: int, message: int) -> int:
        self._inside.handling = True
        try:
            return self._listener(message)
        finally:
            self._inside.handling = False

    def _start(self) -> None:
        library = self._library
        self._handle = library["CreatePushConsumer"](self._dead_letters.group.encode())
        if not self._handle:
            raise NativeCallFailed("CreatePushConsumer returned no consumer: is memory short?")
        try:
            connect(library, "PushConsumer", self._handle, self._config, instance_name())
            library.do("SetPushConsumerThreadCount", self._handle, self._threads)
            library.do("SetPushConsumerMessageModel", self._handle, CLUSTERING)
            for topic, tags in self._topics.items():
                library.do("Subscribe", self._handle, topic.encode(), tags.encode())
            library.do("RegisterMessageCallbackOrderly", self._handle, self._callback)
            library.do("StartPushConsumer", self._handle)
        except BaseException:  # a Ctrl-C too, which comes when it has started
            self._end()
            self._handle = 0
            raise

    def _end(self) -> None:
        self._library["ShutdownPushConsumer"](self._handle)
        self._library["DestroyPushConsumer"](self._handle)
