"""Defects of keys that a program holds back, and of limited rates, as `mutations` lists them."""

from orderly.consumer.control import Control
from orderly.consumer.rate_gate import RateGate
from orderly.consumer.session import Session
from orderly.ordering.lanes import Lanes
from orderly.ordering.owned_queue import OwnedQueue


def hand_out_what_is_of_a_paused_key(set_):
    """A paused key is put on a list that nobody reads."""
    set_(Lanes, "pause", lambda self, key: None)
    set_(Lanes, "resume", lambda self, key, now: None)


def forget_paused_keys_over_a_rebalance(set_):
    """A queue that is taken again hands out messages of a paused key."""
    add = Session.add

    def forgetful(self, owned, subscription, memory=None):
        paused, self.paused_keys = self.paused_keys, set()
        try:
            return add(self, owned, subscription, memory)
        finally:
            self.paused_keys = paused

    set_(Session, "add", forgetful)


def resume_no_key(set_):
    """A key that is resumed does not go on."""
    set_(Control, "resume_key", lambda self, key: None)


def never_hold_a_consumer_back(set_):
    """There is always a permit."""
    set_(RateGate, "grant", lambda self, held, most: most)


def call_nobody_in_line(set_):
    """A queue that waits for a permit is not called when there is one."""
    set_(RateGate, "_call_next", lambda self: None)


def forget_the_pace_after_a_release(set_):
    """A key that was released goes on at once, whatever its rate is."""
    set_(OwnedQueue, "give_back", lambda self, batch, now: self.messages.give_back(batch))


def forget_the_pace_of_a_key(set_):
    """A key goes on as soon as it can."""
    set_(Lanes, "_paced_until", lambda self, batch, wake_at: None)


STEERING_MUTATIONS = (
    hand_out_what_is_of_a_paused_key,
    forget_paused_keys_over_a_rebalance,
    resume_no_key,
    never_hold_a_consumer_back,
    call_nobody_in_line,
    forget_the_pace_after_a_release,
    forget_the_pace_of_a_key,
)
