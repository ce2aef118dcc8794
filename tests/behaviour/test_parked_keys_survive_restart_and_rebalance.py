"""What is parked stays so, and stays in order, over a restart, a rebalance, a reset and a release
that its member did not live to see the end of."""

import threading

import pytest

from orderly import Ack, Park
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

BAD = "bad"


class Account:
    """Parks one key until it is mended; `applied` are the offsets it did, in order."""

    def __init__(self):
        self.applied, self.mended = [], False
        self.hold, self.held = threading.Event(), threading.Event()
        self.hold.set()

    def __call__(self, messages, context):
        if context.key != BAD:
            return Ack()
        if not self.mended:
            return Park("no such account")
        self.held.set()
        self.hold.wait(20)
        self.applied.append(messages[0].queue_offset)
        return Ack()


@pytest.fixture
def account():
    account = Account()
    yield account
    account.hold.set()


@pytest.fixture
def send(producer, topic):
    """Send messages of the bad key; returns their queue and offsets."""

    def send(count):
        stored = send_numbers(producer, topic, [BAD], count)
        return stored[0].queue, [s.queue_offset for s in stored]

    return send


def offsets_of(parks, queue):
    return sorted(set(parks.parked(queue, BAD)))


def test_a_restart(account, start_member, parks, send):
    first, _ = start_member(account, order="key")
    queue, offsets = send(3)
    eventually(lambda: offsets_of(parks, queue) == offsets)
    first.close()
    offsets += send(2)[1]
    account.mended = True
    second, _ = start_member(account, order="key")
    eventually(lambda: offsets_of(parks, queue) == offsets, within=20)
    assert account.applied == [], "the later ones wait behind the earlier ones"
    eventually(lambda: sum(key.messages for key in second.parked()[queue]) == 5)
    (parked,) = second.parked()[queue]
    assert (parked.key, parked.next) == (BAD, offsets[0])
    assert parks.carried_out(queue, "release", BAD).settled == 5
    offsets += send(1)[1]
    eventually(lambda: account.applied == offsets)


def test_a_release_that_is_cut_short_is_ended_by_the_next_owner(account, start_member, parks, send):
    first, _ = start_member(account, order="key", close_timeout=5)
    queue, offsets = send(6)
    eventually(lambda: offsets_of(parks, queue) == offsets)
    account.mended = True
    account.hold.clear()
    identity = parks.command(queue, "release", BAD)
    assert account.held.wait(20)
    closing = threading.Thread(target=first.close)
    closing.start()
    eventually(lambda: "LEAVING" in [e.why.name for e in first.explain() if e.queue == queue])
    account.hold.set()
    closing.join(20)
    cut_at = len(account.applied)
    assert 1 <= cut_at < 6, "the call that ran is ended, no other is begun"
    assert not any(r.done for r in parks.results(queue, identity))
    start_member(account, order="key")
    assert parks.ended(queue, identity).settled == 6 - cut_at
    assert account.applied == offsets, "what was acknowledged before is not run again"


def test_a_member_that_joins_takes_its_parked_keys_over(account, start_member, parks, send, topic):
    first, _ = start_member(account, order="key")
    queue, offsets = send(3)
    eventually(lambda: offsets_of(parks, queue) == offsets)
    others = [start_member(account, order="key", rebalance_interval=1)[0] for _ in range(3)]
    members = [first, *others]
    eventually(lambda: all(len(m.assignment) == 1 for m in members), within=30)
    eventually(lambda: [m.parked() for m in members if m.parked()] != [])
    (owner,) = [m for m in members if queue in m.assignment]
    assert [p.next for p in owner.parked()[queue]] == [offsets[0]]
    offsets += send(2)[1]
    eventually(lambda: offsets_of(parks, queue) == offsets)
    account.mended = True
    assert parks.carried_out(queue, "release", BAD).settled == 5
    assert account.applied == offsets


def test_an_offset_set_back_has_its_messages_parked_too(account, start_member, parks, send):
    consumer, _ = start_member(account, order="key")
    account.mended = True
    queue, early = send(3)
    eventually(lambda: account.applied == early)
    account.mended = False
    later = send(3)[1]
    eventually(lambda: offsets_of(parks, queue) == later)
    consumer.seek(queue, early[1])
    eventually(lambda: offsets_of(parks, queue) == early[1:] + later, within=20)
    account.mended = True
    result = parks.carried_out(queue, "release", BAD)
    assert (result.settled, result.reason) == (5, None)
    assert account.applied == early + early[1:] + later
    assert not consumer.parked()
