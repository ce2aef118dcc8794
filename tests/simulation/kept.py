"""What handlers keep in hand under manual commit: done, and not to be committed yet.

It is finished with a later commit of the same lane, in the same ownership of the queue; a success
under auto-commit is one, too. After a rollback, a kill or a change of owners it must come again.
"""

from collections import defaultdict
from enum import Enum

from orderly import ConsumeResult


class End(Enum):
    """How a call ends: what becomes of the messages it is done with."""

    COMMITTED = "finished, and all that was kept before"
    KEPT = "to be committed later"
    ROLLED_BACK = "to come again, and all that was kept before"
    FAILED = "to come again"
    FAILED_PARTLY = "finished; the others come again"
    TRIED = "there are none"

    @classmethod
    def of(cls, answer):
        """What a manual answer means."""
        ends = {ConsumeResult.SUCCESS: cls.KEPT, ConsumeResult.ROLLBACK: cls.ROLLED_BACK}
        return ends.get(answer, cls.COMMITTED)


class Kept:
    """Told by the witness.

    Args:
        world: has `truth` and `happened`.
    """

    def __init__(self, world):
        self._truth = world.truth
        self._happened = world.happened
        self._offsets = defaultdict(list)  # by process, queue, lane and whether it is a replay

    def of(self, process):
        """Whether anything is kept in a process."""
        return any(offsets for place, offsets in self._offsets.items() if place[0] is process)

    def before(self, place):
        """Whether something is kept of a queue, below an offset."""
        queue, offset = place
        return any(
            p[1] == queue and min(o, default=offset) < offset for p, o in self._offsets.items()
        )

    def forget(self, process, queue=None):
        """A process has ended, or takes a queue anew: what it kept is to come again."""
        gone = [p for p in self._offsets if p[0] is process and queue in (None, p[1])]
        kept = [self._offsets.pop(place) for place in gone]
        if any(kept):
            self._happened["kept until the end"] += 1

    def handled(self, call, offset):
        """A message is handled; returns whether it was in hand, where it should have stayed.

        One that was parked with a later one is not in hand any more.
        """
        replay = self._offsets.get(self._place(call, replayed=True), [])
        if offset in replay:  # a release begins anew
            del replay[replay.index(offset) :]
        kept = self._offsets.get(self._place(call, replayed=False), [])
        if offset not in kept:
            return False
        kept.remove(offset)
        return not call.replayed

    def ends(self, call, end):
        """A call is over; returns the offsets that are finished with it."""
        kept = self._offsets[self._place(call, replayed=call.replayed)]
        match end:
            case End.COMMITTED:
                settled = [o for o in kept if call.replayed or not self._is_parked(call, o)]
                self._note(kept, "kept and committed")
                kept.clear()
                return settled + call.done
            case End.FAILED_PARTLY:
                return call.done
            case End.KEPT:
                kept += call.done
                self._note(kept, "kept")
            case End.ROLLED_BACK:
                self._note(kept, "kept and rolled back")
                kept.clear()
        return []

    def _is_parked(self, call, offset):
        """Whether a message that was kept went to the park queue with one behind it."""
        return self._truth.covered(call.queue, offset)

    def _note(self, kept, event):
        if kept:
            self._happened[event] += 1

    def _place(self, call, *, replayed):
        return call.process, call.queue, call.lane, replayed
