"""What bounds a rate, in one sentence, and what to try next. Pure: figures in, words out.

The rules are tried from the first to the last; the first that fits speaks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from orderly.bench.figures import Consumed, Sent, Span, Where

_BUSY = 0.85  # of a core: Python runs one thread at a time
_HALF = 0.5  # of what a batch may hold
_LITTLE = 0.3  # of the time
_KEPT = 0.95  # of the rate that was asked for
_OFTEN = 0.01  # failures a request
_MOST = 0.7  # of the time
_CROWDED = 2.0  # threads for each core
_THROTTLED = frozenset({"BrokerBusy"})


class Bound(StrEnum):
    """What kept it from being faster."""

    NOTHING_DONE = "nothing was done"
    FAILURES = "failures"
    THROTTLING = "throttling by the broker"
    RATE = "the rate asked for"
    CPU = "this process's CPU"
    HANDLER = "the handler"
    QUEUES = "too few queues"
    BROKER = "the broker's answers"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What bounds a span.

    Attributes:
        bound: in a word.
        why: a sentence with the figures that say so.
        next: what to try.
    """

    bound: Bound
    why: str
    next: str


def busy_machine(span: Span) -> str:
    """A warning if the machine had more to do than it can; else ""."""
    if span.load < _CROWDED:
        return ""
    return (
        f"{span.load:.1f} threads for each core of this machine wanted to run, so part of the"
        " waiting is for a core; measure again when it is quiet"
    )


def verdict_of(span: Span) -> Verdict:
    """Say what bounded the rate of a span."""
    for rule in _RULES:
        verdict = rule(span)
        if verdict is not None:
            return verdict
    return _broker(span)


def _nothing(span: Span) -> Verdict | None:
    for side, did in ((span.sent, "stored"), (span.consumed, "consumed")):
        if side is not None and not side.messages:
            return Verdict(
                Bound.NOTHING_DONE,
                f"no message was {did}{_named(side.failed_requests)}",
                "look at the errors above, and run it again with -v",
            )
    return None


def _throttled(span: Span) -> Verdict | None:
    sent = span.sent
    if sent is None:
        return None
    refused = _count(sent.failed_requests, _THROTTLED)
    if refused <= _OFTEN * sent.requests:
        return None
    return Verdict(
        Bound.THROTTLING,
        f"the broker refused {refused} of {refused + sent.requests} requests as too many",
        "look at its disk and its page cache; send less at once (--rate, fewer --threads)",
    )


def _failing(span: Span) -> Verdict | None:
    sides = [side for side in (span.sent, span.consumed) if side is not None]
    failed = sum(sum(side.failed_requests.values()) for side in sides)
    requests = sum(_requests(side) for side in sides)
    if failed <= _OFTEN * requests:
        return None
    names = sum((Counter(side.failed_requests) for side in sides), Counter[str]())
    return Verdict(
        Bound.FAILURES,
        f"{failed} of {failed + requests} requests failed{_named(names)}",
        "mend that first: each failure costs a pause; -v shows them",
    )


def _rate(span: Span) -> Verdict | None:
    sent = span.sent
    if sent is None or sent.wanted_rate is None or sent.rate.mean < _KEPT * sent.wanted_rate:
        return None
    return Verdict(
        Bound.RATE,
        f"{sent.rate.mean:.0f} of {sent.wanted_rate:g} messages a second were sent, as asked for;"
        f" this process was busy for {span.cpu_share:.0%} of a core",
        "raise --rate until the latency grows; leave it out for the most there is",
    )


def _handler(span: Span) -> Verdict | None:
    consumed = span.consumed
    if consumed is None or not consumed.handler_ms:
        return None
    queue_bound = not consumed.by_key and consumed.queues < consumed.calls_at_once
    lanes = consumed.queues if queue_bound else consumed.calls_at_once
    waits = f"{consumed.busy:.1f} of at most {lanes} calls of the handler waited at once"
    full = consumed.busy >= _MOST * lanes
    if not full and _most(span) is not Where.HANDLER_WAIT:
        return None
    if full and queue_bound:
        return Verdict(
            Bound.QUEUES,
            f"{waits}: by queue, {consumed.queues} queues are {consumed.queues} calls at once",
            "--order key, which runs the keys of a queue side by side; or more --queues",
        )
    more = "a higher --concurrency" if full else "more --keys, or less --skew"
    return Verdict(
        Bound.HANDLER,
        f"{waits}, {consumed.handler_ms:g} ms each",
        f"{more}, --async, --batch-size, a faster handler; then more members",
    )


