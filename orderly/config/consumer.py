"""Settings of the ordered consumer. Names and defaults follow Java's DefaultMQPushConsumer."""

from __future__ import annotations

import re
from dataclasses import dataclass

from orderly.config.fields import MIB, FromEnv, check_types, require
from orderly.config.positions import parse_consume_from
from orderly.errors import NotAvailableYet

BROKER_LEASE = 60.0  # seconds after which a broker frees a lock (Java: RebalanceLockManager)
_MAX_LOCK_TRUST = BROKER_LEASE - 10.0
_INSTANCE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_RECONSUME = 2**31 - 2  # the count and one more travel as a signed 32-bit integer
_POSITIVE = ("pull_retry", "rebalance_interval", "lock_interval", "commit_interval")


@dataclass(frozen=True, slots=True)
class ConsumerConfig(FromEnv):
    """How ordered messages are consumed.

    Attributes:
        consume_from: where a group without a stored offset starts: "last" (as Java), "first", or
            an ISO 8601 time (Java's yyyyMMddHHmmss, local time, is understood).
        batch_size: messages handed to the handler at once.
        suspend: seconds a queue waits after SUSPEND, 0.01 to 30.
        max_reconsume_times: failures of a message after which the next one sends it to the
            group's dead letters (`%DLQ%<group>`); counted in memory, so a rebalance begins anew.
            None: it is retried until it succeeds (Java: -1).
        consume_timeout: seconds after which a handler's call counts as TIME_OUT in the
            statistics; nothing else happens (Java: 15 min).
        min_workers, max_workers: threads that run handlers; idle ones end after 60 s.
        pull_batch: messages asked for in one pull (the broker caps it at 32).
        pull_threshold, pull_threshold_bytes: cached messages and bytes per queue at which
            pulling pauses.
        pull_threshold_topic, pull_threshold_topic_bytes: the same for a topic, split over the
            queues held of it; they replace the limits per queue. None: no such limit.
        pull_retry: seconds before a pull that failed, or was not allowed, is tried again.
        rebalance_interval, lock_interval, commit_interval: seconds between rounds.
        lock_trust: seconds after which a lock not renewed is no longer trusted here; at most 50
            (the broker frees it after 60).
        close_timeout: seconds `close` waits for running handlers.
        model: "clustering" (members share the queues), or "broadcasting" (each member gets every
            queue; no locks; offsets in a local file).
        instance: broadcasting: a stable name of this member, which finds its offsets again after
            a restart. 1-64 characters of `A-Za-z0-9_.-`; one process at a time may use it.
        offsets_folder: broadcasting: where the offset files are; "~" is understood.
        allow_direct_consume: let administrators have a message consumed here by hand (`mqadmin
            queryMsgByUniqueKey` with -g and -d); it then runs between two batches of its queue.
        allow_thread_dump: include the stacks of all threads when an administrator asks for them
            (`mqadmin consumerStatus -s`).
        java_compat: ROLLBACK under auto-commit acknowledges, as the Java client does, instead of
            suspending. With a warning in both cases.
        order: "queue". "key" comes with key lanes.
    """

    consume_from: str = "last"
    batch_size: int = 1
    suspend: float = 1.0
    max_reconsume_times: int | None = None
    consume_timeout: float = 900.0
    min_workers: int = 1
    max_workers: int = 20
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
    close_timeout: float = 30.0
    model: str = "clustering"
    instance: str = ""
    offsets_folder: str = "~/.orderly/offsets"
    allow_direct_consume: bool = False
    allow_thread_dump: bool = False
    java_compat: bool = False
    order: str = "queue"

    def __post_init__(self) -> None:
        parse_consume_from(self.consume_from)
        check_types(self)
        self._check_choices()
        self._check_handling()
        self._check_pulling()
        self._check_rounds()

    @property
    def broadcasting(self) -> bool:
        """Whether each member gets every queue."""
        return self.model == "broadcasting"

    def _check_choices(self) -> None:
        require(self.order in ("queue", "key"), "order must be 'queue' or 'key'")
        if self.order == "key":
            raise NotAvailableYet("order='key' is not available yet; use order='queue'")
        require(
            self.model in ("clustering", "broadcasting"),
            "model must be 'clustering' or 'broadcasting'",
        )
        if self.broadcasting:
            require(
                _INSTANCE.fullmatch(self.instance) is not None,
                "model='broadcasting' needs instance, a stable name of this member such as"
                " 'cache-1' (1-64 characters of A-Za-z0-9_.-): its offset file is found by it",
            )
        else:
            require(not self.instance, "instance is for model='broadcasting' only")

    def _check_handling(self) -> None:
        require(1 <= self.batch_size <= 1024, "batch_size must be 1 to 1024 messages")
        require(0.01 <= self.suspend <= 30, "suspend must be 0.01 to 30 seconds")
        require(1 <= self.min_workers <= self.max_workers, "need 1 <= min_workers <= max_workers")
        require(self.consume_timeout > 0, "consume_timeout must be more than 0 seconds")
        require(self.close_timeout >= 0, "close_timeout must be 0 seconds or more")
        limit = self.max_reconsume_times
        require(
            limit is None or 0 <= limit <= _MAX_RECONSUME,
            f"max_reconsume_times must be 0 to {_MAX_RECONSUME}, or None to retry for ever",
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
            self.lock_interval < self.lock_trust,
            "lock_interval must be shorter than lock_trust, or every lock expires between renewals",
        )
        require(
            self.lock_trust <= _MAX_LOCK_TRUST,
            f"lock_trust must be at most {_MAX_LOCK_TRUST:g} seconds: the broker gives a lock that"
            f" is not renewed to another member after {BROKER_LEASE:g}",
        )
