"""The order oracle: judges what was delivered from records alone, knowing nothing of the library.

Per key, first deliveries strictly rise in the order of sending and none is skipped. Per queue, a
delivery goes at most one message forward; it may go back (a failed message at once, others after a
handover), but never below what was committed, and then goes on without a gap. A message that is
stored twice may be left out where a lower copy of it was finished. No two handlers work on one
queue at a time. Pure, and linear in the number of records.

When a broker forgets its locks, a member that is no longer the owner can go on, because it cannot
know. Such deliveries are *excused*: only the others must be in order, and they may pass over
messages that an excused delivery finished before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from orderly.config.arguments import check_kind

R = TypeVar("R")

_EXAMPLES = 10


@dataclass(frozen=True, slots=True)
class Sent:
    """A message whose send was acknowledged; records of one key in the order of sending."""

    key: Hashable
    id: Hashable
    queue: Hashable
    offset: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """One call of a handler; records of one queue in the order in which the calls began.

    `success` says whether the handler reported it as done. `started` and `ended` are seconds on one
    clock; left at 0 they are not judged. An excused delivery has its place where it ended.
    """

    key: Hashable
    id: Hashable
    queue: Hashable
    offset: int
    success: bool = True
    started: float = 0.0
    ended: float = 0.0
    excused: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """The broker acknowledged a committed offset: nothing below it may come again."""

    queue: Hashable
    offset: int


@dataclass(slots=True)
class Verdict:
    """The result of the judgement. `ok` is the answer; the rest says why.

    Attributes:
        sent, delivered, keys, queues: how many there were.
        excused: deliveries whose order is not judged.
        duplicates: deliveries of a message beyond its first (at least once allows them).
        log_duplicates: messages stored twice by a retried send; not an error of the consumer.
        lost: acknowledged sends that no handler finished.
        disorder: first deliveries of a key out of the order of sending.
        skipped: steps over messages of a queue that were not delivered, or had failed.
        rewound: repeats from below the committed offset.
        overlaps: two handlers on one queue at the same time.
        unknown: deliveries of messages that nobody sent.
        examples: the first violations in words.
    """

    sent: int = 0
    delivered: int = 0
    keys: int = 0
    queues: int = 0
    excused: int = 0
    duplicates: int = 0
    log_duplicates: int = 0
    lost: int = 0
    disorder: int = 0
    skipped: int = 0
    rewound: int = 0
    overlaps: int = 0
    unknown: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """True if nothing was lost and no order was broken; duplicates are allowed."""
        faults = (self.lost, self.disorder, self.skipped, self.rewound, self.overlaps, self.unknown)
        return not any(faults)

    def note(self, fault: str, text: str) -> None:
        """Count a violation and keep the first ones in words."""
        setattr(self, fault, getattr(self, fault) + 1)
        if len(self.examples) < _EXAMPLES:
            self.examples.append(f"{fault}: {text}")


def judge(sent: Iterable[Sent], events: Iterable[Delivered | Committed]) -> Verdict:
    """Judge a whole run.

    Args:
        sent: every acknowledged send. The queues must have been consumed from their first message
            on.
        events: every delivery and, where known, every acknowledged commit, in order.

    Raises:
        ConfigError: something else among them.
    """
    sent, events = _records("sent", sent, Sent), _records("events", events, Delivered, Committed)
    delivered = [event for event in events if isinstance(event, Delivered)]
    verdict = Verdict(
        sent=len(sent),
        delivered=len(delivered),
        keys=len({record.key for record in sent}),
        queues=len({record.queue for record in sent}),
        excused=sum(event.excused for event in delivered),
    )
    _judge_messages(verdict, sent, delivered)
    _judge_keys(verdict, sent, delivered)
    _judge_queues(verdict, sent, events)
    return verdict


def _records(name: str, records: Iterable[R], *kinds: type[R]) -> list[R]:
    found = list(records) if isinstance(records, Iterable) else [records]
    for record in found:
        check_kind(f"each of {name}", record, kinds)
    return found


def _judge_messages(verdict: Verdict, sent: list[Sent], delivered: list[Delivered]) -> None:
    known = {record.id for record in sent}
    finished = {record.id for record in delivered if record.success}
    places = {(record.id, record.queue, record.offset) for record in delivered}
    stored = places.union((record.id, record.queue, record.offset) for record in sent)
    ids = {record.id for record in delivered}
    verdict.duplicates = len(delivered) - len(places)
    verdict.log_duplicates = len(stored) - len(ids | known)
    for record in sent:
        if record.id not in finished:
            verdict.note("lost", f"{record.id!r} of key {record.key!r} was never finished")
    for unknown in ids - known:
        verdict.note("unknown", f"{unknown!r} was delivered, but its send is not on record")


def _judge_keys(verdict: Verdict, sent: list[Sent], delivered: list[Delivered]) -> None:
    """First deliveries of a key must be its 1st, 2nd, 3rd … message sent."""
    number: dict[Hashable, int] = {}
    count: dict[Hashable, int] = {}
    home = {record.id: record.queue for record in sent}
    for record in sent:
        number[record.id] = count[record.key] = count.get(record.key, -1) + 1
    reached: dict[Hashable, int] = {}
    passed: dict[Hashable, set[int]] = {}
    seen: set[Hashable] = set()
    for event in delivered:
        if home.get(event.id, event.queue) != event.queue:
            verdict.note(
                "disorder",
                f"{event.id!r} was sent to queue {home[event.id]!r}, came from {event.queue!r}",
            )
        if event.id in seen or event.id not in number:
            continue
        if event.excused:
            if event.success:
                passed.setdefault(event.key, set()).add(number[event.id])
            continue
        seen.add(event.id)
        at, excused = reached.get(event.key, -1), passed.get(event.key, ())
        if number[event.id] < at and number[event.id] in excused:
            continue  # it comes again, and its first delivery was not judged
        expected = at + 1
        while expected < number[event.id] and expected in excused:
            expected += 1
        if number[event.id] != expected:
            verdict.note(
                "disorder",
                f"key {event.key!r}: its message {number[event.id]} ({event.id!r}) came when"
                f" message {expected} was due",
            )
        reached[event.key] = max(number[event.id], at)


@dataclass(slots=True)
class _Queue:
    """One queue's log, and how far its deliveries have got."""

    position: dict[int, int]
    ids: dict[int, Hashable]
    committed: int = -1
    at: int = -1
    failed: bool = False
    busy_until: float = 0.0
    passed: set[int] = field(default_factory=set)
    finished: dict[Hashable, int] = field(default_factory=dict)

    def may_pass(self, position: int) -> bool:
        """Whether a message may be left out: somebody excused had it, or a lower copy is done."""
        first = self.finished.get(self.ids.get(position), position)
        return position in self.passed or first < position


