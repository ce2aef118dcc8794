"""Copies of one send in a queue's log, and which of them handlers may see.

A copy is not a re-delivery: it has an offset of its own, and the id of a message that is stored
before it. A re-delivery is of one offset.
"""

from collections import defaultdict

from tests.simulation.truth import Broken, number_of

JUDGED = False  # whether a handler that sees a repeat behind later messages breaks a promise


class Repeats:
    """Told by the witness.

    Args:
        world: has `truth` and `happened`.
    """

    def __init__(self, world):
        self._truth = world.truth
        self._happened = world.happened
        self._firsts = defaultdict(dict)  # by queue and message id: the first offset
        self._looked_at = defaultdict(int)  # by queue: how much of its log

    def first(self, queue, offset):
        """The offset of the first copy of a message, in its queue; its own, if it is that."""
        firsts = self._firsts[queue]
        for each in range(self._looked_at[queue], offset + 1):
            firsts.setdefault(self._truth.message(queue, each).message_id, each)
        self._looked_at[queue] = max(self._looked_at[queue], offset + 1)
        return firsts[self._truth.message(queue, offset).message_id]

    def begin_anew(self, queues):
        """The topic is deleted."""
        for queue in queues:
            self._firsts.pop(queue, None)
            self._looked_at.pop(queue, None)

    def check(self, member, place, calls):
        """A message is handled: it is no repeat behind a later message of its key.

        Args:
            member: whose handler it is.
            place: (queue, offset).
            calls: how often each place was handled.
        """
        queue, offset = place
        first, message = self.first(queue, offset), self._truth.message(queue, offset)
        if first == offset:
            return
        self._happened["copy handled"] += 1
        if message.sharding_key is None:
            return
        for between in range(first + 1, offset):
            other = self._truth.message(queue, between)
            later = number_of(other) > number_of(message)
            if other.sharding_key == message.sharding_key and later and calls[queue, between]:
                self._happened["repeat behind"] += 1
                if JUDGED:
                    text = f"{member}: {offset} of {queue}, a copy of {first}, behind {between}"
                    raise Broken("repeat behind", text)
