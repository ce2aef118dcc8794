"""What a consumer reports of itself: why each queue is where it is, health, running info."""

from __future__ import annotations

import math
import sys
import threading
import time
import traceback
from collections.abc import Container, Hashable, Iterable
from dataclasses import replace
from functools import cache
from typing import TypeVar

from orderly.client.broker import USUAL_PULL
from orderly.client.preflight import not_readable
from orderly.clock import now
from orderly.consumer.engine_watch import EngineWatch
from orderly.consumer.group_order_check import GroupOrderCheck
from orderly.consumer.health import Health, QueueHealth
from orderly.consumer.hung_calls import RunningCall, RunningCalls
from orderly.consumer.session import HeldQueue, Session
from orderly.errors import TopicNotFound
from orderly.foreign_text import hidden
from orderly.log import key_text
from orderly.model import MessageQueue
from orderly.namespace import is_retry_topic
from orderly.ordering.explain import Explanation, Why, explain, key_of
from orderly.ordering.explain_keys import KeyExplanation, KeyWhy, explain_keys
from orderly.ordering.lane import Lane
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.pull_window import Limit
from orderly.protocol.heartbeat import ConsumeType
from orderly.protocol.members import (
    QueueInfo,
    QueueReport,
    RunningInfo,
    RunningProperty,
    TopicConsumeStatus,
    report_texts,
)
from orderly.protocol.parked_key import ParkedKey

_Explained = TypeVar("_Explained", Explanation, KeyExplanation)
_MIB = 1024 * 1024
_NOT_READY = frozenset({Why.NOT_LOCKED, Why.NOT_TAKEN, Why.LOCK_LOST})


