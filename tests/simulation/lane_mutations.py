"""Defects of lanes, and of bodies that are pulled again, as `mutations` lists them."""

from unittest import mock

from orderly.client import broker
from orderly.consumer.finishing import Finisher
from orderly.consumer.puller import Puller
from orderly.model import UndecodableMessage
from orderly.ordering.lane import Lane
from orderly.ordering.lanes import Lanes
from orderly.ordering.owned_queue import OwnedQueue
from orderly.protocol import stored_message


def two_batches_of_a_key(set_):
    """A lane hands out its next batch while one of it is in work."""
    ready = property(lambda self: self.wake_at is None and self.messages.pending > 0)
    set_(Lane, "ready", ready)


def wake_nobody(set_):
    """A lane whose suspension is over is not put back into the line."""

    def wake(self, now):
        while self._asleep and self._asleep[0][0] <= now:
            self._asleep.pop(0)[2].wake_at = None

    set_(Lanes, "wake", wake)


def suspend_nobody(set_):
    """A lane that failed does not wait: its next message runs."""
    take = Lanes.take

    def take_the_next(self, size, now, calls=1, **how):
        lane = self._ready[0] if self._ready else None
        if lane is not None and lane.messages.pending > 1:
            lane.messages._pending.rotate(-1 if lane.messages.head.reconsume_times else 0)
        return take(self, size, now, calls, **how)

    set_(Lanes, "take", take_the_next)


def pass_over_what_cannot_be_read(set_):
    """A message whose body cannot be read is left out, and the offset moves on (as Java)."""
    wanted = Puller._wanted

    def readable(self, held, reply):
        found = wanted(self, held, reply)
        return [message for message in found if not isinstance(message, UndecodableMessage)]

    set_(Puller, "_wanted", readable)


def believe_a_batch(set_):
    """A batch counts for all offsets it claims, even if others are stored there (as Java)."""
    decode, unwrap = stored_message.decode_pull, stored_message._unwrap

    def decode_pull(data, broker_name, *, end, room):
        with mock.patch.object(stored_message, "_unwrap", lambda b, _, most: unwrap(b, None, most)):
            return decode(data, broker_name, room=room)

    set_(broker, "decode_pull", decode_pull)


def take_the_oldest_lane_for_the_lowest(set_):
    """The lowest unfinished offset is searched in one lane only."""
    lowest = property(lambda self: next((lane.lowest for lane in self._lanes.values()), None))
    set_(Lanes, "lowest", lowest)


def forget_what_is_deferred(set_):
    """Messages of which only the offset is kept do not hold the committed offset back."""

    def lowest(self):
        return None if self.messages.head is None else self.messages.head.queue_offset

    set_(Lane, "lowest", property(lowest))


def overtake_what_is_deferred(set_):
    """Pulled messages join their lane at once, before earlier ones whose bodies are not kept."""

    def put(self, lane, message):
        if lane.messages.count >= 2:
            lane.defer(message)
            self.deferred += 1
        else:
            lane.messages.put((message,))
            self._count(lane, message, 1)
        self._settle(lane)

    set_(Lanes, "_put", put)


def refill_with_the_newest(set_):
    """Among bodies that are pulled again, the last one is taken first."""
    refill = Lanes.refill

    def backwards(self, asked, messages, next_offset):
        lane = self._missed.get(asked)
        missing = refill(self, asked, messages, next_offset)
        if lane is not None:
            lane.messages._pending.reverse()
        return missing

    set_(Lanes, "refill", backwards)


def refill_one_too_few(set_):
    """The first body that is pulled again is skipped, as if it were gone."""
    refill = Lanes.refill

    def careless(self, asked, messages, next_offset):
        return refill(self, asked, messages[1:] or messages, next_offset)

    set_(Lanes, "refill", careless)


def never_refill(set_):
    """Bodies that were not kept are never pulled again."""
    set_(Puller, "_refill", lambda self, held, **how: None)


def let_go_of_the_offset_too(set_):
    """A waiting lane that gives a body up forgets the message as well."""

    def shed(self):
        while self._resting and self._oversleeps:
            lane = self._resting.pop()[2]
            self._trim(lane, 0)
            self.deferred -= len(lane.later)
            lane.later.clear()
            self._settle(lane)

    set_(Lanes, "_shed", shed)


def give_nobody_a_body_who_woke_without(set_):
    """A key that wakes without a body is not pulled again until other messages have ended."""

    def wake(self, held, at):
        with held.lock:
            held.owned.wake(at)
        self._ready(held)

    set_(Finisher, "_wake", wake)


def go_on_with_bodies_after_a_reset(set_):
    """Bodies that come after an offset reset move the offset on."""

    def refilled(self, asked, messages, next_offset):
        self.refilling = False
        missing = self.messages.refill(asked, messages, next_offset)
        self._advance()
        return missing

    set_(OwnedQueue, "refilled", refilled)


def mix_up_the_keys(set_):
    """When messages that former owners finished are left out, the rest get the wrong keys."""
    pulled = OwnedQueue.pulled

    def careless(self, messages, next_offset, end=None, keys=None, **more):
        known = self.messages
        if keys is not None:
            self.messages = _WithKeys(known, keys)
        try:
            return pulled(self, messages, next_offset, end, keys, **more)
        finally:
            self.messages = known

    set_(OwnedQueue, "pulled", careless)


class _WithKeys:
    def __init__(self, lanes, keys):
        self._lanes = lanes
        self._keys = keys

    def put(self, messages, _):
        self._lanes.put(messages, self._keys)

    def __getattr__(self, name):
        return getattr(self._lanes, name)


def commit_what_was_kept_in_a_burst(set_):
    """A burst that is cut short commits what was kept, though none of its calls succeeded."""
    take, catch_up, narrow = Lanes.take, Lanes.catch_up, Lanes.narrow

    def take_for_several_calls(self, size, now, calls=1, **how):
        return take(self, size * calls, now, **how)

    def commit(self, batch):
        messages = batch.lane.messages
        count, size = messages.count, messages.size
        messages.commit(keep=len(batch.messages))
        self.count += messages.count - count
        self.size += messages.size - size
        self._settle(batch.lane)

    def careless(self, batch, kept):
        catch_up(self, batch)
        if not batch.done and self.in_work(batch):
            commit(self, batch)
        narrow(self, batch, kept)

    set_(Lanes, "take", take_for_several_calls)
    set_(Lanes, "narrow", careless)


LANE_MUTATIONS = (
    two_batches_of_a_key,
    wake_nobody,
    suspend_nobody,
    pass_over_what_cannot_be_read,
    believe_a_batch,
    take_the_oldest_lane_for_the_lowest,
    forget_what_is_deferred,
    overtake_what_is_deferred,
    refill_with_the_newest,
    refill_one_too_few,
    never_refill,
    let_go_of_the_offset_too,
    give_nobody_a_body_who_woke_without,
    go_on_with_bodies_after_a_reset,
    mix_up_the_keys,
    commit_what_was_kept_in_a_burst,
)
