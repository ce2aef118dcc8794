"""Who was granted which lock, who believes in one, and what a member can know of it.

A broker that restarts forgets its locks. The owner learns that with its next renewal; and not even
then if another member had the queue in the meantime and has unlocked it: it was *robbed*, and
nothing but the committed offset, or a state record, tells it.
"""

import math
from collections import Counter

from orderly import MessageQueue
from orderly.client.broker import LOCK_TIMEOUT
from orderly.protocol.body import load_object
from orderly.testing.fake.state import LOCK_LEASE
from tests.simulation.truth import Broken

_TRUST = 31.0  # seconds for which a member may believe in a lock that a broker forgot
_NOTICE = 0.5  # seconds from a refused renewal's arrival until the member acts on it
_SURE = 28.0  # seconds from a renewal on for which nobody doubts the lock


class Grants:
    """Told by the witness of lock requests and their answers.

    Args:
        world: has `kernel`, `truth`, `strikes` and `note`.
    """

    def __init__(self, world):
        self._world = world
        self._kernel = world.kernel
        self._asked_at = {}  # by link and request
        self._answers = {}
        self._granted = {}  # by (process, queue), when the broker granted it last
        self._trusted = Counter()  # when the newest grant that the member heard was asked for
        self._lapsed = set()  # places where there was too long a gap between two of those
        self._refused_at = {}
        self._newest = {}  # by queue, the process that was granted it last
        self._robbed = {}  # places, and whether the member has committed since
        self._hidden = set()  # queues in which one did so, and nobody has taken them since
        self._by_key = dict(world.scenario.settings)["order"] == "key"

    # --- what happens --------------------------------------------------------------------------

    def asked(self, link, command):
        """A member sends a lock request."""
        self._asked_at[link.number, command.request_id] = self._kernel.now

    def answered(self, member, link, command, reply):
        """A broker grants locks, and refuses others."""
        asked = queues_in(command.body, "mqSet")
        granted = queues_in(reply.body, "lockOKMQSet")
        self._answers[link.number, command.request_id] = member.process, asked, granted
        for queue in asked - granted:
            self._granted.pop((member.process, queue), None)
        for queue in granted:
            self._note(member, queue)

    def _note(self, member, queue):
        """Notice a lock that the broker forgot and gave to another, while both believe in it."""
        now, process = self._kernel.now, member.process
        before = self._newest.get(queue, process)
        believes = now - self._granted.get((before, queue), -math.inf) < _TRUST
        if before is not process and believes and not before.dead:
            self._world.note(member, "got a lock of", queue, "that", before.name, "believes in")
            self._robbed[before, queue] = False
        self._granted[process, queue] = now
        self._newest[queue] = process

    def heard(self, link, command):
        """A member gets the answer to its lock request: now it knows, unless it waits no more."""
        request = link.number, command.request_id
        if not command.is_response or request not in self._answers:
            return
        process, asked, granted = self._answers.pop(request)
        asked_at, now = self._asked_at.pop(request), self._kernel.now
        in_time = now - asked_at <= LOCK_TIMEOUT
        for queue in asked & granted:
            place = process, queue
            self._refused_at.pop(place, None)
            if in_time:
                if max(now, process.paused_until) - self._trusted[place] > _SURE:
                    self._lapsed.add(place)
                self._trusted[place] = asked_at
        for queue in asked - granted if in_time else ():
            self._refused_at[process, queue] = now
            self._robbed.pop((process, queue), None)

    def committed(self, process, queue):
        """A member has compared the committed offset with its own, and nobody had changed it.

        Returns whether it was robbed before and did not know: what the robber did does not count.
        """
        if (process, queue) not in self._robbed:
            return False
        unaware = not self._robbed[process, queue]
        self._robbed[process, queue] = True
        self._hidden.add(queue)
        return unaware

    def unlocked(self, process, queue):
        """A member gives a lock back."""
        self._granted.pop((process, queue), None)

    def taken(self, process, queue):
        """A member begins to own a queue."""
        self._robbed.pop((process, queue), None)
        self._lapsed.discard((process, queue))
        self._hidden.discard(queue)

    # --- what is so ----------------------------------------------------------------------------

    def excuses(self, process, queue):
        """Whether the process is not the queue's owner any more, and may not know it.

        It goes on with a batch in which it slept, or does not know that it was robbed. What it has
        no right to begin the witness finds at once.
        """
        unaware = self._robbed.get((process, queue)) is False
        return self._newest.get(queue) is not process or unaware

    def hid(self, queue):
        """Whether a robbed member moved the offset on: to an heir that looks like a reset.

        The robber put on record, by key, from where it went on; the robbed one does not know that.
        """
        return queue in self._hidden

    def rightful(self, member, queue):
        """Whether the member owns the queue, and knows what others did since it took it.

        By key there is more than the offset to know: records, which it reads when it writes one.
        """
        compared = self._robbed.get((member.process, queue))
        robbed = compared is False or (compared is True and self._by_key)
        return self._world.truth.owner(queue) == member.client_id and not robbed

    def undoubted(self, member, queue, began):
        """Whether the member, owner since `began`, has no reason to take the queue for lost."""
        place = member.process, queue
        trusted = self._kernel.now - self._trusted[place] < _SURE and place not in self._lapsed
        forgotten = self._world.strikes.restarted_at[queue.broker_name] > began
        mine = self._world.truth.owner(queue) == member.client_id
        return mine and trusted and not forgotten

    def check_extension(self, member, queue, asked, deadline):
        """A member that renewed a lock owns it; until its deadline nobody else can."""
        if self._world.strikes.restarted_at[queue.broker_name] > asked:
            return
        owner, until = self._world.truth.lease(queue)
        if owner != member.client_id or deadline > until:
            text = f"{member}: {queue} until {deadline:.1f}, of {owner} until {until:.1f}"
            raise Broken("extended in vain", text)

    def could_not_know(self, member, queue):
        """Whether a broker forgot the member's lock, and it was not told so yet."""
        now = self._kernel.now
        forgotten = now - self._world.strikes.restarted_at[queue.broker_name] < _TRUST
        refused_at = self._refused_at.get((member.process, queue), math.inf)
        told = max(refused_at, member.process.paused_until) < now - _NOTICE
        return forgotten and not told

    def may_overlap(self, member, other, queue):
        """Whether one of two owners lost its lock without unlocking: it ran out, or was forgotten.

        Args:
            member: whose handler is called.
            other: the process that has one running.
            queue: of both.
        """
        if {(member.process, queue), (other, queue)} & self._robbed.keys():
            return True
        granted = self._granted.get((other, queue), -math.inf)
        forgotten = self._world.strikes.restarted_at[queue.broker_name] > granted
        ran_out = self._kernel.now - granted > LOCK_LEASE
        return forgotten or ran_out or self.could_not_know(member, queue)


def queues_in(body, name):
    """The queues that a body of a lock or unlock names."""
    found = load_object(body).get(name) or ()
    return {MessageQueue(q["topic"], q["brokerName"], q["queueId"]) for q in found}
