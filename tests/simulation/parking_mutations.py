"""Defects of parking, of releases and of what is on record of them, as `mutations` lists them."""

from dataclasses import replace

from orderly.consumer import offsets, park_commands, park_queue, replay
from orderly.consumer.adding import Adding
from orderly.consumer.command_ending import Ending
from orderly.consumer.park_commands import _Desk
from orderly.consumer.parking import Parker
from orderly.consumer.replay import Replay
from orderly.consumer.workers import Worker
from orderly.ordering import ownership, parking
from orderly.ordering.lane import Batch
from orderly.ordering.owned_queue import OwnedQueue
from orderly.ordering.parking import NOTHING_PARKED, KeyIndex, ParkedKeys, ParkedPlace, ParkingState
from orderly.protocol.park_record import Verb


def count_what_was_not_stored(set_):
    """A message that could not be parked counts as done."""
    set_(Parker, "_failed", lambda *_: None)


def park_the_failed_message_only(set_):
    """Only the failed message of a batch is parked; the rest counts as done."""
    park = Parker.park

    def careless(self, held, batch, failures, finished=()):
        rest = {m.queue_offset for m in batch.messages} - failures.keys() if failures else set()
        return park(self, held, batch, failures, {*finished, *rest})

    set_(Parker, "park", careless)


def handle_what_is_behind(set_):
    """Later messages of a parked key go to the handler."""

    def work(self, held, batch):
        if batch.lane_task is not None:
            self._run_lane_task(held, batch, batch.lane_task)
        else:
            self._handle(held, batch)

    set_(Worker, "_work", work)


def remember_the_last_copy_only(set_):
    """A key's messages are searched from its newest one on."""
    note = ParkedKeys.note

    def careless(self, key, offset, position, size):
        note(self, key, offset, position, size)
        self.moved(key, position)

    set_(ParkedKeys, "note", careless)


def leave_parked_keys_off_the_record(set_):
    """Parked messages count as done, and no record lists the parked keys."""
    progress = offsets.CommitProgress

    def forgetful(offset, finished, moved, kept, *more):
        return progress(offset, finished, moved, ParkingState((), kept.commands), *more)

    set_(offsets, "CommitProgress", forgetful)


def share_a_record_that_was_under_way(set_):
    """A key counts as parked once a commit is done that began before the key was noted."""
    record = offsets.OffsetSaver.record

    def careless(self, held):
        if held.saving.acquire(blocking=False):
            held.saving.release()
            record(self, held)
        else:
            with held.saving:
                pass

    set_(offsets.OffsetSaver, "record", careless)


def forget_parked_keys_at_a_handover(set_):
    """A new owner ignores which keys are parked on record."""
    make = ownership.Inheritance

    def forgetful(*args):
        return replace(make(*args), kept=NOTHING_PARKED)

    set_(ownership, "Inheritance", forgetful)


def forget_parked_keys_after_a_reset(set_):
    """After an offset reset no key is parked any more."""
    make, restart_at = ownership.Inheritance, OwnedQueue.restart_at

    def forgetful(*args):
        made = make(*args)
        return replace(made, kept=NOTHING_PARKED) if made.reset else made

    def restart(self, offset, reason):
        self.parking = ParkedKeys()
        return restart_at(self, offset, reason)

    set_(ownership, "Inheritance", forgetful)
    set_(OwnedQueue, "restart_at", restart)


def replay_from_the_first_copy(set_):
    """A release begins with the first copy in the park queue, settled or not."""
    set_(park_queue, "KeyIndex", lambda key, first: KeyIndex(key, 0))


def replay_by_position(set_):
    """Parked messages are replayed in the order of the park queue, with later copies last."""

    def lowest(self, count):
        places = sorted(self._copies, key=lambda offset: self._copies[offset].position)
        return [ParkedPlace(offset, self._copies[offset].position) for offset in places[:count]]

    set_(KeyIndex, "lowest", lowest)


def release_what_was_found_first(set_):
    """A key goes live while messages parked during its release still wait."""
    catch_up = Replay._catch_up

    def once(self, messages):
        if messages.first is None and not self._ending.settled:
            catch_up(self, messages)

    set_(Replay, "_catch_up", once)


def replay_beside_the_lane(set_):
    """A release runs beside the lane of its key instead of waiting for its turn."""
    want_turn = OwnedQueue.want_turn

    def beside(self, key, turn):
        want_turn(self, (key, "beside"), turn)

    set_(OwnedQueue, "want_turn", beside)


