"""The table of rules. The first one that applies gives a queue its state.

The critical ones come before those worth a warning. What a warning knows is told beside them.

Each is two functions of a pair and a queue's place in it: whether it applies, and the cause in
words (for a row that somebody looks at, not for a hundred thousand of them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from orderly.monitoring.backlog.pair import Pair
from orderly.monitoring.backlog.reading import NEVER
from orderly.monitoring.backlog.rules import members, offsets, window
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict

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


def _unmeasured(pair: Pair) -> bool:
    return None in pair.backlog


def _waiting(pair: Pair) -> bool:
    return any(pair.backlog)


def fine(_pair: Pair, _place: int) -> bool:
    """17. OK: nothing is wrong."""
    return True


def no_cause(_pair: Pair, _place: int) -> str:
    """Nothing to tell."""
    return ""


RULES = (
    Rule(QueueState.UNKNOWN, offsets.unreadable, offsets.why_unreadable, _unmeasured),
    Rule(
        QueueState.NOT_APPLICABLE, offsets.not_applicable, offsets.why_not_applicable, _unmeasured
    ),
    Rule(QueueState.NEW, offsets.new, offsets.why_new, lambda p: NEVER in p.committed),
    Rule(QueueState.LOST, offsets.lost, offsets.why_lost, offsets.any_lost),
    Rule(QueueState.OFFLINE, members.offline, members.why_offline, lambda p: p.signs.offline),
    Rule(QueueState.ORPHAN, members.orphan, members.why_orphan, members.any_orphan),
    Rule(QueueState.BLOCKED, members.blocked, members.why_blocked, members.any_blocked),
    Rule(QueueState.EXPIRING, window.expiring, window.why_expiring, window.any_expiring),
    Rule(QueueState.STALL, window.stall, window.why_stall, _waiting),
    Rule(QueueState.RECREATED, offsets.recreated, offsets.why_recreated, offsets.any_recreated),
    Rule(QueueState.AHEAD, offsets.ahead, offsets.why_ahead, _unmeasured),
    Rule(QueueState.UNLOCKED, members.unlocked, members.why_unlocked, members.any_unlocked),
    Rule(QueueState.SUSPENDED, members.suspended, members.why_suspended, members.any_suspended),
    Rule(QueueState.REWIND, window.rewind, window.why_rewind, lambda p: bool(p.track.rewinds)),
    Rule(QueueState.GROWING, window.growing, window.why_growing, _waiting),
    Rule(QueueState.LAGGING, window.lagging, window.why_lagging, window.any_threshold),
    Rule(QueueState.OK, fine, no_cause),
)

_UNDECIDED = len(RULES)


def codes_of(pair: Pair) -> bytes:
    """The number (from 0) of the first rule that applies to each queue."""
    codes = bytearray((_UNDECIDED,)) * len(pair.committed)
    left: Sequence[int] = range(len(codes))
    for code, rule in enumerate(RULES):
        if not left:
            break
        if rule.possible(pair):
            applies = rule.applies
            for place in left:
                if applies(pair, place):
                    codes[place] = code
            left = [place for place in left if codes[place] == _UNDECIDED]
    return bytes(codes)


def state_and_cause(pair: Pair, place: int) -> tuple[QueueState, str]:
    """The state of a queue, and why: what is critical, and what is known beside it."""
    rule = RULES[pair.codes[place]]
    causes = [rule.cause(pair, place)]
    if VERDICTS[rule.state] is Verdict.CRITICAL:
        causes += [
            other.cause(pair, place)
            for other in _TOLD_BESIDE
            if other.possible(pair) and other.applies(pair, place)
        ]
    if rule.state is QueueState.STALL and len(causes) == 1:
        causes.append("the cause is unseen")
    return rule.state, "; ".join(causes)


_TOLD_BESIDE = tuple(
    rule for rule in RULES
    if rule.state in (QueueState.RECREATED, QueueState.UNLOCKED, QueueState.SUSPENDED)
)  # fmt: skip


_SETTLED = {
    code for code, rule in enumerate(RULES)
    if rule.state in (
        QueueState.UNKNOWN, QueueState.NOT_APPLICABLE, QueueState.NEW, QueueState.LOST,
        QueueState.AHEAD, QueueState.OFFLINE,
    )
}  # fmt: skip


def settled(pair: Pair) -> bool:
    """Whether time alone can change no state: nobody waits for a window to pass."""
    return _SETTLED.issuperset(pair.codes) or not (any(pair.backlog) or pair.track.rewinds)