def _cpu(span: Span) -> Verdict | None:
    if span.cpu_share < _BUSY and _idle(span) > _LITTLE:
        return None
    part = _most(span)
    advice = "a second process: Python computes on one core"
    if span.sent is not None and span.sent.sync:
        advice = "--mode submit, which batches; then a second process"
    elif part is Where.HANDLER:
        advice = 'executor="process" in your consumer, or a second member of the group'
    return Verdict(
        Bound.CPU,
        f"this process was busy for {span.cpu_share:.0%} of a core, most of it to {part}"
        f" ({span.where[part]:.0%})",
        advice,
    )


def _slow_maker(span: Span) -> Verdict | None:
    """With half-empty batches the broker was never behind: it waited for this process."""
    sent = span.sent
    if sent is None or sent.full >= _HALF or sent.wanted_rate is not None:
        return None
    return Verdict(
        Bound.CPU,
        f"batches were {sent.full:.0%} full: the broker took messages faster than this process made"
        f" them, which was busy for {span.cpu_share:.0%} of a core",
        "--linger 5ms, for fewer and larger requests; then a second process",
    )


def _broker(span: Span) -> Verdict:
    sent, consumed = span.sent, span.consumed
    if sent is not None:
        return _waits_for_stores(span, sent)
    assert consumed is not None
    trip = _trip(consumed)
    each = consumed.messages / max(consumed.pulls, 1)
    return Verdict(
        Bound.BROKER,
        f"{_idle(span):.0%} of the time went by waiting; a pull brought {each:.0f} messages in"
        f" {trip:.1f} ms",
        "more --queues (each has one pull under way); see whether the broker reads from disk, and"
        " how far away it is",
    )


def _waits_for_stores(span: Span, sent: Sent) -> Verdict:
    each = f"{sent.messages / max(sent.requests, 1):.0f}"
    unit = "message" if each == "1" else "messages"
    why = (
        f"{_idle(span):.0%} of the time went by waiting; a request of"
        f" {each} {unit} was answered after {_trip(sent):.1f} ms"
    )
    if sent.sync:
        advice = "--mode submit, which waits for no answer and batches; or more --threads"
    elif sent.hot_share > 0.3:
        advice = "fewer messages of one key: a queue has one request under way; or larger batches"
    else:
        advice = (
            "more --queues (each has one request under way), larger --batch-messages; if only the"
            " round trip grows then, the broker is at its limit"
        )
    return Verdict(Bound.BROKER, why, advice)


_RULES: tuple[Callable[[Span], Verdict | None], ...] = (
    _nothing,
    _throttled,
    _failing,
    _rate,
    _handler,
    _cpu,
    _slow_maker,
)


def _most(span: Span) -> Where:
    return max(span.where, key=lambda kind: span.where[kind])


def _idle(span: Span) -> float:
    waits = (Where.BROKER, Where.MESSAGES, Where.PACING, Where.HANDLER_WAIT)
    return sum(span.where.get(kind, 0.0) for kind in waits)


def _trip(side: Sent | Consumed) -> float:
    return side.round_trip.p50 * 1000 if side.round_trip else 0.0


def _requests(side: Sent | Consumed) -> int:
    return side.requests if isinstance(side, Sent) else side.pulls + side.empty_pulls + side.commits


def _count(errors: Mapping[str, int], kinds: frozenset[str]) -> int:
    return sum(count for kind, count in errors.items() if kind in kinds)


def _named(errors: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{kind}: {n}' for kind, n in sorted(errors.items()))})" if errors else ""
