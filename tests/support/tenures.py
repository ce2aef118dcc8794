"""Judges a run by key, owner after owner: what came again, beside what was on record by then.

A *tenure* is one member's ownership of a queue under one token. All from what members told.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise


@dataclass(frozen=True)
class Saved:
    """A commit that succeeded.

    Attributes:
        asked: when it began (seconds, monotonic): what was finished before is in it.
        low: everything below is finished.
        runs: finished above it since the last record, half-open.
        parked: keys that are newly parked, or have moved on, with the offset that is next in each.
        released: keys that are parked no more.
        whole: `parked` has all that are.
    """

    queue: int
    token: int
    asked: float
    low: int
    runs: tuple
    parked: tuple = ()
    released: tuple = ()
    whole: bool = False


@dataclass
class Tenure:
    """One ownership of a queue.

    Attributes:
        member: whose.
        events, saves: what it told.
        repeats: its deliveries that later owners had again.
        early: those of them that had ended before its last record was begun.
        fresh: its deliveries that ended after that.
        ahead: how many messages were on record as finished ahead at its end.
    """

    queue: int
    token: int
    member: object
    events: list = field(default_factory=list)
    saves: list = field(default_factory=list)
    repeats: int = 0
    early: int = 0
    fresh: int = 0
    ahead: int = 0

    @property
    def began(self):
        return min(event.started for event in self.events)

    @property
    def unsaved_for(self):
        """Seconds from the last commit, or the first delivery, to the last delivery."""
        since = self.saves[-1].asked if self.saves else self.began
        return max(0.0, max((event.ended for event in self.events), default=0.0) - since)


@dataclass
class Judged:
    """All tenures, and what was wrong, in words."""

    tenures: list
    faults: list

    def of(self, member):
        """That member's."""
        return [tenure for tenure in self.tenures if tenure.member is member]


def by_lane(records):
    """The oracle's records with the key as the unit of order instead of the queue."""
    return [replace(record, queue=(record.queue, record.key)) for record in records]


def judge_tenures(members, concurrency):
    """Judge what `MemberProcess`es told.

    Args:
        members: all there were.
        concurrency: handlers that may be in work at once: their results may have come too late
            for a record that was begun after they ended.
    """
    queues, faults = _tenures(members), []
    for tenures in queues.values():
        faults += _wrong_tokens(tenures)
        faults += _recorded_and_repeated(tenures)
        _count(tenures)
    found = [tenure for tenures in queues.values() for tenure in tenures]
    for tenure in found:
        if tenure.early > concurrency:
            faults.append(
                f"queue {tenure.queue}, token {tenure.token}: {tenure.early} messages came again"
                " that had been finished before the last record"
            )
    return Judged(found, faults)


def _tenures(members):
    """By queue, in the order of their tokens."""
    found = {}
    for member in members:
        for token, event in zip(list(member.tokens), list(member.events), strict=False):
            _of(found, event.queue, token, member).events.append(event)
        for saved in list(member.saves):
            _of(found, saved.queue, saved.token, member).saves.append(saved)
    queues = defaultdict(list)
    for (queue, *_), tenure in sorted(found.items(), key=lambda item: item[0][:2]):
        queues[queue].append(tenure)
    return queues


def _of(found, queue, token, member):
    return found.setdefault((queue, token, id(member)), Tenure(queue, token, member))


def _wrong_tokens(tenures):
    """Tokens that two owners had, or that did not rise from one owner to the next."""
    faults, handling = [], [tenure for tenure in tenures if tenure.events]
    for before, after in pairwise(tenures):
        if before.token == after.token:
            faults.append(f"queue {before.queue}: two owners had token {before.token}")
    for before, after in pairwise(handling):
        if after.began < before.began:
            faults.append(
                f"queue {after.queue}: token {after.token} was in use before {before.token}"
            )
    return faults


def _recorded_and_repeated(tenures):
    """Messages that were on record as finished, and that a later owner had all the same.

    Of a key that is parked on record only what was replayed by then is finished.
    """
    faults, low, ahead, parked = [], 0, set(), {}
    for tenure in tenures:
        faults += [
            f"queue {event.queue}: offset {event.offset} was on record, and came again to the"
            f" owner with token {tenure.token}"
            for event in tenure.events
            if event.offset < parked.get(event.key, math.inf)
            and (event.offset < low or event.offset in ahead)
        ]
        for saved in tenure.saves:
            low = max(low, saved.low)
            ahead.update(*(range(*run) for run in saved.runs))
            kept = {} if saved.whole else parked
            parked = {k: n for k, n in kept.items() if k not in saved.released} | dict(saved.parked)
        ahead = {offset for offset in ahead if offset >= low}
        tenure.ahead = len(ahead)
    return faults


def _count(tenures):
    later = set()
    for tenure in reversed(tenures):
        recorded = tenure.saves[-1].asked if tenure.saves else 0.0
        again = [event for event in tenure.events if event.offset in later]
        tenure.repeats = len(again)
        tenure.early = sum(event.ended < recorded for event in again)
        tenure.fresh = sum(event.ended >= recorded for event in tenure.events)
        later.update(event.offset for event in tenure.events)
