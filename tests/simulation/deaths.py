"""Processes that end while they handle a message, and what is on record of that.

A message that ends each process is handled by two owners before anybody looks for it, and by two
more before it is parked. Only what was handled, by the record, when two owners ended is parked so.
"""

import random
from collections import Counter

from tests.simulation.scenario import ACTS, COPIES
from tests.simulation.truth import Broken, number_of

BEFORE_IT_IS_PARKED = 2 + 2  # deaths: until the crash loop is noticed, and one message condemned
A_RELEASE = 3 + 1  # deaths by one release, until it is refused; the first may have got further
CONDEMNED = "the process died"  # how the reason begins for which such a message is parked


def ends_processes(scenario, message):
    """Whether a message ends the process that handles it, until a better handler is deployed."""
    if message.sharding_key is None or not message.sharding_key.startswith("k0."):
        return False
    rng = random.Random(f"{scenario.seed} killers")
    numbers = rng.sample(range(scenario.messages), min(scenario.killers, scenario.messages))
    return number_of(message) in numbers


class Deaths:
    """Told by the ledger and by members.

    Args:
        world: has `note`, `happened` and `scenario`.
    """

    def __init__(self, world):
        self._world = world
        self._trying = {}  # by queue: the record of the suspect that its owner handles
        self._blamed = Counter()  # by (queue, offset)
        self._streak = Counter()  # deaths by a message that nothing has excused since
        self._replays = Counter()
        self._reached = Counter()

    # --- what is on record ---------------------------------------------------------------------

    def tries(self, queue, record):
        """An owner says which suspect it is about to handle, or that it came back."""
        self._trying[queue] = record
        self._world.happened["suspect tried"] += 1

    def confirmed(self, queue, record):
        """A queue has a new owner: the one before did not come back from what it tried."""
        tried = self._trying.pop(queue, None)
        if tried is not None and tried.offset is not None and tried.owner != record.owner:
            self._blamed[queue, tried.offset] += 1

    def entered(self, queue, entry):
        """An owner has put its progress on record."""
        self.moved(queue, entry.low)
        if entry.closed:
            self._trying.pop(queue, None)
            self.excuse(queue)

    def moved(self, queue, offset):
        """All below an offset is finished: if that is news, counting begins anew."""
        if offset > self._reached[queue]:
            self._reached[queue] = offset
            self.excuse(queue)

    def excuse(self, queue):
        """What was noted of former owners of a queue may be forgotten."""
        for place in [place for place in self._streak if place[0] == queue]:
            del self._streak[place]

    # --- what happens --------------------------------------------------------------------------

    def killed(self, member, place, *, replayed, commands):
        """A message ends the process that handles it.

        Args:
            member: whose process.
            place: of the message.
            replayed: it was parked, and is released.
            commands: how often its key was to be released.
        """
        self._world.note(member, "is ended by", place[1], "of", place[0])
        if replayed:
            self._replays[place] += 1
            deaths, allowed = self._replays[place], A_RELEASE * commands
        else:
            self._streak[place] += 1
            deaths, allowed = self._streak[place], BEFORE_IT_IS_PARKED
        if deaths > allowed:
            text = f"{place[1]} of {place[0]} has ended {deaths} processes, released: {replayed}"
            raise Broken("crash loop", text)

    def check_blame(self, queue, parked):
        """A message is parked: not as the end of processes, unless two were blamed on it.

        Nor if it harms nobody, where nothing but messages ends processes.
        """
        if not parked.details.reason.startswith(CONDEMNED):
            return
        blamed, scenario = self._blamed[queue, parked.offset], self._world.scenario
        quiet = all(fault.kind in (*ACTS, *COPIES) for fault in scenario.faults)
        innocent = quiet and not ends_processes(scenario, parked.original)
        if blamed < 2 or innocent:
            text = f"{parked.offset} of {queue} is condemned, blamed for {blamed} deaths"
            raise Broken("condemned", text)
