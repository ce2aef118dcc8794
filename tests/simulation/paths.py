"""The paths a consumer can take, which of them a history took, and a defect that only each shows.

A path that few histories take is a hole in what is drawn; one without a defect that is caught there
and nowhere else may as well not be taken. Both make a run fail.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from unittest import mock

from orderly.consumer.rate_gate import RateGate
from orderly.consumer.rebalancer import Rebalancer
from orderly.consumer.workers import Burst
from orderly.ordering.lane import Lane
from orderly.ordering.lanes import Lanes
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.throttle import Throttle


@dataclass(frozen=True)
class Path:
    """One path.

    Attributes:
        name: for people.
        took: says of a world whether its history took it.
        mutation: a defect that only histories which took it can show.
    """

    name: str
    took: Callable
    mutation: str


def _happened(event):
    return lambda world: world.happened[event] > 0


def _either(*events):
    return lambda world: any(world.happened[event] for event in events)


def _fault(kind):
    return lambda world: any(fault.kind == kind for fault in world.scenario.faults)


def _unwanted(world):
    """Something is stored that the group does not subscribe to."""
    truth = world.truth
    offsets = ((queue, o) for queue in truth.queues() for o in range(truth.log(queue).max_offset))
    return bool(world.scenario.unwanted) and not all(truth.wanted(*place) for place in offsets)


def _keyless(world):
    """By key, messages without one."""
    return dict(world.scenario.settings)["order"] == "key" and world.happened["keyless"] > 0


PATHS = (
    # How handlers are called, and what they answer.
    Path("a burst of several calls", _happened("burst"), "count_what_is_handed_out"),
    Path("a burst that was narrowed", _happened("narrowed"), "keep_what_was_not_handed_out"),
    Path("a batch of several messages", _happened("batch"), "finish_what_was_not_tried"),
    Path("kept", _happened("kept"), "commit_what_is_kept"),
    Path("kept and committed", _happened("kept and committed"), "commit_the_last_batch_only"),
    Path(
        "kept and rolled back", _happened("kept and rolled back"), "roll_back_the_last_batch_only"
    ),
    Path(
        "a dead letter in a rollback",
        _happened("dead letter in a rollback"),
        "roll_dead_letters_back",
    ),
    Path("kept until the end", _happened("kept until the end"), "hand_on_what_is_kept_as_done"),
    Path("kept beside bursts", _happened("kept beside bursts"), "commit_what_was_kept_in_a_burst"),
    Path("coroutines", _happened("async"), "take_any_coroutine_for_a_success"),
    Path(
        "a coroutine cancelled from within",
        _happened("cancelled within"),
        "take_a_cancelled_call_for_a_success",
    ),
    Path("a coroutine cancelled at a loss", _happened("cancelled"), "forget_a_cancelled_run"),
    Path(
        "queues given up, for no handler is called",
        _happened("withdrawn"),
        "give_up_beside_a_handler",
    ),
    Path("a worker process died", _happened("worker died"), "take_a_dead_worker_for_a_success"),
    Path("a lease extended", _happened("extend"), "extend_without_asking"),
    Path("an extension refused", _happened("extend refused"), "extend_what_is_lost"),
    Path(
        "an extension not answered", _happened("extend unanswered"), "take_silence_for_an_extension"
    ),
    Path("most keys fail at a listener", _happened("most fail"), "hold_keys_that_never_failed"),
    # What programs and operators do with queues.
    Path("a pause", _happened("paused"), "hand_out_what_is_paused"),
    Path(
        "a pause over a rebalance", _happened("paused and taken"), "forget_pauses_over_a_rebalance"
    ),
    Path("a paused key", _happened("key paused"), "hand_out_what_is_of_a_paused_key"),
    Path(
        "a paused key over a rebalance",
        _happened("key paused and taken"),
        "forget_paused_keys_over_a_rebalance",
    ),
    Path("a limited rate", _happened("held back"), "never_hold_a_consumer_back"),
    Path("a limited rate of a key", _happened("paced"), "forget_the_pace_of_a_key"),
    Path("a seek", _either("seek back", "seek on"), "seek_and_keep_the_cache"),
    Path("a seek back", _happened("seek back"), "never_seek_back"),
    Path("a seek on", _happened("seek on"), "never_seek_on"),
    Path("an offset reset", _fault("offset reset"), "go_on_although_the_broker_reset"),
    Path(
        "an offset reset while no member runs",
        _happened("reset while away"),
        "inherit_after_a_reset",
    ),
    Path("queues added", _fault("grow"), "share_the_first_queues_only"),
    Path("state records lost", _fault("lose records"), "rebuild_nothing"),
    # What brokers lose.
    Path("offsets forgotten", _happened("offsets forgotten"), "leave_the_window_off_the_record"),
    Path("a start forgotten", _happened("start forgotten"), "forget_where_the_group_began"),
    Path("a queue that came later", _happened("later queue"), "begin_later_queues_at_their_end"),
    Path(
        "a new group passes messages over",
        _happened("passed over by a new group"),
        "look_when_a_queue_is_taken",
    ),
    Path("a topic made anew", _fault("topic anew"), "ignore_a_topic_made_anew"),
    Path("no state topic", _happened("state topic deleted"), "take_a_deleted_topic_for_there"),
    # What others write.
    Path("forged records", _happened("forged"), "believe_any_seal"),
    # What becomes of messages.
    Path("a repeated send", _happened("repeat"), "hand_repeats_out_in_a_batch"),
    Path(
        "a message that others send again",
        _happened("sent again by others"),
        "take_a_marked_id_for_a_copy",
    ),
    Path("a dead letter", _happened("dead letter"), "bury_without_a_grave"),
    Path("a parked key", _happened("parked"), "handle_what_is_behind"),
    Path("a key added by hand", _happened("added"), "never_add"),
    Path("a release", _happened("replayed"), "take_any_answer_for_done"),
    Path("a crash loop", _happened("suspect tried"), "never_suspect_a_crash_loop"),
    Path("bodies pulled again", _happened("refilled"), "refill_with_the_newest"),
    Path("a body let go by a key that waits", _happened("let go"), "let_go_of_the_offset_too"),
    Path("messages filtered out", _unwanted, "leave_a_filtered_tail_unfinished"),
    Path("messages without a key", _keyless, "give_each_message_without_a_key_a_lane"),
)

PATHS_BY_NAME = {path.name: path for path in PATHS}


def taken(world):
    """The names of the paths that a world's history took."""
    return frozenset(path.name for path in PATHS if path.took(world))


