"""Defects that show where brokers forget, or topics are made anew, as `mutations` lists them."""

from dataclasses import replace

from orderly.client.routes import Routes
from orderly.consumer import offsets, rebalancer
from orderly.consumer.first_looks import FirstLooks
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.session import Session
from orderly.ordering import ownership, start
from orderly.ordering.broker_calls import (
    FirstLook,
    MaxOffset,
    MinOffset,
    QueryOffset,
    SaveOffset,
)
from orderly.ordering.fence import Fence
from orderly.ordering.start import StartPosition
from orderly.ordering.state_records import StateWriter

_FEW = 1  # offset

# --- topics made anew ----------------------------------------------------------------------------


def _ask(set_, new_minimum):
    check_generation = start.check_generation

    def check(queue, landmark):
        found = yield from check_generation(queue, landmark)
        return replace(found, minimum=(yield from new_minimum(queue, landmark)))

    set_(ownership, "new_minimum", new_minimum)
    set_(start, "check_generation", check)


def ignore_a_topic_made_anew(set_):
    """Offsets from an earlier generation of the topic count in the new one."""

    def never(queue, landmark):
        yield from ()

    _ask(set_, never)


def take_any_doubt_for_a_topic_made_anew(set_):
    """No proof is needed: every suspicious queue begins at the minimum."""

    def always(queue, landmark):
        return (yield MinOffset(queue))

    set_(ownership, "new_minimum", always)  # an heir asks in any case


def go_to_the_end_of_a_new_topic(set_):
    """A topic that was created again is consumed from its end."""
    prove = ownership.new_minimum

    def end(queue, landmark):
        if (yield from prove(queue, landmark)) is None:
            return None
        return (yield MaxOffset(queue))

    _ask(set_, end)


def never_look_at_an_idle_queue(set_):
    """The committed offset is compared only if there is something new to commit."""
    set_(OffsetSaver, "_overdue", lambda self, held: False)


def inherit_from_a_former_topic(set_):
    """What was finished ahead in a former generation counts in the next one."""
    resume = ownership.resume

    def careless(found, begin, takeovers):
        if found is None or begin.former is None:
            return resume(found, begin, takeovers)
        return ownership.Resumed(begin.start, found.runs, reset=False)

    set_(ownership, "resume", careless)


def see_nothing_in_what_is_filtered_out(set_):
    """A queue of which the filter left all out has no message that could show a new topic."""

    def nothing(queue, offset):
        yield from ()
        return None, None

    set_(offsets, "message_below", nothing)


# --- offset resets -------------------------------------------------------------------------------


def keep_a_reset_from_who_leaves(set_):
    """A reset that a former ownership's pull is told of misses a member that leaves the queue."""
    told = Session.told_to_start_at

    def who_stays(self, held, offset, *, reset):
        present = self.find(held.queue) if reset and held.released else None
        told(self, present or held, offset, reset=False)

    set_(Session, "told_to_start_at", who_stays)


def forget_a_reset_at_a_takeover(set_):
    """A member that is told of a reset as it takes a queue asks again, and goes by the record."""
    found = start._found
    set_(start, "_found", lambda *where, reset: found(*where, reset=False))


# --- brokers that forget -------------------------------------------------------------------------


def forget_where_the_group_began(set_):
    """If the broker has lost the offset, the group begins anew, as if nobody knew where it was."""
    find_start = start.find_start

    def forgetful(queue, consume_from, known=None):
        if known is None or (yield QueryOffset(queue)) is not None:
            return (yield from find_start(queue, consume_from, known))
        anew = MaxOffset if consume_from == "last" else MinOffset
        begins = yield anew(queue)
        yield SaveOffset(queue, begins)
        return StartPosition(begins)

    set_(rebalancer, "find_start", forgetful)
    set_(ownership, "find_start", forgetful)


def begin_later_queues_at_their_end(set_):
    """A queue that a known group has not begun begins at its end, as one of a new group does."""
    computed = start._computed

    def careless(queue, consume_from):
        if consume_from == "last" and (yield FirstLook(queue)) is None:
            end = yield MaxOffset(queue)
            yield SaveOffset(queue, end)
            return StartPosition(end)
        return (yield from computed(queue, consume_from))

    set_(start, "_computed", careless)


def see_the_end_when_a_queue_is_taken(set_):
    """In a new group a queue begins where it ends when it is taken, not before the group began."""
    set_(start, "_still_there", lambda queue, last, minimum: (yield MaxOffset(queue)))


def look_when_a_queue_is_taken(set_):
    """A member looks whether its group is new when it takes a queue, not before it joins."""
    set_(FirstLooks, "look", lambda self, topic: None)


def count_the_last_offset_only(set_):
    """Of the offsets sent within the last seconds, only the newest counts as ours."""

    window = Fence.window.fget

    def explains(self, stored):
        return stored is None or stored in self.window

    set_(Fence, "window", property(lambda self: window(self)[-_FEW:]))
    set_(Fence, "explains", explains)


def leave_the_window_off_the_record(set_):
    """An heir takes the old offset of a killed broker for an operator's reset."""
    resume = ownership.resume

    def careless(found, begin, takeovers):
        if found is not None:
            found = replace(found, entry=replace(found.entry, window=()))
        return resume(found, begin, takeovers)

    set_(ownership, "resume", careless)


# --- the topics of the state ---------------------------------------------------------------------


def take_a_deleted_topic_for_there(set_):
    """A state topic that was deleted is not created again."""
    set_(Routes, "missing", lambda self, topic: False)


def begin_with_tokens_anew(set_):
    """A state topic that was created again gives out the tokens of the former one."""
    set_(StateWriter, "fencing_token", property(lambda self: self.token))


BROKER_MUTATIONS = (
    ignore_a_topic_made_anew,
    take_any_doubt_for_a_topic_made_anew,
    go_to_the_end_of_a_new_topic,
    never_look_at_an_idle_queue,
    inherit_from_a_former_topic,
    see_nothing_in_what_is_filtered_out,
    keep_a_reset_from_who_leaves,
    forget_a_reset_at_a_takeover,
    forget_where_the_group_began,
    begin_later_queues_at_their_end,
    see_the_end_when_a_queue_is_taken,
    look_when_a_queue_is_taken,
    count_the_last_offset_only,
    leave_the_window_off_the_record,
    take_a_deleted_topic_for_there,
    begin_with_tokens_anew,
)
