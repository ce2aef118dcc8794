"""Rules 1 to 4, 10 and 11: what offsets say. Each: whether it applies, and the cause in words."""

from __future__ import annotations

from operator import lt

from orderly.monitoring.backlog.pair import Pair
from orderly.monitoring.backlog.reading import NEVER
from orderly.monitoring.texts import counted


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


def recreated(pair: Pair, place: int) -> bool:
    """10. RECREATED: of a topic made anew; the group has not gone on there, or did just now."""
    found = pair.recreation(place)
    if found is None or found.recorded:
        return found is not None
    if found.gone_on_at is not None:
        return found.gone_on_at > pair.now.lately
    return pair.now.at - found.at <= pair.now.settings.window


def any_recreated(pair: Pair) -> bool:
    """Whether any queue of the group is."""
    return bool(pair.signs.reading.recreated)


def why_recreated(pair: Pair, place: int) -> str:
    """Both positions, and what follows."""
    found = pair.recreation(place)
    assert found is not None
    stood = f"the topic was made anew: the group stood at {found.position} in the former one"
    start = f"at {pair.topic.reading.minimum[place]}, the first message"
    if found.gone_on_at is not None:
        return f"{stood}, and went on; it is at {pair.committed[place]} now"
    if found.recorded:
        if pair.signs.offline:
            return f"{stood}; no member is connected, the first that comes will begin {start}"
        return f"{stood}; members begin {start}: nothing to do"
    offset = pair.committed[place]
    now = "has no offset now" if offset == NEVER else f"is at {offset} now"
    if pair.signs.offline:
        return f"{stood}, and {now}; no member is connected: where one begins is its own setting"
    return f"{stood}, and {now}; members of ours that had the queue begin {start}"


def new(pair: Pair, place: int) -> bool:
    """3. NEW: never committed; of a topic made anew it is not the whole truth."""
    return pair.committed[place] == NEVER and not recreated(pair, place)


def why_new(pair: Pair, place: int) -> str:
    """Empty, or in whose hands: a stock client commits only after its first success."""
    if pair.backlog[place] == 0:
        return "never committed, and empty"
    record = pair.record(place)
    if record is not None:  # a broker that was killed may forget an offset
        return f"the broker has no offset; by the state record the group goes on at {record.low}"
    queue, signs = pair.topic.reading.queues[place], pair.signs
    trouble = signs.blocked.get(queue) or signs.suspended.get(queue)
    if trouble is not None:
        return f"never committed, and its first message is stuck: {trouble.text}"
    if queue in signs.owners:
        return f"never committed: {signs.owners[queue]} has it, and has finished nothing yet"
    return "never committed: where the group starts is its own setting"


def lost(pair: Pair, place: int) -> bool:
    """4. LOST: committed below what is stored; deleted before anybody consumed it.

    What was committed in a former topic is no place in the new one.
    """
    below = pair.committed[place] < pair.topic.reading.minimum[place]
    return below and not recreated(pair, place)


def any_lost(pair: Pair) -> bool:
    """Whether any queue's offset is below what is stored."""
    return any(map(lt, pair.committed, pair.topic.reading.minimum))


def why_lost(pair: Pair, place: int) -> str:
    """How many."""
    count = pair.topic.reading.minimum[place] - pair.committed[place]
    return f"{counted(count, 'message')} deleted before anybody consumed them"


def ahead(pair: Pair, place: int) -> bool:
    """11. AHEAD: committed beyond the end; the topic was re-created, or its log cut."""
    return pair.committed[place] > pair.topic.reading.maximum[place]


def why_ahead(pair: Pair, place: int) -> str:
    """How far."""
    beyond = pair.committed[place] - pair.topic.reading.maximum[place]
    return f"committed {beyond} beyond the end: topic re-created, or the log truncated?"
