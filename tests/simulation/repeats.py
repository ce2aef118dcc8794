"""Copies of one send in a queue's log, and which of them handlers may see.

A copy is not a re-delivery: it has an offset of its own, and stands behind a message with the same
id, born time and body. It is a *repeat* if one of the two has the mark of a producer that sends
again; what another program sends with such an id has none, or was born at another time.

A re-delivery is of one offset; that a repeat comes again is no excuse for it.
"""

import math
from collections import defaultdict

from orderly.ordering.repeats import is_marked
from tests.simulation.truth import Broken, number_of

_IN_HAND = 1.0  # seconds in which a repeat is left out that was taken before a seek


class Repeats:
    """Told by the witness.

    Args:
        world: has `truth`, `scenario`, `witness` and `happened`.
    """

    def __init__(self, world):
        self._world = world
        self._truth = world.truth
        self._happened = world.happened
        settings = dict(world.scenario.settings)
        self._by_key = settings["order"] == "key"
        self._judged = settings.get("skip_repeats", True)
        self._copies = defaultdict(dict)  # by queue and send: its offsets
        self._looked_at = defaultdict(int)  # by queue: how much of its log
        self._asked = defaultdict(list)  # by queue: where a person or a program let it go on
        self._sought = {}  # by (process, queue): when it was to go on, and from where
        self._forgotten = set()  # queues of which records were lost
        if self._judged:
            world.truth.passed = self.passed

    # --- what is so ----------------------------------------------------------------------------

    def before(self, queue, offset):
        """The offsets of which a message is a repeat: none of most messages."""
        truth, copies = self._truth, self._copies[queue]
        for each in range(self._looked_at[queue], offset + 1):
            copies.setdefault(_send_of(truth.message(queue, each)), []).append(each)
        self._looked_at[queue] = max(self._looked_at[queue], offset + 1)
        message = truth.message(queue, offset)
        found = (each for each in copies[_send_of(message)] if each < offset)
        return [p for p in found if is_marked(message) or is_marked(truth.message(queue, p))]

    def passed(self, queue, offset):
        """Whether a message need not be handled: what it repeats is done with, or is parked."""
        return any(self._is_settled(queue, each) for each in self.before(queue, offset))

    def _is_settled(self, queue, offset):
        truth = self._truth
        done = offset in truth.finished[queue] or offset in truth.skipped[queue]
        gone = offset < truth.start[queue] or not truth.wanted(queue, offset)
        return done or gone or truth.covered(queue, offset) or self.passed(queue, offset)

    def known(self, process, queue, offset):
        """The offsets of which the owner of a queue must know that a message repeats them.

        Not those below a position that somebody asked for. And by queue a repeat without the mark
        is known only by who has finished the marked copy itself, since it took the queue.
        """
        found, truth = self.before(queue, offset), self._truth
        floors = [truth.start[queue], *(each for each in self._asked[queue] if each <= offset)]
        found = [each for each in found if each >= max(floors)]
        if not found or is_marked(truth.message(queue, offset)):
            return found
        if self._by_key:
            return [] if queue in self._forgotten else found
        return [p for p in found if self._world.witness.has_finished(process, (queue, p))]

    def among(self, logs):
        """The places of the repeats: how they are handled says nothing of the order.

        Args:
            logs: by queue, its messages; also of queues that are deleted.
        """
        if not self._judged:
            return set()
        return {(queue, o) for queue, messages in logs.items() for o in _repeats(messages)}

    # --- what happens --------------------------------------------------------------------------

    def asked_for(self, queue, target):
        """Somebody lets a queue go on from an offset: what is asked for is delivered."""
        self._asked[queue].append(target)
        self._forget_seeks(queue)

    def _forget_seeks(self, queue):
        self._sought = {place: seek for place, seek in self._sought.items() if place[1] != queue}

    def sought(self, process, queue, target):
        """A member's program lets a queue go on from an offset."""
        self._sought[process, queue] = self._world.kernel.now, target

    def records_lost(self, queue):
        """What is on record of a queue is lost, and which marked copies are done with."""
        self._forgotten.add(queue)

    def log_lost(self, queue):
        """A broker has lost the last messages of a queue."""
        self._copies.pop(queue, None)
        self._looked_at.pop(queue, None)

    def begin_anew(self, queues):
        """The topic is deleted."""
        for queue in queues:
            self._copies.pop(queue, None)
            self._looked_at.pop(queue, None)
            self._asked.pop(queue, None)
            self._forget_seeks(queue)

    def check(self, member, place, what="handled"):
        """A message is handled, or parked: it is no repeat, as far as the member can know.

        Raises:
            Broken: "repeat handled", or "repeat behind", if a later message of its key is between.
        """
        queue, offset = place
        if not self._judged or not (found := self.before(queue, offset)):
            return
        known = self.known(member.process, queue, offset)
        self._happened["repeat handled"] += not known
        if known:
            behind = self._behind(queue, known[0], offset)
            kind = f"repeat {what}" if behind is None else "repeat behind"
            text = f"{member}: {offset} of {queue}, which repeats {known}"
            raise Broken(kind, text if behind is None else f"{text}, and is behind {behind}")
        self._world.note(f"nobody need know that {offset} of {queue} repeats {found}")

    def check_left_out(self, process, place):
        """A member leaves a message out: it is a repeat, and nobody asked for it.

        Raises:
            Broken: "left out".
        """
        queue, offset = place
        self._happened["repeat"] += 1
        if self._world.generations.changed:
            return  # the member may not know that yet
        found = self.before(queue, offset)
        at, floor = self._sought.get((process, queue), (math.inf, 0))
        asked = floor <= offset and self._world.kernel.now > at + _IN_HAND
        if not found or (asked and found[-1] < floor):
            text = f"{process.name}: {offset} of {queue}, which repeats {found}"
            raise Broken("left out", f"{text}; it was to go on from {floor}" if found else text)

    def _behind(self, queue, first, offset):
        """A later message of the same key between two copies, or None."""
        copy = self._truth.message(queue, offset)
        for between in range(first + 1, offset) if copy.sharding_key is not None else ():
            other = self._truth.message(queue, between)
            if other.sharding_key == copy.sharding_key and number_of(other) > number_of(copy):
                return between
        return None


def _repeats(messages):
    """The offsets of the repeats in a queue's log."""
    seen, found = defaultdict(list), set()
    for message in messages:
        copies = seen[_send_of(message)]
        if copies and (is_marked(message) or any(map(is_marked, copies))):
            found.add(message.queue_offset)
        copies.append(message)
    return found


def _send_of(message):
    return message.message_id, message.born_time, message.raw_body
