"""Defects of finding messages that end processes, as `mutations` lists them."""

from dataclasses import replace

from orderly.consumer.park_commands import _Desk
from orderly.consumer.suspect_runs import SuspectRuns
from orderly.ordering import crashes, ownership
from orderly.ordering.crashes import Suspects
from orderly.ordering.owned_queue import OwnedQueue


def never_suspect_a_crash_loop(set_):
    """However many processes end, messages are handled as ever."""
    set_(crashes, "LOOP", 1_000_000)


def condemn_at_the_first_death(set_):
    """One process that ended while a message was handled is enough to park it."""
    set_(crashes, "CONDEMNS", 1)


def forgive_what_was_blamed(set_):
    """Each owner blames on its own: deaths by one message do not add up."""
    conclude = crashes.conclude

    def forgiving(newest, ends, low, finished):
        return conclude(newest and replace(newest, suspects=()), ends, low, finished)

    set_(ownership, "conclude", forgiving)


def blame_the_lowest(set_):
    """An owner that ended while it tried nothing is blamed on the lowest unfinished message."""
    conclude = crashes.conclude

    def rash(newest, ends, low, finished):
        return conclude(newest, tuple(low if o is None else o for o in ends), low, finished)

    set_(ownership, "conclude", rash)


def journal_after_the_handler(set_):
    """Which message was tried is put on record when the handler is back."""
    journal = SuspectRuns._journal

    def later(self, held, offset):
        if offset is None:
            journal(self, held, self._tried)
            journal(self, held, None)
        else:
            self._tried = offset
            with held.lock:
                held.owned.tries(offset)

    set_(SuspectRuns, "_journal", later)


def try_several_at_once(set_):
    """Suspects of several queues are handled side by side."""
    set_(SuspectRuns, "enter", lambda self, held: True)


def release_killers_again_and_again(set_):
    """Each owner repeats a release that has ended the processes before it."""
    set_(_Desk, "_ends_processes", lambda self, command, position: False)


def clear_what_waits_behind_a_kept_message(set_):
    """A crash loop is over once the first message of each lane came back, kept in hand or not."""

    def look(self):
        if self.suspects.on:
            heads = (lane.low for lane in self.messages.lanes if lane.low is not None)
            self.suspects.look(self.offset, self.next_pull, heads)

    set_(OwnedQueue, "_look_for_suspects", look)


def let_other_keys_count_as_progress(set_):
    """Whatever was finished since the last death: the next one counts as the first again."""
    recorded = Suspects.recorded

    def forgiving(self, low, *, closing=False):
        found = recorded(self, low, closing=closing)
        return found if self.on else replace(found, deaths=0)

    set_(Suspects, "recorded", forgiving)


CRASH_MUTATIONS = (
    never_suspect_a_crash_loop,
    condemn_at_the_first_death,
    forgive_what_was_blamed,
    blame_the_lowest,
    journal_after_the_handler,
    try_several_at_once,
    release_killers_again_and_again,
    clear_what_waits_behind_a_kept_message,
    let_other_keys_count_as_progress,
)
