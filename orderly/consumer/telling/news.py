"""What a consumer's running info tells of its queues that are in trouble: the worst first."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable
from dataclasses import replace

from orderly.consumer.session import Held
from orderly.foreign_text import hidden
from orderly.log import key_text
from orderly.model import MessageQueue
from orderly.ordering.explain import Explanation, Why, explain
from orderly.ordering.lane import Lane
from orderly.protocol.queue_news import QueueNews

_LONG = 1.0  # seconds; a handler that runs for less is nothing to tell of
_RUNNING = frozenset({Why.HANDLING, Why.HUNG})
_WELL = frozenset({Why.EMPTY, Why.PULLING, Why.NOT_PULLING, Why.WAITING, Why.FLOW_CONTROLLED})
_NOT_IN_WORK = frozenset({Why.LOCK_LOST, Why.LEAVING, Why.RELEASING})

Hung = Container[tuple[MessageQueue, Hashable]]
"""Queue and key, None by queue, of the handlers that hang."""


def troubled(held: Iterable[Held], hung: Hung, now: float) -> list[tuple[MessageQueue, QueueNews]]:
    """The queues that do not just go on, with their news; those in trouble longest come first.

    Args:
        held: of the consumer. Takes each one's lock for a moment.
        hung: see `Hung`.
        now: seconds.
    """
    told = [(each.queue, _told(each, hung, now)) for each in held]
    return sorted([pair for pair in told if _worth_telling(pair[1])], key=_longest_first)


def without_key(news: QueueNews) -> QueueNews:
    """The news with a hash instead of the key; the failure's text has nothing of the message."""
    return news if news.key is None else replace(news, key=hidden(news.key))


def _told(held: Held, hung: Hung, now: float) -> QueueNews:
    owned = held.owned
    with held.lock:
        explained, lane = explain(owned, now), owned.messages.lowest_lane
        why, seconds = _of_head(explained, lane, now)
        untried = lane is None or lane.since is None
    key = explained.key if owned.by_key else None
    if why is Why.HANDLING and (held.queue, key) in hung:
        why = Why.HUNG
    offset = explained.offset
    failing = None if offset is None else held.failures.of(key, offset)
    return QueueNews(
        why=why.name,
        offset=offset,
        key=key_text(explained.key),
        attempts=0 if explained.attempt is None else explained.attempt - untried,
        failing_for=None if failing is None else now - failing.since,
        fingerprint=None if failing is None else failing.fingerprint.digest,
        reason=None if failing is None else failing.fingerprint.text,
        seconds=seconds,
        parked=explained.keys_parked,
    )


def _of_head(explained: Explanation, lane: Lane | None, now: float) -> tuple[Why, float | None]:
    """Why the first unfinished message is where it is; by key, others may well be handled."""
    if lane is None or explained.why in _NOT_IN_WORK:
        return explained.why, explained.seconds
    if lane.since is not None:
        return Why.HANDLING, now - lane.since
    if lane.wake_at is not None:
        return Why.SUSPENDED, max(0.0, lane.wake_at - now)
    busy = explained.why is Why.HANDLING  # with another key
    return (Why.WAITING, None) if busy else (explained.why, explained.seconds)


def _worth_telling(news: QueueNews) -> bool:
    why = Why[news.why]
    if news.failing_for is not None or news.parked:
        return True
    return why not in _WELL and (why not in _RUNNING or (news.seconds or 0.0) >= _LONG)


def _longest_first(pair: tuple[MessageQueue, QueueNews]) -> tuple[float, MessageQueue]:
    queue, news = pair
    running = news.seconds if Why[news.why] in _RUNNING else None
    return -max(news.failing_for or 0.0, running or 0.0), queue