def _judge_queues(verdict: Verdict, sent: list[Sent], events: list[Delivered | Committed]) -> None:
    logs: dict[Hashable, dict[int, Hashable]] = {}
    stored: list[Sent | Delivered] = [*sent, *(e for e in events if isinstance(e, Delivered))]
    for record in stored:
        logs.setdefault(record.queue, {})[record.offset] = record.id
    queues = {}
    for name, log in logs.items():
        positions = {offset: place for place, offset in enumerate(sorted(log))}
        queues[name] = _Queue(positions, {positions[offset]: id_ for offset, id_ in log.items()})
    for event in events:
        queue = queues.setdefault(event.queue, _Queue({}, {}))
        if isinstance(event, Committed):
            queue.committed = event.offset
        else:
            _step(verdict, queue, event)


def _step(verdict: Verdict, queue: _Queue, event: Delivered) -> None:
    where = f"queue {event.queue!r}, offset {event.offset}"
    position = queue.position[event.offset]
    if event.excused:
        if event.success:
            queue.passed.add(position)
        return
    furthest = queue.at if queue.failed else queue.at + 1
    while furthest < position and queue.may_pass(furthest):
        furthest += 1
    if position > furthest:
        passed = "a failed message" if queue.failed else f"{position - furthest} messages"
        verdict.note("skipped", f"{where} came after {passed} had been passed over")
    if event.offset < queue.committed:
        verdict.note("rewound", f"{where} came again, below the committed {queue.committed}")
    if event.ended and event.started < queue.busy_until:
        verdict.note("overlaps", f"{where} began while another handler had the queue")
    queue.at, queue.failed = position, not event.success
    if event.success:
        queue.finished[event.id] = min(position, queue.finished.get(event.id, position))
    queue.busy_until = max(queue.busy_until, event.ended)
