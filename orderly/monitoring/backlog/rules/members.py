"""Rules 5 to 7, 12 and 13: what members say. Each: whether it applies, and the cause."""

from __future__ import annotations

from orderly.monitoring.backlog.members import Trouble
from orderly.monitoring.backlog.pace import COMMIT_PERIOD
from orderly.monitoring.backlog.pair import Pair
from orderly.monitoring.texts import counted

_HAND_OVER = 5.0  # seconds: from one live member to the next a queue goes at once
_NOBODYS = (
    "it belongs to nobody, or to a dead member, whose lock is free 60 s after its last renewal"
)


def offline(pair: Pair, place: int) -> bool:
    """5. OFFLINE: a backlog, every broker says that nobody is connected, no commit since."""
    return pair.signs.offline and bool(pair.backlog[place]) and not _moved_since(pair, place)


def _moved_since(pair: Pair, place: int) -> bool:
    """Whether the group committed after its members were asked for: somebody came back.

    A first scan cannot tell: to it everything is new.
    """
    first = pair.now.before == pair.now.at
    return not first and pair.track.moved_at[place] > pair.signs.reading.read_at


def why_offline(pair: Pair, place: int) -> str:
    """How many wait."""
    messages = counted(pair.backlog[place] or 0, "message")
    return f"a backlog of {messages}, and no member of the group is connected"


def orphan(pair: Pair, place: int) -> bool:
    """6. ORPHAN: every member told what it has, twice, and nobody has it; or nobody is to read."""
    queue = pair.topic.reading.queues[place]
    unread = queue in pair.topic.reading.unread and bool(pair.backlog[place])
    return unread or queue in pair.signs.orphans


def any_orphan(pair: Pair) -> bool:
    """Whether any queue can be one."""
    return bool(pair.signs.orphans or pair.topic.reading.unread)


def why_orphan(pair: Pair, place: int) -> str:
    """Not to be read, or nobody has it."""
    queue = pair.topic.reading.queues[place]
    if queue in pair.topic.reading.unread:
        return "messages in a queue that nobody reads: the topic has fewer queues to read"
    seen = pair.signs.reading.running_at - pair.signs.orphans[queue]
    return f"no member has it for {seen:.0f} s: not assigned, or its lock is refused to all"


def unlocked(pair: Pair, place: int) -> bool:
    """12. UNLOCKED: its owner has had no lock for longer than 40 s; or a backlog, and no owner."""
    return pair.topic.reading.queues[place] in pair.signs.unlocked or _unowned(pair, place)


def _unowned(pair: Pair, place: int) -> bool:
    """Whether messages wait where nobody is; a hand-over is over sooner than this."""
    if not pair.backlog[place] or pair.topic.reading.queues[place] not in pair.signs.unowned:
        return False
    if pair.track.moved_at[place] > pair.signs.reading.running_at:  # somebody has it by now
        return False
    age = pair.head_age(place)
    return age is None or age >= _HAND_OVER


def any_unlocked(pair: Pair) -> bool:
    """Whether any queue of the group is."""
    return bool(pair.signs.unlocked or pair.signs.unowned)


def why_unlocked(pair: Pair, place: int) -> str:
    """Who, and how long; or nobody."""
    found = pair.signs.unlocked.get(pair.topic.reading.queues[place])
    return found or _NOBODYS


def blocked(pair: Pair, place: int) -> bool:
    """7. BLOCKED: a handler works on its first message and does not return."""
    return _holds(pair, place, pair.signs.blocked.get(pair.topic.reading.queues[place]))


def any_blocked(pair: Pair) -> bool:
    """Whether any queue of the group is."""
    return bool(pair.signs.blocked)


def why_blocked(pair: Pair, place: int) -> str:
    """Who, and how long."""
    return pair.signs.blocked[pair.topic.reading.queues[place]].text


def suspended(pair: Pair, place: int) -> bool:
    """13. SUSPENDED: the first message fails, and is tried again."""
    queue = pair.topic.reading.queues[place]
    return _holds(pair, place, pair.signs.suspended.get(queue)) or _attempted(pair, place)


def any_suspended(pair: Pair) -> bool:
    """Whether any queue of the group can be."""
    return bool(pair.signs.suspended or pair.signs.heads)


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
    committed = pair.committed[place]
    if trouble is None or not pair.backlog[place] or committed > trouble.offset:
        return False
    if not trouble.at_rest:
        return True
    rested = pair.now.at - pair.track.moved_at[place]
    return committed == trouble.offset and rested >= COMMIT_PERIOD


def _attempted(pair: Pair, place: int) -> bool:
    head = pair.signs.heads.get(pair.topic.reading.queues[place])
    return head is not None and head.offset >= pair.committed[place] and (head.attempts or 0) > 1
