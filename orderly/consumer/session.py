"""What the loops of one consumer share: settings, connections and the queues it holds."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any

from orderly.client import Client
from orderly.client.broker import PullResult
from orderly.clock import now
from orderly.config import ConsumerConfig, parse_consume_from
from orderly.consumer.hooks import ConsumerHooks
from orderly.consumer.statistics import Statistics
from orderly.errors import OrderlyError, RemotingError
from orderly.interruptions import let_go
from orderly.log import get_logger, key_text, where
from orderly.model import MessageQueue, ReceivedMessage
from orderly.namespace import is_retry_topic
from orderly.ordering.broker_calls import WRITES, Answer, Call, Dialogue, converse
from orderly.ordering.context import QueueOwnership
from orderly.ordering.explain import key_of
from orderly.ordering.fingerprint import Fingerprint
from orderly.ordering.lane import Batch
from orderly.ordering.lru import put_latest
from orderly.ordering.owned_queue import Drop, OwnedQueue
from orderly.ordering.start import FormerPosition
from orderly.ordering.state_records import StateWriter
from orderly.protocol.heartbeat import Subscription

LOOKS = 1.0  # seconds between two looks at leases, and at whether handlers begin


# --- the lock of one held queue -------------------------------------------------------------------


def new_lock() -> threading.Lock:
    """Make a lock with what `threading` is now: a simulation puts its own in its place."""
    return threading.Lock()


class QueueLock:
    """A lock whose holder sees the queue as it is: with what runs have handled by then.

    A run notes in `Batch.done` what it has handled of several messages it took at once, without a
    lock; that is counted here, so nobody sees, saves or hands over less than is done.

    Args:
        owned: what the lock guards.
        bursts: the batches in work of which a part may be done. The runs change it.
    """

    __slots__ = ("_bursts", "_lock", "_owned")

    def __init__(self, owned: OwnedQueue, bursts: Collection[Batch]) -> None:
        self._lock = threading.RLock()
        self._owned = owned
        self._bursts = bursts

    def __enter__(self) -> None:
        try:
            self._lock.acquire()
            if self._bursts:
                for batch in tuple(self._bursts):
                    self._owned.catch_up(batch)
        except BaseException:  # nobody would release it
            let_go(self._lock)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


# --- messages that failed and are tried again -----------------------------------------------------
# What the queue's running info says. Only the way they fail is kept (`ordering.fingerprint`),
# nothing of the messages.


_MOST = 1000  # keys of a queue; of one more, the one that failed longest ago is forgotten


@dataclass(frozen=True, slots=True)
class FailingMessage:
    """A message that failed and is tried again.

    Attributes:
        offset: the message's.
        since: of its first failure (seconds).
        fingerprint: of its last one.
        because: why it is not given up, or set aside, yet; None: nobody said.
    """

    offset: int
    since: float
    fingerprint: Fingerprint
    because: str | None = None


class Failures:
    """Thread-safe; one for each queue held."""

    def __init__(self) -> None:
        self._by_key: OrderedDict[Hashable, FailingMessage] = OrderedDict()
        self._lock = threading.Lock()

    def failed(
        self,
        key: Hashable,
        offset: int,
        fingerprint: Fingerprint,
        now: float,
        because: str | None = None,
    ) -> None:
        """A lane's message failed at `now` (seconds)."""
        with self._lock:
            before = self._by_key.get(key)
            since = before.since if before is not None and before.offset == offset else now
            failing = FailingMessage(offset, since, fingerprint, because)
            put_latest(self._by_key, key, failing, _MOST)

    def waits(self, key: Hashable, because: str) -> None:
        """A lane's message that failed could not be set aside."""
        with self._lock:
            failing = self._by_key.get(key)
            if failing is not None:
                self._by_key[key] = replace(failing, because=because)

    def succeeded(self, key: Hashable) -> None:
        """A lane's message is done."""
        if self._by_key:  # asked for without the lock: it is called for each message
            with self._lock:
                self._by_key.pop(key, None)

    def of(self, key: Hashable, offset: int) -> FailingMessage | None:
        """What is known of a lane's message, or None: it has not failed."""
        with self._lock:
            found = self._by_key.get(key)
        return found if found is not None and found.offset == offset else None


# --- held queues, and what the loops share --------------------------------------------------------


