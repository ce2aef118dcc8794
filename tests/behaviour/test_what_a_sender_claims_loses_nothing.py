"""A sender may claim any time and any number of tries: its message is parked and released."""

import json

import pytest

from orderly import Ack, ConsumeResult, Park, ParkLimits
from orderly.protocol.park_record import Verb
from orderly.protocol.stored_message import MOST_TRIES
from tests.support.messages import send_raw
from tests.support.waiting import eventually

LONGS = [-(2**63), -1, 0, 1_764_285_943_000_000_000, 2**63 - 1]  # one counts in nanoseconds
TRIES = [-(2**31), -5, 2**31 - 1]


class Refusing:
    """Parks all keys until it is mended; notes what it handled after that."""

    def __init__(self, *, by_hand=False):
        self.by_hand, self.mended, self.handled = by_hand, False, []

    def __call__(self, messages, context):
        if self.mended:
            self.handled += [message.sharding_key for message in messages]
            return Ack()
        if self.by_hand:
            return context.park(messages[0], "no such account")
        return Park("no such account")


@pytest.mark.parametrize("by_hand", [False, True], ids=["answered", "by hand"])
def test_it_is_parked_and_released(start_member, client, queue, parks, by_hand):
    account = Refusing(by_hand=by_hand)
    claims = [{"born": born} for born in LONGS] + [{"tries": tries} for tries in TRIES]
    keys = [f"key-{number}" for number, _ in enumerate(claims)]
    offsets = [
        send_raw(client, queue, b"7", key=key, sys_flag=0, **claim)
        for key, claim in zip(keys, claims, strict=True)
    ]
    start_member(account, order="key", parking=ParkLimits(ratio=1.0))
    for key, offset in zip(keys, offsets, strict=True):
        eventually(lambda key=key, offset=offset: parks.parked(queue, key) == [offset], within=60)
    account.mended = True
    for key in keys:
        assert parks.carried_out(queue, Verb.RELEASE, key).settled == 1
    assert sorted(account.handled) == keys


def test_it_becomes_a_dead_letter(start_member, client, queue, group, orderly):
    """Its count and one more travel as a 32-bit number."""
    send_raw(client, queue, b"7", key="a", sys_flag=0, tries=2**31 - 1)
    start_member(lambda *_: ConsumeResult.SUSPEND, max_reconsume_times=3, suspend=0.05)
    eventually(lambda: len(dead(orderly, group)) == 1, within=60)
    assert dead(orderly, group)[0]["reconsume_times"] == MOST_TRIES


def dead(orderly, group):
    code, out, _ = orderly("dlq", "list", group, "-o", "json")
    return json.loads(out)["dead_letters"] if code == 0 else []
