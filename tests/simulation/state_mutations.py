"""Defects of state records, take-overs and the fence, as `mutations` lists them."""

from orderly.consumer import offsets
from orderly.errors import LockLost
from orderly.ordering import ownership
from orderly.ordering.broker_calls import QueryOffset, SaveOffset, UnlockQueues
from orderly.ordering.fence import Fence
from orderly.ordering.lanes import Lanes
from orderly.ordering.offset_runs import ConsumedAhead, difference, finished_runs
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.ownership import Resumed
from orderly.ordering.state_records import RecordPart, StateReader, StateWriter
from orderly.protocol.state_record import Confirm


def remember_nothing(set_):
    """What is finished ahead is not put on record."""

    def remember(self, *_, **__):
        yield from ()

    set_(StateWriter, "remember", remember)


def claim_what_is_in_hand(set_):
    """Messages that a handler works on count as finished in the record."""

    def offsets(self):
        lanes = self._lanes.values()
        idle = [o for lane in lanes for o in [*lane.messages.offsets()][lane.messages.in_hand :]]
        return idle + [o for lane in lanes for o in lane.later]

    set_(Lanes, "offsets", offsets)


def claim_what_is_deferred(set_):
    """Messages kept without bodies count as finished in the record."""

    def offsets(self):
        return [o for lane in self._lanes.values() for o in lane.messages.offsets()]

    set_(Lanes, "offsets", offsets)


def forget_what_was_inherited(set_):
    """The record leaves out what former owners finished ahead, if it was not pulled yet."""

    def finished(self):
        return finished_runs(sorted(self.unfinished), self.offset, self.end)

    set_(ConsumedAhead, "finished", property(finished))


def write_changes_only(set_):
    """A record of changes is written even if there is no record to add them to."""

    def changes_to(self, content):
        left = {parked.key for parked in content.kept.parked}
        gone = tuple(p.key for p in self._last.kept.parked if p.key not in left)
        return RecordPart(difference(content.runs, self._last.runs), content.kept.parked, gone)

    set_(StateWriter, "_changes_to", changes_to)


def commit_before_the_record(set_):
    """The offset is committed first, then what is finished ahead of it is written down."""

    def commit(queue, progress, fence, memory, *, now, closing=False, refresh=False):
        stored = yield QueryOffset(queue)
        if not fence.explains(stored):
            raise LockLost("somebody else's progress")
        before = fence.written
        if progress.offset != stored:
            fence.sends(progress.offset)
            yield SaveOffset(queue, progress.offset)
            fence.note(progress.offset, now)
        if memory is not None:
            options = {"fence": fence, "closed": closing, "refresh": refresh}
            known = progress.finished, progress.kept, progress.crashes
            yield from memory.remember(progress.offset, before, *known, **options)

    set_(offsets, "commit", commit)
    set_(ownership, "commit", commit)


def record_after_the_unlock(set_):
    """The queue is unlocked before its last record is written."""

    def hand_on(queue, progress, fence, memory, *, now):
        yield from ()
        if progress is not None:
            yield from ownership.commit(queue, progress, fence, None, now=now)
        yield UnlockQueues(queue.broker_name, (queue,))
        if memory is not None and progress is not None:
            low = progress.offset
            ahead = progress.finished
            yield from memory.remember(low, low, ahead, fence=fence, closed=True)

    set_(offsets, "hand_on", hand_on)


def accept_any_record(set_):
    """Every record counts, even a former owner's behind its heir's confirmation."""

    def counts(self, offset, entry):
        return (yield from self.reach(entry.previous))

    set_(StateReader, "counts", counts)


def write_without_a_look(set_):
    """An owner does not check whether another one was confirmed between its records."""

    def check_gap(self, offset, entry):
        yield from ()

    set_(StateWriter, "_check_gap", check_gap)


def confirm_nothing(set_):
    """The confirmation names no token, so it fences nobody off."""
    set_(ownership, "Confirm", lambda client_id, token: Confirm(client_id, 0))


def inherit_nothing(set_):
    """Work finished ahead is written to the record, but never read."""

    def resume(found, begin, takeovers):
        return Resumed(begin.start, (), reset=False)

    set_(ownership, "resume", resume)


def inherit_after_a_reset(set_):
    """The record is believed even if the broker's offset is below the one in it."""
    resume = ownership.resume

    def careless(found, begin, takeovers):
        if found is None or begin.former is not None or begin.start >= found.entry.low:
            return resume(found, begin, takeovers)
        return Resumed(found.entry.low, found.runs, reset=False)

    set_(ownership, "resume", careless)


def drop_the_inheritance_too_early(set_):
    """What was inherited is forgotten with the first pull."""
    pulled = OwnedQueue.pulled

    def careless(self, *args, **more):
        run = pulled(self, *args, **more)
        self._finished = ()
        return run

    set_(OwnedQueue, "pulled", careless)


def give_everybody_one_token(set_):
    """The token does not rise."""
    memory = ownership.StateWriter

    def same(queue, owner, token, **options):
        made = memory(queue, owner, token, **options)
        made.token = 0
        return made

    set_(ownership, "StateWriter", same)


def compare_nothing(set_):
    """Any offset at the broker counts as this owner's."""
    set_(Fence, "explains", lambda self, stored: True)


def count_answers_only(set_):
    """A commit without an answer counts as somebody else's."""
    set_(Fence, "sends", lambda self, offset: None)
    set_(Fence, "explains", lambda self, stored: stored in (None, self.written))


STATE_MUTATIONS = (
    remember_nothing,
    claim_what_is_in_hand,
    claim_what_is_deferred,
    forget_what_was_inherited,
    write_changes_only,
    commit_before_the_record,
    record_after_the_unlock,
    accept_any_record,
    write_without_a_look,
    confirm_nothing,
    inherit_nothing,
    inherit_after_a_reset,
    drop_the_inheritance_too_early,
    give_everybody_one_token,
    compare_nothing,
    count_answers_only,
)
