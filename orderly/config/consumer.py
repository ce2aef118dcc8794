"""Settings of the ordered consumer. Names and defaults follow Java's DefaultMQPushConsumer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from orderly.config.arguments import (
    MAX_LANE_SUSPEND,
    MAX_SUSPEND,
    MIN_SUSPEND,
    check_count,
    is_number,
)
from orderly.config.fields import MIB, FromEnv, check_types, require
from orderly.config.positions import parse_consume_from

_MOST_KEYS = 10_000  # all of them, with the longest names, fit into one queue's state record
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ParkLimits:
    """Limits for parked messages.

    Each member limits every queue to its share: the limit divided by the topic's queues.

    Args:
        keys: parked at once, of a group and topic; 1 to 10 000.
        messages: parked at once.
        size: bytes parked at once.
        ratio: in five minutes a member parks at most this part of the keys that it saw, but five
            keys in any case. So after a bad deploy the queues wait instead of parking everything.
            Above 0, up to 1; 1: no such limit.

    Raises:
        ConfigError: an invalid limit.
    """

    keys: int = 1000
    messages: int = 100_000
    size: int = _GIB
    ratio: float = 0.5

    def __post_init__(self) -> None:
        for name in ("keys", "messages", "size"):
            check_count(f"ParkLimits' {name}", getattr(self, name), 1)
        require(self.keys <= _MOST_KEYS, f"ParkLimits' keys must be at most {_MOST_KEYS}")
        require(
            is_number(self.ratio, 0, 1) and self.ratio > 0,
            f"ParkLimits' ratio must be above 0 and at most 1, not {self.ratio!r}",
        )

    def share(self, queues: int) -> ParkLimits:
        """Return what one of a topic's `queues` may park; rounded up."""
        return replace(
            self,
            keys=-(-self.keys // queues),
            messages=-(-self.messages // queues),
            size=-(-self.size // queues),
        )


# --- the settings ---------------------------------------------------------------------------------


BROKER_LEASE = 60.0  # seconds after which a broker frees a lock (Java: RebalanceLockManager)
_MAX_LOCK_TRUST = BROKER_LEASE - 10.0
_INSTANCE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_RECONSUME = 2**31 - 2  # the count and one more travel as a signed 32-bit integer
_BY_KEY_ONLY = {
    "max_rate_per_key": None,
    "max_suspend": 60.0,
    "max_span": 1_000_000,
    "create_state_topics": True,
    "parking": ParkLimits(),
}
_POSITIVE = ("pull_retry", "rebalance_interval", "lock_interval", "commit_interval")


@dataclass(frozen=True, slots=True)
class ConsumerConfig(FromEnv):
    """How ordered messages are consumed.

    With order="queue", settings that are only for order="key" must have their default.

    Attributes:
        consume_from: where a group starts that has no stored offset in any queue of the topic:
            "last" (as Java), "first", or an ISO 8601 time (Java's yyyyMMddHHmmss, local time, is
            understood). In any other group a queue without an offset starts with its first message.
        order: "queue": one message of a queue at a time, as in Java. "key": one message of a key at
            a time, and the keys of a queue in parallel; a failing key holds back no other. A key
            function (`OrderlyConsumer(key=)`) runs on the thread that reads all replies of a
            broker, so it must be pure, take microseconds and never ask a broker.
        concurrency: handler calls at once: threads (idle ones end after 60 s), coroutines of an
            `async def` handler, or worker processes. Each key, or with order="queue" each queue,
            has one at a time.
        min_workers: threads that do not end when idle.
        executor: "thread", or "process": each thread has a worker process for its calls, for
            handlers that compute. Then the handler must be an importable function, and calls that
            still run at the end of close_timeout are killed.
        batch_size: messages per handler call; with order="key" all of one key (fewer after the key
            fell behind: bodies come back `pull_batch` at a time).
        max_rate: messages a second for which the handler is called, for all queues together (1/3600
            or more); at most a tenth of a second's worth at once. None: no limit. No thread sleeps
            for it, no attempt is counted, and queues go on in the order in which they began to
            wait.
        max_rate_per_key: with order="key", the same for each key: the call with its next message
            begins no earlier than 1 / max_rate_per_key seconds after the previous call began.
            Messages of parked keys that are released count for both rates. What is parked instead
            of handled counts for neither, and neither holds back an operator's command.
        suspend: seconds that a queue waits after SUSPEND, 0.01 to 30. With order="key": how long a
            key waits after its first failure; it doubles with each further failure, and the actual
            wait is a random part, half of it to all.
        max_suspend: with order="key" the longest such wait, up to 3600 seconds.
        max_span: with order="key", how far (in offsets) a queue is consumed ahead of its lowest
            unfinished message. At that distance it waits for that message's key.
        create_state_topics: with order="key", create the topics that remember messages finished
            ahead, and the topics of parked keys (one each per group and topic). False: they must
            exist.
        max_reconsume_times: after this many failures of a message the next failure sends it to the
            group's dead letters (`%DLQ%<group>`). A Suspend counts, too, as in Java. Counted in
            memory, so it starts over after a rebalance. None: the message is retried until it
            succeeds (Java: -1).
        on_expiring: what to do with a message that still fails when three quarters of the broker's
            retention are over, so that the broker will soon delete it. "park": with order="key" its
            key is parked, and kept; with order="queue" as "block". "dead_letter": it is stored as a
            dead letter, and the queue goes on. "block": nothing; the message is then lost
            unhandled.
        retention: seconds for which the brokers keep messages (fileReservedTime), if they do not
            say so themselves, as behind a proxy. Parked messages are stored again, and old messages
            are warned of, before this time is over. None: 24 hours behind a proxy, else 72.
        parking: with order="key", how much the group can park; at a limit a key blocks instead.
        consume_timeout: seconds after which a handler call counts as TIME_OUT in the statistics
            (Java: 15 min). While a call runs longer, `health().live` is False and the probe's /live
            answers 503, so an orchestrator that watches it ends the process. The call itself is not
            stopped; use handler_timeout for that.
        handler_timeout: seconds after which a handler call counts as hanging. There is an error
            event "handler.hung" with its stack, once and at each doubling; `explain` says HUNG, and
            `health().live` is False. A worker process is then killed (the time includes its start),
            a coroutine cancelled; both count as failed deliveries. None: no call counts as hanging.
        on_hang: what to do about a hanging thread, and about a coroutine that still runs after
            twice the time. "block": nothing more. "exit": the event "process.exits", and the
            process ends at once with exit code 70; use it if something restarts the process. Its
            queues are free after 60 s, and its unfinished messages come again; it counts as a
            crash.
        pull_batch: messages requested by one pull (the broker caps it at 32).
        pull_threshold, pull_threshold_bytes: cached messages, and their bytes of memory, per queue
            at which pulling pauses. Bodies count unpacked, and each message adds 2 KiB. A queue can
            exceed the limit by the packed size of one pull, and one unpacked body. By key, keys of
            more than 256 bytes that wait can take as much once more.
        pull_threshold_topic, pull_threshold_topic_bytes: the same for a topic, split over the
            queues held of it. They replace the limits per queue. None: no such limit.
        pull_retry: seconds before a failed or refused pull is tried again.
        rebalance_interval, lock_interval, commit_interval: seconds between rounds.
        lock_trust: seconds after which this member no longer trusts a lock that was not renewed; at
            most 50 (the broker frees it after 60). If messages wait, there is room for them, and no
            handler call begins for as long, this member gives its queues up (event
            "engine.stands").
        handover_timeout: seconds for which a queue that goes to another member waits for a running
            handler before the log names that handler. The offset is saved then, and the queue stays
            locked. Never longer than lock_trust.
        force_unlock_after: seconds after which such a queue is unlocked while its handler still
            runs, as Java does after 20. The next member then overlaps with that handler, so use it
            only for handlers that are guarded by `context.token`. None: never.
        close_timeout: seconds that `close` waits for running handlers. Keep it well below the time
            after which your orchestrator kills the process (Kubernetes: 30 s). A handler that runs
            longer keeps its queue locked until it returns, or until 60 s after the process has
            ended. If it never returns, it keeps the queue as long as the process lives. In worker
            processes (`executor`) it is killed instead, and keeps nothing locked.
        model: "clustering" (members share the queues), or "broadcasting" (each member gets every
            queue; no locks; offsets in a local file).
        instance: broadcasting: a stable name of this member, under which it finds its offsets after
            a restart. 1-64 characters of `A-Za-z0-9_.-`; only one process at a time may use it.
        offsets_folder: broadcasting: where the offset files are; "~" is understood.
        require_ordered_group: on a topic of message type FIFO, refuse to start in a group that a
            broker does not know as ordered. gRPC members of such a group would get messages of one
            key in parallel, and ignore queue locks. Set it to False if no gRPC client is ever in
            the group.
        allow_direct_consume: let administrators run a message here by hand (`mqadmin
            queryMsgByUniqueKey` with -g and -d); it then runs between two batches of its queue.
        allow_thread_dump: include the stacks of all threads when an administrator asks for them
            (`mqadmin consumerStatus -s`).
        java_compat: ROLLBACK under auto-commit acknowledges, as in the Java client, instead of
            suspending. Both cases log a warning.
        skip_repeats: leave repeated sends out: a copy of a message that stands behind it in its
            queue, because its producer got no answer and sent it again (event
            "message.repeat_skipped"). Only those of this library's producers are known. False: the
            handler gets all that the broker stored.
    """

    consume_from: str = "last"
    order: Literal["queue", "key"] = "queue"
    concurrency: int = 20
    min_workers: int = 1
    executor: Literal["thread", "process"] = "thread"
    batch_size: int = 1
    max_rate: float | None = None
    max_rate_per_key: float | None = None
    suspend: float = 1.0
    max_suspend: float = 60.0
    max_span: int = 1_000_000
    create_state_topics: bool = True
    max_reconsume_times: int | None = None
    on_expiring: Literal["park", "dead_letter", "block"] = "park"
    retention: float | None = None
    parking: ParkLimits = field(default_factory=ParkLimits)
    consume_timeout: float = 900.0
    handler_timeout: float | None = None
    on_hang: Literal["block", "exit"] = "block"
    pull_batch: int = 32
    pull_threshold: int = 1000
    pull_threshold_bytes: int = 100 * MIB
    pull_threshold_topic: int | None = None
    pull_threshold_topic_bytes: int | None = None
    pull_retry: float = 3.0
    rebalance_interval: float = 20.0
    lock_interval: float = 20.0
    lock_trust: float = 30.0
    commit_interval: float = 5.0
    handover_timeout: float = 20.0
    force_unlock_after: float | None = None
    close_timeout: float = 20.0
    model: Literal["clustering", "broadcasting"] = "clustering"
    instance: str = ""
    offsets_folder: str = "~/.orderly/offsets"
    require_ordered_group: bool = True
    allow_direct_consume: bool = False
    allow_thread_dump: bool = False
    java_compat: bool = False
    skip_repeats: bool = True

    def __post_init__(self) -> None:
        parse_consume_from(self.consume_from)
        check_types(self)
        self._check_model()
        self._check_handling()
        self._check_pulling()
        self._check_rounds()

    @property
    def broadcasting(self) -> bool:
        """Whether each member gets every queue."""
        return self.model == "broadcasting"

    @property
    def by_key(self) -> bool:
        """Whether the unit of order is the key."""
        return self.order == "key"

    @property
    def spacing(self) -> float:
        """Seconds between the beginnings of two messages of a key; 0: any."""
        return 0.0 if self.max_rate_per_key is None else 1 / self.max_rate_per_key

    @property
    def longest_suspend(self) -> float:
        """Seconds a handler may ask to wait at most."""
        return MAX_LANE_SUSPEND if self.by_key else MAX_SUSPEND

    def _check_model(self) -> None:
        if self.broadcasting:
            require(
                _INSTANCE.fullmatch(self.instance) is not None,
                "model='broadcasting' needs instance, a stable name of this member such as"
                " 'cache-1' (1-64 characters of A-Za-z0-9_.-): its offset file is found by it",
            )
        else:
            require(not self.instance, "instance is for model='broadcasting' only")

    def _check_handling(self) -> None:
        require(
            isinstance(self.parking, ParkLimits),
            f"parking must be a ParkLimits, not {self.parking!r}",
        )
        for name, usual in _BY_KEY_ONLY.items():
            require(
                self.by_key or getattr(self, name) == usual,
                f"{name} has no effect with order='queue': pass order='key', or leave it out",
            )
        require(
            not self.broadcasting or self.parking == ParkLimits(),
            "parking has no effect with model='broadcasting', which parks no key: leave it out",
        )
        require(1 <= self.batch_size <= 1024, "batch_size must be 1 to 1024 messages")
        for name in ("max_rate", "max_rate_per_key"):
            rate = getattr(self, name)
            require(
                rate is None or rate * MAX_LANE_SUSPEND >= 1,
                f"{name} must be one message an hour (1/3600) or more, or None for no limit",
            )
        require(
            MIN_SUSPEND <= self.suspend <= MAX_SUSPEND,
            f"suspend must be {MIN_SUSPEND} to {MAX_SUSPEND:g} seconds",
        )
        require(
            not self.by_key or self.suspend <= self.max_suspend <= MAX_LANE_SUSPEND,
            f"max_suspend must be from suspend ({self.suspend:g}) to {MAX_LANE_SUSPEND:g} seconds",
        )
        require(self.max_span >= 1, "max_span must be 1 offset or more")
        require(1 <= self.min_workers <= self.concurrency, "need 1 <= min_workers <= concurrency")
        require(self.consume_timeout > 0, "consume_timeout must be more than 0 seconds")
        self._check_hanging()
        require(self.handover_timeout > 0, "handover_timeout must be more than 0 seconds")
        require(
            self.force_unlock_after is None or self.force_unlock_after > 0,
            "force_unlock_after must be more than 0 seconds, or None for never",
        )
        require(self.close_timeout >= 0, "close_timeout must be 0 seconds or more")
        limit = self.max_reconsume_times
        require(
            limit is None or 0 <= limit <= _MAX_RECONSUME,
            f"max_reconsume_times must be 0 to {_MAX_RECONSUME}, or None to retry for ever",
        )

    def _check_hanging(self) -> None:
        limit = self.handler_timeout
        require(limit is None or limit > 0, "handler_timeout must be more than 0 seconds, or None")
        if self.on_hang == "exit":
            require(limit is not None, "on_hang='exit' needs handler_timeout, in seconds")
            require(
                self.executor == "thread",
                "with executor='process' the process that hangs is killed alone: leave on_hang out",
            )

    def _check_pulling(self) -> None:
        require(1 <= self.pull_batch <= 1024, "pull_batch must be 1 to 1024 messages")
        require(self.pull_threshold > 0, "pull_threshold must be 1 message or more")
        require(self.pull_threshold_bytes > 0, "pull_threshold_bytes must be 1 byte or more")
        for name in ("pull_threshold_topic", "pull_threshold_topic_bytes"):
            value = getattr(self, name)
            require(value is None or value > 0, f"{name} must be 1 or more, or None for no limit")

    def _check_rounds(self) -> None:
        for name in _POSITIVE:
            require(getattr(self, name) > 0, f"{name} must be more than 0 seconds")
        require(
            self.retention is None or self.retention > 0,
            "retention must be more than 0 seconds, or None",
        )
        require(
            self.lock_interval < self.lock_trust,
            "lock_interval must be shorter than lock_trust, or every lock expires between renewals",
        )
        require(
            self.lock_trust <= _MAX_LOCK_TRUST,
            f"lock_trust must be at most {_MAX_LOCK_TRUST:g} seconds: the broker gives a lock that"
            f" is not renewed to another member after {BROKER_LEASE:g}",
        )