class ConsumerInspector:
    """Answers questions about one consumer. Thread-safe; asks no broker.

    Args:
        session: the consumer's shared state.
        order_check: the other members, if it matters how they keep order.
        calls: of the handler, if somebody notes them.
        engine: whether it calls handlers at all; None: nobody looks.
    """

    def __init__(
        self,
        session: Session,
        order_check: GroupOrderCheck | None = None,
        calls: RunningCalls | None = None,
        engine: EngineWatch | None = None,
    ) -> None:
        self._session = session
        self._order_check = order_check
        self._calls = RunningCalls(now) if calls is None else calls
        self._engine = engine
        self._started_at = time.time()

    def explain(self) -> tuple[Explanation, ...]:
        """One explanation a queue of the subscribed topics, sorted by queue."""
        found = {held.queue: self._explain(held) for held in self._session.held()}
        for topic, outlook in self._session.outlook.items():
            if is_retry_topic(topic):
                continue
            for queue in outlook.queues:
                if queue not in found:
                    ours = queue in outlook.share
                    found[queue] = (
                        self._not_held(queue) if ours else Explanation(queue, Why.NOT_OWNED)
                    )
        hung = self._hung_queues()
        return tuple(
            _seen_hanging(found[queue], hung)
            for queue in sorted(found)
            if not is_retry_topic(queue.topic)
        )

    def _not_held(self, queue: MessageQueue) -> Explanation:
        """Why a queue of our share is not held."""
        if self._session.standing:
            return Explanation(queue, Why.WITHDRAWN)
        known = self._session.untaken.get(queue)
        if known is not None and known.error is None:
            return Explanation(queue, Why.NOT_LOCKED)
        error = None if known is None else str(known.error)
        return Explanation(queue, Why.NOT_TAKEN, error=error)

    def _explain(self, held: HeldQueue) -> Explanation:
        with held.lock:
            found = explain(held.owned, now())
        return _with_last_try(held, found, found.key if held.owned.by_key else None)

    def _hung_calls(self) -> list[RunningCall]:
        limit = self._session.config.handler_timeout
        return self._calls.running(math.inf if limit is None else limit)

    def _hung_queues(self) -> dict[MessageQueue, float]:
        """Which queues have a handler that hangs, and for how long the longest has run."""
        calls = self._hung_calls()
        return {call.context.message_queue: call.seconds for call in reversed(calls)}

    def _hung_keys(self) -> set[tuple[MessageQueue, Hashable]]:
        return {(call.context.message_queue, call.context.key) for call in self._hung_calls()}

    def explain_keys(self, limit: int) -> tuple[KeyExplanation, ...]:
        """The keys held back longest, by offset within each queue; at most `limit` of a queue."""
        hung = self._hung_keys()
        found: list[KeyExplanation] = []
        for held in self._session.held():
            if held.owned.by_key:
                with held.lock:
                    keys = [_key_seen_hanging(e, hung) for e in explain_keys(held.owned, now())]
                first = sorted(keys, key=lambda e: e.offset)[:limit]
                found += [_with_last_try(held, e, e.key) if _waits(e) else e for e in first]
        return tuple(found)

    def parked(self) -> dict[MessageQueue, tuple[ParkedKey, ...]]:
        """The keys of each queue held that are parked on record, sorted.

        A key whose record is still being written is not parked yet: the next owner would not
        know it.
        """
        found = {}
        for held in self._session.held():
            memory = held.memory
            if memory is None:  # without a record nothing is parked
                continue
            with held.lock:
                keys = held.owned.parking.snapshot()
            found[held.queue] = tuple(key for key in keys if memory.recorded(key.key))
        return {queue: keys for queue, keys in found.items() if keys}

    # --- health --------------------------------------------------------------------------------

    def health(self, state: str) -> Health:
        """Live unless failed, or a handler hangs, or none is called; ready by what pulls showed.

        Not ready while everything that is tried fails, either.

        Args:
            state: of the consumer.
        """
        explanations = self.explain() if state == "running" else ()
        hanging = self._hung_queues()
        hung = [text for e in explanations for text in self._hung(e, hanging.get(e.queue))]
        missing = self._missing(state, explanations)
        dead = self._engine is not None and self._engine.dead
        return Health(
            live=state in ("created", "running") and not hung and not dead,
            ready=state == "running" and not missing,
            state=state,
            queues=self._queue_healths(explanations),
            reasons=(*hung, *missing, *map(_expires, _expiring(explanations))),
        )

    def _hung(self, explanation: Explanation, hanging: float | None) -> list[str]:
        config = self._session.config
        seconds, limit, name = hanging, config.handler_timeout, "handler_timeout"
        if seconds is None or limit is None:
            busy = explanation.why in (Why.HANDLING, Why.LEAVING)
            since = now() - ((explanation.seconds if busy else None) or 0.0)
            seconds = self._session.client.awake.since(since)
            limit, name = config.consume_timeout, "consume_timeout"
        if seconds < limit:
            return []
        running = f"a handler has been running for {seconds:.0f} s"
        return [f"{explanation.queue}: {running} ({name} is {limit:g} s)"]

    def _missing(self, state: str, explanations: tuple[Explanation, ...]) -> list[str]:
        engine = self._engine
        if state != "running":
            gone = None if engine is None else engine.gone
            return [f"the consumer is {state}" + ("" if gone is None else f": {gone}")]
        stands = None if engine is None else engine.reason
        topics = [t for t in self._session.subscriptions if not is_retry_topic(t)]
        mixed = () if self._order_check is None else self._order_check.mixed
        return [
            *(() if stands is None else (stands,)),
            *(why for topic in topics if (why := self._unseen(topic)) is not None),
            *(why for e in explanations if (why := self._not_consumed(e)) is not None),
            *(_full(e) for e in explanations if e.full_of_waiting),
            *(f"the group mixes order by key and by queue: {member}" for member in mixed),
            *self._failing(),
        ]

    def _unseen(self, topic: str) -> str | None:
        """Why it is not known which queues of a topic are ours, or why nobody can have any."""
        outlook, error = self._session.outlook.get(topic), self._session.unseen.get(topic)
        if outlook is None:
            why = "" if error is None else f": {error}"
            return f"topic {topic}: no rebalance round has succeeded yet{why}"
        if isinstance(error, TopicNotFound):
            return str(error)
        return None if outlook.queues else not_readable(topic)

    def _not_consumed(self, explanation: Explanation) -> str | None:
        """Why a queue of ours is not consumed, or not known to be; None: nothing is the matter."""
        if explanation.why in _NOT_READY or explanation.key_error or explanation.too_large:
            return str(explanation)
        since = now() - (explanation.unproven or 0.0)
        seconds = self._session.client.awake.since(since)
        if seconds < USUAL_PULL:
            return None
        how_long = "yet" if seconds == math.inf else f"for {seconds:.0f} s"
        failed = "" if explanation.pull_error is None else f": {explanation.pull_error}"
        return f"{explanation.queue}: no pull of it has succeeded {how_long}{failed}"

    def _failing(self) -> list[str]:
        seconds = self._session.failing_for()
        if seconds < self._session.config.lock_trust:
            return []
        return [f"most keys fail, and no message has succeeded for {seconds:.0f} s"]

    def _queue_healths(self, explanations: tuple[Explanation, ...]) -> tuple[QueueHealth, ...]:
        owned = {held.queue: held.owned for held in self._session.held()}
        return tuple(
            _queue_health(e, owned.get(e.queue)) for e in explanations if e.offset is not None
        )

    # --- running info --------------------------------------------------------------------------

    def running_info(self, stack: bool) -> RunningInfo:
        """What `mqadmin consumerStatus` asks for (Java: ConsumerRunningInfo).

        Args:
            stack: with the stacks of all threads, if the configuration allows that.
        """
        session = self._session
        allowed = stack and session.config.allow_thread_dump
        return RunningInfo(
            self._properties(),
            session.announced(),
            {held.queue: _queue_info(held) for held in session.held()},
            {topic: self._status(topic) for topic in session.subscriptions},
            thread_dump() if allowed else "",
            report_texts(self._reports()),
        )

    def _reports(self) -> list[tuple[MessageQueue, QueueReport]]:
        session = self._session
        found = troubled(session.held(), self._hung_keys(), now())
        if not session.redacts:
            return found
        return [(queue, without_key(report)) for queue, report in found]

    def _properties(self) -> dict[str, str]:
        config = self._session.config
        known = {
            RunningProperty.NAME_SERVERS: self._session.client.config.namesrv,
            RunningProperty.ORDERLY: "true",
            RunningProperty.THREADS: str(config.concurrency),
            RunningProperty.START_TIMESTAMP: str(int(self._started_at * 1000)),
            RunningProperty.CONSUME_TYPE: ConsumeType.PASSIVELY.value,
            RunningProperty.CLIENT_VERSION: f"orderly {_version()} (Python)",
        }
        settings = {name: str(getattr(config, name)) for name in config.__dataclass_fields__}
        return settings | {name.value: text for name, text in known.items()}

    def _status(self, topic: str) -> TopicConsumeStatus:
        figures = self._session.statistics.of(topic, now())
        return TopicConsumeStatus(
            pull_rt=figures.pull_seconds * 1000,
            pull_tps=figures.pulled_per_second,
            consume_rt=figures.consume_seconds * 1000,
            consume_ok_tps=figures.consumed_per_second,
            consume_failed_tps=figures.failed_per_second,
            consume_failed_messages=figures.failed_last_hour,
        )


