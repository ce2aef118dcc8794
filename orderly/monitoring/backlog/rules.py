"""The rules that give a queue its state, numbered, in order: the first that applies.

Each is two functions of a pair and a queue's place in it: whether it applies, and the cause in
words (for a row that somebody looks at, not for a hundred thousand of them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from orderly.monitoring.backlog.members import Trouble
from orderly.monitoring.backlog.pair import Pair
from orderly.monitoring.backlog.reading import NEVER
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog.thresholds import Measure
from orderly.monitoring.backlog.track import NOT_MEASURED

Applies = Callable[[Pair, int], bool]
Cause = Callable[[Pair, int], str]


def always(_pair: Pair) -> bool:
    """A rule that may apply to any pair."""
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """A state, when it is given, and why.

    Attributes:
        state: given by it.
        applies: to a queue of a pair.
        cause: in words.
        possible: whether it can apply to any queue of a pair at all: spares looking at each.
    """

    state: QueueState
    applies: Applies
    cause: Cause
    possible: Callable[[Pair], bool] = always


# --- what the offsets say ------------------------------------------------------------------------


def unreadable(pair: Pair, place: int) -> bool:
    """1. UNKNOWN: an offset, or a state record that counts, could not be read."""
    reading = pair.topic.reading
    if pair.committed[place] < NEVER or reading.minimum[place] < 0 or reading.maximum[place] < 0:
        return True
    return _by_record(pair, place) and pair.backlog[place] is None


def _by_record(pair: Pair, place: int) -> bool:
    """Whether the backlog is a matter of the state record."""
    within = 0 <= pair.committed[place] <= pair.topic.reading.maximum[place]
    applicable = not pair.signs.broadcasting and pair.signs.wants(pair.topic.reading.topic)
    return within and applicable and pair.signs.by_key(pair.topic.reading.topic)


def why_unreadable(pair: Pair, place: int) -> str:
    """Which of the two."""
    queue = pair.topic.reading.queues[place]
    if _by_record(pair, place) and pair.topic.reading.maximum[place] >= 0:
        return "its state record could not be read, so what is finished ahead is not known"
    return f"broker {queue.broker_name} did not answer"


def not_applicable(pair: Pair, _place: int) -> bool:
    """2. NOT_APPLICABLE: the broker's offsets of a broadcasting group are left-overs."""
    return pair.signs.broadcasting or not pair.signs.wants(pair.topic.reading.topic)


def why_not_applicable(pair: Pair, _place: int) -> str:
    """Broadcasting, or no longer subscribed."""
    if pair.signs.broadcasting:
        return "the group broadcasts: members keep their offsets themselves"
    return "the group no longer subscribes to the topic"


def new(pair: Pair, place: int) -> bool:
    """3. NEW: never committed."""
    return pair.committed[place] == NEVER


def why_new(pair: Pair, place: int) -> str:
    """Empty, or not."""
    if pair.backlog[place] == 0:
        return "never committed, and empty"
    return "never committed: where the group starts is its own setting"


def lost(pair: Pair, place: int) -> bool:
    """4. LOST: committed below what is stored; deleted before anybody consumed it."""
    return pair.committed[place] < pair.topic.reading.minimum[place]


def why_lost(pair: Pair, place: int) -> str:
    """How many."""
    count = pair.topic.reading.minimum[place] - pair.committed[place]
    return f"{count} messages were deleted before they were consumed"


def ahead(pair: Pair, place: int) -> bool:
    """5. AHEAD: committed beyond the end; the topic was re-created, or its log cut."""
    return pair.committed[place] > pair.topic.reading.maximum[place]


def why_ahead(pair: Pair, place: int) -> str:
    """How far."""
    beyond = pair.committed[place] - pair.topic.reading.maximum[place]
    return f"committed {beyond} beyond the end: topic re-created, or the log truncated?"


# --- what the members say ------------------------------------------------------------------------


def offline(pair: Pair, place: int) -> bool:
    """6. OFFLINE: a backlog, and every broker says that nobody is connected."""
    return pair.signs.offline and bool(pair.backlog[place])


def why_offline(pair: Pair, place: int) -> str:
    """How many wait."""
    return f"{pair.backlog[place]} messages wait, and no member of the group is connected"