def take_any_answer_for_done(set_):
    """A replayed message counts as done with any answer of the handler."""
    set_(replay, "failure_of", lambda called, offset: None)


def replay_what_is_still_to_come(set_):
    """A release also replays copies of messages that will still come from the queue."""
    set_(Replay, "_is_finished", lambda self, place: True)


def run_commands_again(set_):
    """A new owner repeats commands that were already carried out."""
    set_(ParkedKeys, "commands", property(lambda self: 0, lambda self, position: None))
    set_(park_commands, "_was_answered", lambda told: False)
    set_(_Desk, "_refusal", _refusal_of_keys_that_are_not_parked)


def run_old_commands(set_):
    """A command that was given before the key was parked is carried out."""
    note = ParkedKeys.note

    def careless(self, key, offset, position, size):
        commands = self.commands
        note(self, key, offset, position, size)
        self.commands = commands

    set_(ParkedKeys, "note", careless)
    set_(_Desk, "_refusal", _refusal_of_keys_that_are_not_parked)


def _refusal_of_keys_that_are_not_parked(self, command, message, told):
    parked = self._held.owned.parking.get(command.key)
    return "not parked" if parked is None else None


def drop_what_is_still_to_come(set_):
    """A drop also settles messages of the key that were pulled and not parked yet."""
    give_back = Ending.give_back

    def generous(self, dropped=()):
        give_back(self, dropped)
        if self._command.verb is Verb.DROP:
            with self._held.lock:
                _empty(self._held.owned, self._command.key)

    set_(Ending, "give_back", generous)


def _empty(owned, key):
    lanes = owned.messages
    lane = lanes._lane(key)
    lanes.deferred -= len(lane.later)
    lane.later.clear()
    while lane.messages.pending:
        lanes._count(lane, lane.drop_body(), -1)
        lane.later.clear()
    lanes._settle(lane)


def pass_tombstones_over(set_):
    """Parked keys rebuilt from the park queue include released ones."""
    set_(parking._Found, "_release", lambda self, record, newest: None)


def settle_a_key_by_any_tombstone(set_):
    """A tombstone settles its whole key, even what a stopped release has left."""

    def release(self, record, newest):
        self.keys.pop(record.key, None)

    set_(parking._Found, "_release", release)


def rebuild_nothing(set_):
    """If the state record is lost, no key counts as parked."""

    def nothing(park_queue, source):
        yield from ()
        return parking.Rebuilt(NOTHING_PARKED, 0)

    set_(ownership, "rebuild", nothing)


def count_again_what_is_parked_again(set_):
    """A message that a former owner parked counts twice when its heir parks it again."""
    init = ParkedKeys.__init__

    def forgetful(self, *args):
        init(self, *args)
        self._counted = {}

    set_(ParkedKeys, "__init__", forgetful)


def add_beside_the_handler(set_):
    """An operator's key is parked while the handler has messages of it."""
    send = Adding.send

    def careless(self):
        held, key = self._held, self._command.key
        with held.lock:
            lane, parked = held.owned.messages.lane_of(key), held.owned.parking.parked(key)
            busy = lane is not None and lane.messages.in_hand and not parked
        if busy:
            self._parker.park_by_hand(held, Batch(lane, ()), self._command.by)
        send(self)

    set_(Adding, "send", careless)


def never_add(set_):
    """An operator's order to park gets the answer "done", and the key is still handled."""

    set_(Adding, "_choose", lambda self: self._ending.count(1))


PARKING_MUTATIONS = (
    count_what_was_not_stored,
    park_the_failed_message_only,
    handle_what_is_behind,
    remember_the_last_copy_only,
    leave_parked_keys_off_the_record,
    share_a_record_that_was_under_way,
    forget_parked_keys_at_a_handover,
    forget_parked_keys_after_a_reset,
    replay_from_the_first_copy,
    replay_by_position,
    release_what_was_found_first,
    replay_beside_the_lane,
    take_any_answer_for_done,
    replay_what_is_still_to_come,
    run_commands_again,
    run_old_commands,
    drop_what_is_still_to_come,
    pass_tombstones_over,
    settle_a_key_by_any_tombstone,
    rebuild_nothing,
    count_again_what_is_parked_again,
    add_beside_the_handler,
    never_add,
)