def _expiring(explanations: Iterable[Explanation]) -> list[Explanation]:
    return [explanation for explanation in explanations if explanation.expires_in is not None]


def _expires(explanation: Explanation) -> str:
    hours = (explanation.expires_in or 0.0) / 3600
    return (
        f"{explanation.queue}: its first unfinished message, at {explanation.offset}, has waited"
        f" for long; the broker can delete it in {hours:.1f} h"
    )


def _full(explanation: Explanation) -> str:
    return (
        f"{explanation.queue}: nothing more is pulled: {explanation.limit};"
        f" {explanation.keys_suspended} of its {explanation.keys} keys wait after a failure,"
        f" {explanation.keys_paused} are paused by the program"
    )


def _seen_hanging(explanation: Explanation, hung: dict[MessageQueue, float]) -> Explanation:
    seconds = hung.get(explanation.queue)
    if seconds is None or explanation.why is not Why.HANDLING:
        return explanation
    return replace(explanation, why=Why.HUNG, seconds=seconds)


def _key_seen_hanging(
    explanation: KeyExplanation, hung: set[tuple[MessageQueue, Hashable]]
) -> KeyExplanation:
    hangs = (explanation.queue, explanation.key) in hung and explanation.why is KeyWhy.HANDLING
    return replace(explanation, why=KeyWhy.HUNG) if hangs else explanation


def _waits(explanation: KeyExplanation) -> bool:
    return explanation.why is KeyWhy.SUSPENDED