def orphan(pair: Pair, place: int) -> bool:
    """7. ORPHAN: every member told what it has, twice, and nobody has it; or nobody is to read."""
    queue = pair.topic.reading.queues[place]
    unread = queue in pair.topic.reading.unread and bool(pair.backlog[place])
    return unread or queue in pair.signs.orphans


def why_orphan(pair: Pair, place: int) -> str:
    """Not to be read, or nobody has it."""
    queue = pair.topic.reading.queues[place]
    if queue in pair.topic.reading.unread:
        return "messages in a queue that nobody reads: the topic has fewer queues to read"
    seen = pair.signs.reading.running_at - pair.signs.orphans[queue]
    return f"members are connected, and none of them has had it for {seen:.0f} s"


def unlocked(pair: Pair, place: int) -> bool:
    """8. UNLOCKED: its owner in an ordered group has had no lock for longer than 40 s."""
    return pair.topic.reading.queues[place] in pair.signs.unlocked


def why_unlocked(pair: Pair, place: int) -> str:
    """Who, and how long."""
    return pair.signs.unlocked[pair.topic.reading.queues[place]]


def blocked(pair: Pair, place: int) -> bool:
    """9. BLOCKED: a handler works on its first message and does not return."""
    return _holds(pair, place, pair.signs.blocked.get(pair.topic.reading.queues[place]))


def why_blocked(pair: Pair, place: int) -> str:
    """Who, and how long."""
    return pair.signs.blocked[pair.topic.reading.queues[place]].text


def suspended(pair: Pair, place: int) -> bool:
    """10. SUSPENDED: the first message fails, and is tried again."""
    queue = pair.topic.reading.queues[place]
    return _holds(pair, place, pair.signs.suspended.get(queue)) or _attempted(pair, place)


def why_suspended(pair: Pair, place: int) -> str:
    """Who, how often, how long."""
    queue = pair.topic.reading.queues[place]
    found = pair.signs.suspended.get(queue)
    if _holds(pair, place, found):
        assert found is not None
        return found.text
    return f"its first message was tried {pair.signs.heads[queue].attempts} times"


def _holds(pair: Pair, place: int, trouble: Trouble | None) -> bool:
    """Whether what a member told is still so."""
    if trouble is None or not pair.backlog[place] or pair.committed[place] > trouble.offset:
        return False
    return not trouble.at_rest or pair.track.moved_at[place] < pair.now.at


def _attempted(pair: Pair, place: int) -> bool:
    head = pair.signs.heads.get(pair.topic.reading.queues[place])
    return head is not None and head.offset >= pair.committed[place] and (head.attempts or 0) > 1


def parked(pair: Pair, place: int) -> bool:
    """11. PARKED: keys wait until somebody releases them."""
    record = pair.record(place)
    return record is not None and bool(record.parked)


def why_parked(pair: Pair, place: int) -> str:
    """How many."""
    record = pair.record(place)
    keys = record.parked if record else ()
    return f"{len(keys)} keys with {sum(key.messages for key in keys)} messages are parked"


# --- what the window says ------------------------------------------------------------------------


def rewind(pair: Pair, place: int) -> bool:
    """12. REWIND: the committed offset went back in the window, and has not caught up."""
    found = pair.track.rewinds.get(place)
    return found is not None and pair.now.at - found[1] <= pair.now.settings.window


def why_rewind(pair: Pair, place: int) -> str:
    """From where."""
    high, at = pair.track.rewinds[place]
    return f"committed was {high} {pair.now.at - at:.0f} s ago, and went back: a reset?"


def stall(pair: Pair, place: int) -> bool:
    """13. STALL: a backlog all the time, and neither a commit nor anything finished."""
    track, long_ago = pair.track, pair.now.long_ago
    return (
        track.backlog[place] > 0
        and track.moved_at[place] <= long_ago
        and track.eased_at[place] <= long_ago
    )


def why_stall(pair: Pair, place: int) -> str:
    """How long."""
    since = max(pair.track.moved_at[place], pair.track.eased_at[place])
    return f"a backlog, and nothing committed for {pair.now.at - since:.0f} s; the cause is unseen"