def sharding_key(message: ReceivedMessage) -> Hashable:
    """Return the key a producer sent with the message, or None: the usual unit of order."""
    return message.sharding_key


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the last rebalance round saw of one topic.

    Attributes:
        queues: all queues that can be read, sorted.
        share: those that are ours by allocation.
        members: client ids of the group, sorted; empty when broadcasting.
    """

    queues: tuple[MessageQueue, ...]
    share: frozenset[MessageQueue]
    members: tuple[str, ...] = ()


def _new_event() -> threading.Event:
    return threading.Event()


@dataclass(slots=True, eq=False)
class HeldQueue:
    """One queue this consumer holds, with its locks.

    Lock order: `Session.locking(broker)`, `saving`, `lock`. `lock` guards `owned` and is never held
    during a call to the broker or the handler; `saving` is held during offset commits, so that
    two commits of one queue are never in flight together (the broker could apply them in either
    order).

    Attributes:
        memory: writes down what is finished ahead; None: nothing is (order by queue).
        refreshed_at: when all of it was last written (seconds).
        compared_at: when the broker's offset was last seen to be ours (seconds).
        commits_begun: how many commits have looked at what there is to write; `saving` is held.
        committed: the last of them that is done.
        ownership: what its handlers may ask while they run.
        lost: set once the queue is no longer ours.
        left_at: when it was found dropped (seconds), or None.
        being_parked: messages and bytes that lanes are about to park, by key.
        release_error: why its last release failed, or None.
        failed_parkings: of each key, one after the other, since the last that did not fail.
        failures: how its messages fail that are tried again.
        replica: id of the broker that the next pull goes to; 0 is the master.
        master_until: no slave is asked before (seconds).
        pull_batch: messages that the next pull asks for at most.
        introduced: its hook "assigned" is called, or was.
        announced: that hook has returned; no handler is called before.
        doubtful: the topic may have been recreated; this is checked before the next pull.
        refusal: what a broker said of an offset that it does not have, until that is found out.
        bursts: batches in work whose messages are handed out in several calls.
        burst: for how many calls messages are taken at once.
    """

    owned: OwnedQueue
    subscription: Subscription
    log: Any
    lock: QueueLock = field(init=False)
    saving: threading.Lock = field(default_factory=new_lock)
    memory: StateWriter | None = None
    refreshed_at: float = field(default_factory=now)
    compared_at: float = field(default_factory=now)
    commits_begun: int = 0
    committed: int = 0
    ownership: QueueOwnership | None = None
    lost: threading.Event = field(default_factory=_new_event)
    loss_notified: bool = False
    left_at: float | None = None
    overdue: bool = False
    failed_releases: int = 0
    release_error: str | None = None
    failed_parkings: dict[Hashable, int] = field(default_factory=dict)
    being_parked: dict[Hashable, tuple[int, int]] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    replica: int = 0
    master_until: float = -math.inf
    pull_batch: int = 1024
    introduced: bool = False
    announced: bool = False
    doubtful: bool = False
    refusal: PullResult | None = None
    released: bool = False
    bursts: set[Batch] = field(default_factory=set)
    burst: int = 1

    def __post_init__(self) -> None:
        self.lock = QueueLock(self.owned, self.bursts)

    @property
    def queue(self) -> MessageQueue:
        """Which queue."""
        return self.owned.queue

    @property
    def busy(self) -> bool:
        """Whether the program has work in hand for it: a handler, or its hook "assigned"."""
        return not self.owned.idle or (self.introduced and not self.announced)

    def sets_aside(self, key: Hashable) -> bool:
        """Whether messages of a key go to the park queue, and not to the handler."""
        return self.owned.parking.parked(key)


@dataclass(slots=True)
class Untaken:
    """A queue that is ours by allocation and was not taken at the last try.

    Attributes:
        since: of the first try that ended so (seconds).
        warn_at: when the next warning is due (seconds).
        error: why; None: another client holds its lock.
    """

    since: float
    warn_at: float
    error: OrderlyError | None = None


class Session:
    """Shared by the loops of one consumer. Thread-safe.

    Attributes:
        hooks: the program's.
        store_together: saves many offsets at once; None: each is a request of its own.
        attention: called when a queue needs the rebalancer (dropped and idle, or lost).
        interrupt: called when a queue is lost, to stop its handlers where that is possible.
        rate_admit: whether one message that a lane task is about to handle may begin by
            `max_rate`; if not, what it is given is called once it may.
        rate_settle: returns so many such permits that nobody used.
        failing_for: for how long most keys have failed and none has succeeded (seconds), where the
            handler notes that.
        renew_again: asks for another round of renewals after so many seconds.
        key: which key a message has, with order by key; may raise.
        perform: answers one `ordering.broker_calls.Call`; blocks, raises OrderlyError.
        subscriptions: by topic; replaced, never changed in place.
        statistics: of handler calls and pulls.
        paused: queues the user paused; they stay so over a rebalance. Replaced, never changed.
        paused_keys: the same of keys, in all queues. Changed in place: a program may pause many.
        closing: True from the moment on at which nothing must be taken any more.
        standing: True while the engine does not run: this member has no queues until it does.
        outlook: by topic, what the last round saw. Replaced, never changed.
        unseen: by topic, why the last round could not look at it. As `untaken`.
        untaken: what keeps queues of ours from being taken. The rebalancer's; others only look.
        known: where queues stood that this process held, for a broker that forgets it.
        version: of the subscriptions, renewed when what we hold changes.
        silent: by broker, when the last renewal was sent there that had no answer, and why.
    """

    def __init__(
        self,
        group: str,
        client: Client,
        config: ConsumerConfig,
        perform: Callable[[Call], Any],
        hooks: ConsumerHooks,
        *,
        key: Callable[[ReceivedMessage], Hashable] = sharding_key,
        store_together: Callable[[dict[MessageQueue, int]], None] | None = None,
    ) -> None:
        self.group = group
        self.client = client
        self.config = config
        self.consume_from = parse_consume_from(config.consume_from)
        self.redacts = client.config.redacts
        self.log = get_logger(
            "orderly.consumer", client_id=client.client_id, redact=self.redacts, **where(group)
        )
        self.attention: Callable[[], None] = lambda: None
        self.interrupt: Callable[[HeldQueue], None] = lambda _: None
        self.rate_admit: Callable[[Callable[[], None]], bool] = lambda _: True
        self.rate_settle: Callable[[int], None] = lambda _: None
        self.failing_for: Callable[[], float] = lambda: 0.0
        self.renew_again: Callable[[float], None] = lambda _: None
        self.key = key
        self.subscriptions: dict[str, Subscription] = {}
        self.perform = perform
        self.hooks = hooks
        self.store_together = store_together
        self.statistics = Statistics()
        self.paused: frozenset[MessageQueue] = frozenset()
        self.paused_keys: set[Hashable] = set()
        self.closing = False
        self.standing = False
        self.outlook: dict[str, Outlook] = {}
        self.unseen: dict[str, OrderlyError] = {}
        self.untaken: dict[MessageQueue, Untaken] = {}
        self.known: dict[MessageQueue, FormerPosition] = {}
        self.version = 0
        self.silent: dict[str, tuple[float, RemotingError]] = {}
        self._lock = threading.Lock()
        self._locking: dict[str, threading.Lock] = {}
        self._held: dict[MessageQueue, HeldQueue] = {}

    def by_key(self, topic: str) -> bool:
        """Whether a topic's queues have a lane for each key; the group's retry topic never has."""
        return self.config.by_key and not is_retry_topic(topic)

    def locking(self, broker_name: str) -> threading.Lock:
        """The lock of one broker's queue locks; nobody holds those of two brokers.

        It is held from choosing the locks to renew until the answer, and from an unlock until the
        queue is forgotten: a renewal must not take back what was just given up.
        """
        with self._lock:
            return self._locking.setdefault(broker_name, threading.Lock())

    def converse(self, dialogue: Dialogue[Answer], before_write: Callable[[], None]) -> Answer:
        """Run a dialogue with the brokers; blocks.

        Args:
            dialogue: what to ask and to write.
            before_write: called right before each request that writes; raises if it is too late
                for that: this process may have been stopped since the answers it rests on.

        Raises:
            OrderlyError: a call failed and the dialogue did not handle it.
        """

        def perform(call: Call) -> Any:
            if isinstance(call, WRITES):
                before_write()
            return self.perform(call)

        return converse(dialogue, perform)

    def add(
        self, owned: OwnedQueue, subscription: Subscription, memory: StateWriter | None = None
    ) -> HeldQueue:
        """Hold a queue whose lock was granted and whose start is known."""
        queue = owned.queue
        self.renew_version()
        log = self.log.bind(**where(self.group, queue))
        held = HeldQueue(owned, subscription, log, memory=memory)
        with self._lock:
            if queue in self.paused:
                owned.pause()
            if owned.by_key:
                for key in self.paused_keys:
                    owned.pause_key(key)
            self._held[queue] = held
        return held

    def set_paused(self, queues: frozenset[MessageQueue], *, paused: bool) -> list[HeldQueue]:
        """Note which queues are paused; returns those of them that are held."""
        with self._lock:
            self.paused = self.paused | queues if paused else self.paused - queues
            return [self._held[queue] for queue in sorted(queues) if queue in self._held]

    def set_key_paused(self, key: Hashable, *, paused: bool) -> list[HeldQueue]:
        """Note whether a key is paused; returns the queues held in which it may have messages."""
        with self._lock:
            (self.paused_keys.add if paused else self.paused_keys.discard)(key)
            return [self._held[q] for q in sorted(self._held) if self._held[q].owned.by_key]

    def remove(self, held: HeldQueue) -> None:
        """Forget a queue that was released or lost."""
        self.renew_version()
        owned, fence = held.owned, held.owned.fence
        with held.lock:
            floor, book = owned.floor, owned.sent_again
        self.known[held.queue] = FormerPosition(
            fence.written, fence.landmark, fence.window, floor=floor, book=book
        )
        with self._lock:
            self._held.pop(held.queue, None)
        held.released = True

    def renew_version(self) -> None:
        """Give the subscriptions a newer version (milliseconds since the epoch, as Java)."""
        with self._lock:
            self.version = max(self.version + 1, int(time.time() * 1000))

    def announced(self) -> tuple[Subscription, ...]:
        """The subscriptions as the next heartbeat has them."""
        return tuple(replace(s, version=self.version) for s in self.subscriptions.values())

    def find(self, queue: MessageQueue) -> HeldQueue | None:
        """The queue, if it is held and not being given up."""
        with self._lock:
            held = self._held.get(queue)
        return held if held is not None and held.owned.dropped is None else None

    def told_to_start_at(self, held: HeldQueue, offset: int, *, reset: bool) -> bool:
        """Start a queue again at an offset that the broker named; True if it is there already.

        Args:
            held: the queue as it was held when the broker was asked.
            offset: where to go on.
            reset: an operator has set it, and the broker says so only once: whoever holds the queue
                by now has to know, also while it gives the queue up.
        """
        former = held.released
        if reset and former:
            with self._lock:
                held = self._held.get(held.queue, held)
        with held.lock:
            before, ahead = held.owned.next_pull, held.owned.finished_ahead
            there = reset and held.owned.stands_at(offset)
            changed = not there and held.owned.restart_at(offset, Drop.OFFSET_ILLEGAL)
        if changed:
            held.log.warning(
                "offset.illegal",
                refused=before,
                correct=offset,
                skipped=max(0, offset - before),
                finished_ahead_discarded=sum(end - start for start, end in ahead),
            )
            self.attention()
        elif former and not there:
            held.log.warning(
                "offset.illegal_for_former_owner",
                correct=offset,
                hint="if the offset was reset just now, check that the current owner continued"
                " from there",
            )
        return there

    def held(self) -> list[HeldQueue]:
        """A snapshot of the queues held, sorted."""
        return sorted(self._held.values(), key=lambda held: held.queue)

    def busy(self) -> bool:
        """Whether the program has work in hand for one of them."""
        return any(held.busy for held in self.held())


# --- log context ----------------------------------------------------------------------------------
# Where something happened, as the fields of an event: which message, which key, which handler.
# Ordered by key, the key is the one the message is ordered by, which a key function may have
# chosen.


def log_context(
    group: str, held: HeldQueue, message: ReceivedMessage, key: Hashable
) -> dict[str, Any]:
    """The fields of an event about a batch.

    Args:
        group: as the broker names it.
        held: the batch's queue.
        message: of the batch.
        key: of the batch's lane.
    """
    at = where(group, held.queue, message)
    return {**at, "key": key_text(key)} if held.owned.by_key else at


def longest_handler(held: HeldQueue) -> dict[str, Any]:
    """Which handler of a queue is waited for: the message it began with, and for how long it runs.

    Of several the one that has been running longest; without any all fields are None.
    """
    with held.lock:
        busy = [lane for lane in held.owned.messages.lanes if lane.since is not None]
        lane = min(busy, key=lambda lane: lane.since or 0.0, default=None)
        if lane is None:
            return dict.fromkeys(("offset", "key", "handler_running_seconds"))
        head, key, since = lane.messages.head, key_of(held.owned, lane), lane.since
    return {
        "offset": None if head is None else head.queue_offset,
        "key": key_text(key),
        "handler_running_seconds": None if since is None else round(now() - since, 1),
    }