def _with_last_try(held: HeldQueue, explained: _Explained, key: Hashable) -> _Explained:
    """Say how the message that is named was tried last, and why it is not given up yet."""
    failing = None if explained.offset is None else held.failures.of(key, explained.offset)
    if failing is None:
        return explained
    return replace(explained, last_try=failing.fingerprint.text, because=failing.because)


def _queue_health(explanation: Explanation, owned: OwnedQueue | None) -> QueueHealth:
    return QueueHealth(
        explanation.queue,
        explanation.why.name,
        explanation.seconds,
        explanation.offset,
        None if owned is None else owned.next_pull,
        explanation.cached,
        0 if owned is None else owned.messages.size,
        explanation.keys_parked,
        explanation.keys_paused,
    )


def _queue_info(held: HeldQueue) -> QueueInfo:
    with held.lock:
        owned = held.owned
        cached, in_hand = owned.messages.spans
        return QueueInfo(
            commit_offset=owned.offset,
            cached_min=cached[0] if cached else 0,
            cached_max=cached[1] if cached else 0,
            cached_count=owned.messages.pending,
            cached_mib=owned.messages.size // _MIB,
            in_hand_min=in_hand[0] if in_hand else 0,
            in_hand_max=in_hand[1] if in_hand else 0,
            in_hand_count=owned.messages.in_hand,
            locked=owned.lease.valid(now()),
            try_unlock_times=held.failed_releases,
            last_lock_time=_wall(owned.lease.renewed_at),
            dropped=owned.dropped is not None,
            last_pull_time=_wall(owned.pulled_at),
            last_consume_time=_wall(owned.handled_at),
        )


@cache
def _version() -> str:
    """The installed one; looking it up reads and parses a file."""
    from importlib.metadata import version  # noqa: PLC0415  it brings `email` and `zipfile`

    return version("rocketmq-orderly")


def _wall(moment: float | None) -> float:
    """Seconds since the epoch of a moment on our clock; 0 for never."""
    return 0.0 if moment is None else time.time() - (now() - moment)


def thread_dump() -> str:
    """The stacks of all threads of this process, as text."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"{names.get(ident, '?')} ({ident})\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()  # noqa: SLF001 - the only way to them
    )


def held_queues(session: Session) -> tuple[MessageQueue, ...]:
    """The subscribed topics' queues held and not being given up, sorted."""
    return tuple(
        held.queue
        for held in session.held()
        if held.owned.dropped is None and not is_retry_topic(held.queue.topic)
    )


# --- queues in trouble in the running info, the worst first ---------------------------------------


_LONG = 1.0  # seconds; a handler that runs for less is not reported
_RUNNING = frozenset({Why.HANDLING, Why.HUNG, Why.LEAVING})
_WELL = frozenset(
    {
        Why.EMPTY,
        Why.PULLING,
        Why.NOT_PULLING,
        Why.WAITING,
        Why.FLOW_CONTROLLED,
        Why.RATE_LIMITED,
    }
)
_NOT_IN_WORK = frozenset({Why.LOCK_LOST, Why.LEAVING, Why.RELEASING})

Hung = Container[tuple[MessageQueue, Hashable]]
"""Queue and key, None by queue, of the handlers that hang."""


def troubled(
    held: Iterable[HeldQueue], hung: Hung, now: float
) -> list[tuple[MessageQueue, QueueReport]]:
    """The queues that do not just go on, with their reports; those in trouble longest come first.

    Args:
        held: of the consumer. Takes each one's lock for a moment.
        hung: see `Hung`.
        now: seconds.
    """
    reports = [(each.queue, _report(each, hung, now)) for each in held]
    return sorted([pair for pair in reports if _in_trouble(pair[1])], key=_longest_first)


def without_key(report: QueueReport) -> QueueReport:
    """The report with a hash instead of the key; the failure's text has nothing of the message."""
    return report if report.key is None else replace(report, key=hidden(report.key))