@contextlib.contextmanager
def observed(world):
    """Count what happens inside the library, and changes nothing."""
    happened = world.happened
    take, leave = Lanes.take, Burst.__exit__
    narrow, refilled = OwnedQueue.narrow, OwnedQueue.refilled
    drop_body, paced_until = Lane.drop_body, Lanes._paced_until

    def counting(event, kind, name):
        method = getattr(kind, name)

        def counted(self, *args):
            happened[event] += 1
            return method(self, *args)

        return mock.patch.object(kind, name, counted)

    def watched_paced_until(self, batch, wake_at):
        until = paced_until(self, batch, wake_at)
        happened["paced"] += until is not None
        return until

    def watched_take(self, size, now, calls=1, **how):
        batch = take(self, size, now, calls, **how)
        if calls > 1 and batch is not None and batch.messages:
            keeps = batch.lane.messages.in_hand > len(batch.messages)
            happened["kept beside bursts"] += keeps
        return batch

    def watched_leave(self, *exc_info):
        happened["burst"] += self._end > self._size
        leave(self, *exc_info)

    def watched_narrow(self, batch, kept):
        happened["narrowed"] += 1
        narrow(self, batch, kept)

    def watched_refilled(self, asked, messages, next_offset):
        happened["refilled"] += bool(messages)
        return refilled(self, asked, messages, next_offset)

    def watched_drop_body(self):
        happened["let go"] += self.wake_at is not None and self.messages.pending == 1
        return drop_body(self)

    with (
        mock.patch.object(Lanes, "_paced_until", watched_paced_until),
        counting("held back", RateGate, "stand_in_line"),
        counting("withdrawn", Rebalancer, "_withdraw"),
        counting("most fail", Throttle, "turn_on"),
        mock.patch.object(Lane, "drop_body", watched_drop_body),
        mock.patch.object(Lanes, "take", watched_take),
        mock.patch.object(Burst, "__exit__", watched_leave),
        mock.patch.object(OwnedQueue, "narrow", watched_narrow),
        mock.patch.object(OwnedQueue, "refilled", watched_refilled),
    ):
        yield
