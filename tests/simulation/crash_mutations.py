"""Defects of finding messages that end processes, as `mutations` lists them."""

from dataclasses import replace

from orderly.consumer import park_commands
from orderly.consumer.suspect_runs import SuspectRuns
from orderly.ordering import crashes, ownership
from orderly.ordering.crashes import Suspects
from orderly.ordering.owned_queue import OwnedQueue


def never_suspect_a_crash_loop(set_):
    """Messages are handled as usual, however many processes died."""
    set_(crashes, "LOOP", 1_000_000)


def condemn_at_the_first_death(set_):
    """A message is parked after one process that died while handling it."""
    set_(crashes, "CONDEMNS", 1)


def forgive_what_was_blamed(set_):
    """Each owner counts for itself: the deaths from one message do not add up."""
    conclude = crashes.conclude

    def forgiving(newest, ends, low, finished):
        return conclude(newest and replace(newest, suspects=()), ends, low, finished)

    set_(ownership, "conclude", forgiving)


def blame_the_lowest(set_):
    """If an owner died while it tried nothing, the lowest unfinished message is blamed."""
    conclude = crashes.conclude

    def rash(newest, ends, low, finished):
        return conclude(newest, tuple(low if o is None else o for o in ends), low, finished)

    set_(ownership, "conclude", rash)


def journal_after_the_handler(set_):
    """The tried message is put on record only when the handler is back."""
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
    """Each owner repeats a release that has killed the owners before it."""
    set_(park_commands, "_ends_processes", lambda told: False)


def clear_what_waits_behind_a_kept_message(set_):
    """A crash loop ends once the first message of each lane came back, even if it is kept."""

    def look(self):
        if self.suspects.on:
            heads = (lane.low for lane in self.messages.lanes if lane.low is not None)
            self.suspects.look(self.offset, self.next_pull, heads)

    set_(OwnedQueue, "_look_for_suspects", look)


def let_other_keys_count_as_progress(set_):
    """Any finished work since the last death makes the next death count as the first again."""
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
