"""Topics that are deleted and made again: what was is of the past, and who does not know it yet.

A queue that begins anew keeps its name; all that was noted of it moves to a name of the past, with
its messages. So the others go on to judge what is, and the past is judged for itself.

A member is not told. Whoever owned the queue is *blind* until it takes the queue anew, from
another offset than one of the past. What a blind member handles proves nothing and counts for
nothing, for it must come again in its turn; the offsets it commits are *stale*. If it cannot even
prove that the topic is another one, what it passes over is excused: nothing was finished in its
time that is older than the new messages. By key an heir has the records for that; by queue it has
nothing, but for what it remembers of a queue that it owned before.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

from orderly import MessageQueue
from orderly.protocol.properties import UNIQ_KEY
from tests.simulation.truth import TOPIC

_BLIND = f"{TOPIC}~blind"
_PLACE_DIGITS = 16  # at the end of an offset id


@dataclass
class Belief:
    """What a member takes for the present.

    Attributes:
        end: of the former log; what was on its way to the member is below that.
        proof: whether it knows a message of the former generation.
    """

    end: int
    proof: bool


def is_blind(queue):
    """Whether that stands for what blind members handled."""
    return queue.topic == _BLIND


def _of_the_blind(queue):
    return MessageQueue(_BLIND, queue.broker_name, queue.queue_id)


class Generations:
    """Told by the strikes and the witness.

    Args:
        world: has `truth`, `members`, `scenario`, `happened` and `note`, and a `witness` later.

    Attributes:
        past: the messages of each former queue.
        ended_at: when the topic was deleted last.
    """

    def __init__(self, world):
        self._world = world
        self._truth = world.truth
        self._by_key = dict(world.scenario.settings)["order"] == "key"
        self._began = {name: [0] for name in world.cluster.brokers}  # places in the whole
        self._blind = {}
        self._was_blind = set()  # (process, former queue) of who did not know that one either
        self._knowing = set()  # (process, queue) of owners that know the present generation
        self._stale = set()
        self._recorded = set()  # queues with state records of a former generation
        self._entries = defaultdict(list)  # by broker: of deleted queues
        self.past = {}
        self.ended_at = -math.inf

    @property
    def _present(self):
        return len(next(iter(self._began.values()))) - 1

    @property
    def changed(self):
        """Whether the topic was ever deleted."""
        return self._present > 0

    def end(self):
        """The topic is about to be deleted."""
        self.ended_at = self._world.kernel.now
        self._stale.clear()
        self._knowing.clear()
        witness = self._world.witness
        former = {queue: self._former(queue, self._present) for queue in self._truth.queues()}
        for queue, past in former.items():
            if witness.ledger.has_claims(queue):
                self._recorded.add(queue)
            self._note_beliefs(queue)
            self.past[past] = self._truth.messages(queue)
            self._entries[queue.broker_name] += self._truth.log(queue).having(b"")
        self._truth.archive(former, self.past)
        witness.archive(former)
        for name, state in self._world.cluster.brokers.items():
            self._began[name].append(state.store._end)

    def indexed(self, broker, message_id):
        """What a broker's index still finds of deleted queues."""
        text = f"{UNIQ_KEY}\x01{message_id}\x02".encode()
        return [entry for entry in self._entries[broker] if text in entry.data]

    def _note_beliefs(self, queue):
        end = self._truth.log(queue).max_offset
        for member in self._world.members:
            held = member.consumer and member.consumer._session.find(queue)
            place = member.process, queue
            before = self._blind.pop(place, None)
            if before is not None:
                self._was_blind.add((member.process, self._former(queue, self._present)))
            if member.process is None or member.process.dead:
                continue
            proof = bool(before and before.proof) or self._world.witness.has_seen(*place)
            if held is None:
                known = member.consumer and member.consumer._session.known.get(queue)
                if known and known.offset and not proof and not self._by_key:
                    self._blind[place] = Belief(known.offset, proof)  # where it will go on
            elif held.owned.next_pull:
                self._blind[place] = Belief(end, proof)
            else:
                self._knowing.add(place)  # it stands where the new one begins

    @staticmethod
    def _former(queue, generation):
        return MessageQueue(f"{TOPIC}~{generation}", queue.broker_name, queue.queue_id)

    # --- what belongs where --------------------------------------------------------------------

    def of_place(self, queue, offset_id):
        """The queue, present or past, that a send's offset id is of."""
        place = int(offset_id[-_PLACE_DIGITS:], 16)
        number = bisect_right(self._began[queue.broker_name], place) - 1
        return queue if number == self._present else self._former(queue, number)

    def home(self, process, message):
        """Where a message that a member begins to handle is counted."""
        queue = message.queue
        if not self.changed or process is None:
            return queue
        number = bisect_right(self._began[queue.broker_name], message.physical_offset) - 1
        if number < self._present:
            former = self._former(queue, number)
            return _of_the_blind(queue) if (process, former) in self._was_blind else former
        belief = self._blind.get((process, queue))
        if belief is None:
            return queue
        if belief.proof:
            self._world.happened["handled blindly"] += 1
            return _of_the_blind(queue)
        self._excuse(process, queue, belief.end)
        return queue

    def _excuse(self, process, queue, offset):
        """A member goes on from where it was, and has no means to know better."""
        self._blind.pop((process, queue), None)
        self._knowing.add((process, queue))
        self._world.happened["topic anew, excused"] += 1
        self._world.note("nobody can know what", queue, "has below", offset)
        self._truth.start[queue] = max(self._truth.start[queue], offset)

    # --- what members do -----------------------------------------------------------------------

    def finished(self, process, home, queue):
        """A member is done with a message."""
        belief = self._blind.get((process, queue))
        if belief is not None and home in self.past:
            belief.proof = True

    def taken(self, process, queue):
        """A member begins to own a queue."""
        if not self.changed:
            return
        before = self._blind.pop((process, queue), None)
        stored = self._truth.stored(queue)
        proof = bool(before and before.proof) or (self._by_key and queue in self._recorded)
        if queue not in self._stale or not stored:
            self._knowing.add((process, queue))
            self._world.happened["topic anew"] += before is not None
        elif proof:
            self._blind[process, queue] = Belief(stored, proof=True)
        else:
            self._excuse(process, queue, stored)

    def knows(self, process, queue):
        """Whether what a member says of a queue is of the present generation."""
        return not self.changed or (process, queue) in self._knowing

    def is_stale(self, process, queue, offset):
        """Whether a commit that arrives is one of a former generation."""
        if not self._truth.exists:
            return True
        belief = self._blind.get((process, queue))
        if belief is None:
            self._stale.discard(queue)
            return False
        if not belief.proof and offset:  # or it has found out
            self._excuse(process, queue, belief.end)
            return False
        end = self._truth.log(queue).max_offset
        if offset <= end and not self._truth.unsettled(queue, offset):
            self._stale.discard(queue)
            return False
        self._world.note("a stale commit:", offset, "of", queue)
        self._stale.add(queue)
        return True

    def went_back(self, queue, stored, reached):
        """The broker was killed; returns whether what it has of a group is of the past."""
        stale = self.changed and stored > reached
        if stale:
            self._stale.add(queue)
        return stale