def _report(held: HeldQueue, hung: Hung, now: float) -> QueueReport:
    owned = held.owned
    with held.lock:
        explained = explain(owned, now)
        leaving = explained.why is Why.LEAVING
        lane = owned.messages.longest_running if leaving else owned.messages.lowest_lane
        why, seconds = _of_lane(explained, lane, now)
        untried = lane is None or lane.since is None
        shown = None if lane is None else key_of(owned, lane)
        offset = lane.low if leaving and lane is not None else explained.offset
        attempts = 0 if lane is None else lane.attempts + 1 - untried
    key = shown if owned.by_key else None
    if why in _RUNNING and (held.queue, key) in hung:
        why = Why.HUNG
    failing = None if offset is None else held.failures.of(key, offset)
    return QueueReport(
        why=why.name,
        offset=offset,
        key=key_text(shown),
        attempts=attempts,
        failing_for=None if failing is None else now - failing.since,
        fingerprint=None if failing is None else failing.fingerprint.digest,
        reason=_reason(explained, why) if failing is None else failing.fingerprint.text,
        because=None if failing is None else failing.because,
        seconds=seconds,
        parked=explained.keys_parked,
    )


def _reason(explained: Explanation, why: Why) -> str | None:
    """Why nothing is pulled; of a key function's error the class: its text may quote a message."""
    texts = {
        Why.PULL_FAILS: explained.pull_error,
        Why.TOO_LARGE: explained.too_large,
        Why.NO_KEY: explained.key_error and explained.key_error.partition(":")[0],
    }
    return texts.get(why)


def _of_lane(explained: Explanation, lane: Lane | None, now: float) -> tuple[Why, float | None]:
    """Why the lane's first message is where it is; by key, others may well be handled."""
    if lane is None or explained.why in _NOT_IN_WORK:
        return explained.why, explained.seconds
    if lane.since is not None:
        return Why.HANDLING, now - lane.since
    if lane.paused:
        return Why.KEYS_PAUSED, None
    if lane.wake_at is not None:
        why = Why.RATE_LIMITED if lane.paced else Why.SUSPENDED
        return why, max(0.0, lane.wake_at - now)
    busy = explained.why is Why.HANDLING  # with another key
    return (Why.WAITING, None) if busy else (explained.why, explained.seconds)


def _in_trouble(report: QueueReport) -> bool:
    why = Why[report.why]
    if report.failing_for is not None or report.parked:
        return True
    return why not in _WELL and (why not in _RUNNING or (report.seconds or 0.0) >= _LONG)


def _longest_first(pair: tuple[MessageQueue, QueueReport]) -> tuple[float, MessageQueue]:
    queue, report = pair
    running = report.seconds if Why[report.why] in _RUNNING else None
    return -max(report.failing_for or 0.0, running or 0.0), queue


# --- queues of which nothing more is pulled, for they have left as much unfinished as they may ----


_HINTS = {
    Limit.SPAN: "this key is too far behind the others: look at its handler; if the program paused"
    " the key, resume it",
    Limit.KEYS: "look at why so many keys wait: they fail, or their handler is slow",
    Limit.KEY_BYTES: "look at who sends such long keys, and why they wait",
    Limit.OFFSETS: "look at why so many messages wait: keys fail, or their handler is slow",
    Limit.PAUSED: "resume some of these keys (`resume_key`), or park them",
}


class SpanEnds:
    """Not thread-safe: one periodic thread calls it.

    Args:
        session: the consumer's shared state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: frozenset[HeldQueue] = frozenset()

    def log_new(self) -> None:
        """Warn of each queue that came to such a limit since the last call.

        Once, until it is pulled again: it is pulled again when half of that is worked off.
        """
        waiting = set()
        for held in self._session.held():
            found = self._look(held)
            if found is not None:
                waiting.add(held)
                if held not in self._waiting:
                    _warn(held, found)
        self._waiting = frozenset(waiting)

    def _look(self, held: HeldQueue) -> Explanation | None:
        with held.lock:
            owned = held.owned
            still = owned.throttled and held in self._waiting
            if owned.dropped is None and (owned.limit_reached is not None or still):
                return explain(owned, now())
        return None


def _warn(held: HeldQueue, found: Explanation) -> None:
    held.log.warning(
        "queue.span_reached",
        offset=found.offset,
        key=key_text(found.key),
        attempt=found.attempt,
        span=found.span,
        why=found.why.name,
        limit=found.limit,
        hint=None if found.limit is None else _HINTS[Limit(found.limit)],
    )