def growing(pair: Pair, place: int) -> bool:
    """14. GROWING: the backlog got larger, and not once smaller."""
    track = pair.track
    return (
        track.eased_at[place] <= pair.now.long_ago
        and track.backlog[place] > track.eased_to[place] > NOT_MEASURED
    )


def why_growing(pair: Pair, place: int) -> str:
    """From what to what."""
    then, seconds = pair.track.eased_to[place], pair.now.at - pair.track.eased_at[place]
    return f"the backlog grew from {then} to {pair.backlog[place]} in {seconds:.0f} s"


_OF_A_QUEUE: dict[Measure, Callable[[Pair, int], float | None]] = {
    Measure.BACKLOG: lambda pair, place: pair.backlog[place],
    Measure.HEAD_AGE: Pair.head_age,
    Measure.DRAIN_ETA: Pair.drain_eta,
    Measure.RETENTION_ETA: Pair.retention_eta,
}


def _exceeded(pair: Pair, place: int) -> Measure | None:
    for measure, value_of in _OF_A_QUEUE.items():
        limits = pair.now.settings.thresholds.limits.get(measure)
        value = value_of(pair, place) if limits else None
        if limits is None or value is None:
            continue
        if any(limit is not None and limit.alerts(value) for limit in (limits.warn, limits.crit)):
            return measure
    return None


def lagging(pair: Pair, place: int) -> bool:
    """15. LAGGING: above a threshold, but getting smaller."""
    return _exceeded(pair, place) is not None


def why_lagging(pair: Pair, place: int) -> str:
    """Which threshold."""
    measure = _exceeded(pair, place)
    assert measure is not None
    value = _OF_A_QUEUE[measure](pair, place)
    limits = pair.now.settings.thresholds.limits[measure]
    return f"{measure} is {value:.10g}, beyond {limits.warn or limits.crit}"


def fine(_pair: Pair, _place: int) -> bool:
    """16. OK: nothing is wrong."""
    return True


def no_cause(_pair: Pair, _place: int) -> str:
    """Nothing to tell."""
    return ""


RULES = (
    Rule(QueueState.UNKNOWN, unreadable, why_unreadable, lambda p: None in p.backlog),
    Rule(QueueState.NOT_APPLICABLE, not_applicable, why_not_applicable, lambda p: None in p.backlog),
    Rule(QueueState.NEW, new, why_new, lambda p: NEVER in p.committed),
    Rule(QueueState.LOST, lost, why_lost),
    Rule(QueueState.AHEAD, ahead, why_ahead, lambda p: None in p.backlog),
    Rule(QueueState.OFFLINE, offline, why_offline, lambda p: p.signs.offline),
    Rule(
        QueueState.ORPHAN, orphan, why_orphan,
        lambda p: bool(p.signs.orphans or p.topic.reading.unread),
    ),
    Rule(QueueState.UNLOCKED, unlocked, why_unlocked, lambda p: bool(p.signs.unlocked)),
    Rule(QueueState.BLOCKED, blocked, why_blocked, lambda p: bool(p.signs.blocked)),
    Rule(
        QueueState.SUSPENDED, suspended, why_suspended,
        lambda p: bool(p.signs.suspended or p.signs.heads),
    ),
    Rule(QueueState.PARKED, parked, why_parked, lambda p: bool(p.signs.records)),
    Rule(QueueState.REWIND, rewind, why_rewind, lambda p: bool(p.track.rewinds)),
    Rule(QueueState.STALL, stall, why_stall, lambda p: any(p.backlog)),
    Rule(QueueState.GROWING, growing, why_growing, lambda p: any(p.backlog)),
    Rule(
        QueueState.LAGGING, lagging, why_lagging,
        lambda p: bool(p.now.settings.thresholds.limits),
    ),
    Rule(QueueState.OK, fine, no_cause),
)  # fmt: skip


def codes_of(pair: Pair) -> bytes:
    """The number (from 0) of the first rule that applies to each queue."""
    rules = [(n, rule.applies) for n, rule in enumerate(RULES) if rule.possible(pair)]
    return bytes(
        next(code for code, applies in rules if applies(pair, place))
        for place in range(len(pair.committed))
    )


def state_and_cause(pair: Pair, place: int) -> tuple[QueueState, str]:
    """The state of a queue, and why."""
    rule = RULES[pair.codes[place]]
    return rule.state, rule.cause(pair, place)
