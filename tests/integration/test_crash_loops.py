"""A message that ends the process of whoever handles it: found and set aside, on a real broker."""

import contextlib

import pytest

from orderly.protocol.park_record import Verb
from orderly.protocol.state_record import Entry, Trying
from orderly.testing import Sent, judge
from tests.support.brokers import SHORT, leasing_broker, unlock_for
from tests.support.consuming import send_numbers, unique
from tests.support.members import MemberProcess, by_lane
from tests.support.topics import ParkTopic, records
from tests.support.waiting import eventually, patient_client, patient_producer

QUEUES = 3
KEYS = [f"key-{number}" for number in range(12)]
COUNT = 10  # messages a key
DEADLY, NUMBER = "key-5", 3
OPTIONS = ["--order=key", "--commit=5", f"--deadly={DEADLY}/{NUMBER}"]

pytestmark = pytest.mark.broker


class Group:
    """Members that die one after the other, each in a process of its own."""

    def __init__(self, closing, namesrv, topic, options, lease=None):
        self.closing, self.namesrv, self.topic = closing, namesrv, topic
        self.options = [*OPTIONS, *options]
        self.lease = {} if lease is None else {"lease": lease}
        self.group = unique("group")
        self.client = closing(patient_client(namesrv))
        self.client.admin.create_topic(topic, QUEUES)
        self.queues = self.client.routes.get(topic).read_queues()
        producer = closing(patient_producer(namesrv))
        results = send_numbers(producer, topic, KEYS, COUNT)
        self.sent = [
            Sent(KEYS[place % len(KEYS)], r.message_id, r.queue.queue_id, r.queue_offset)
            for place, r in enumerate(results)
        ]
        self.members, self.progress = [], 0

    def join(self, *more):
        options = [*self.options, *more]
        member = MemberProcess(self.namesrv, self.group, self.topic, more=options, **self.lease)
        self.closing(contextlib.closing(member))
        self.members.append(member)
        return member

    def live(self, *, free=True):
        """One more life; returns whether the member survived all there was to handle."""
        member = self.join()
        # A broker may list a dead member on for 130 s, with queues that nobody takes then.
        eventually(lambda: not member.alive or self.handled(), within=150)
        if member.alive:
            return True
        if free:  # or wait for the end of its lease
            self.free(member)
        return False

    def kill(self):
        """Kill the newest member from outside."""
        self.members[-1].kill()
        self.free(self.members[-1])

    def free(self, member):
        for queue in self.queues:
            unlock_for(self.client, member.client_id, self.group, queue)

    def deaths(self, *, free=True):
        """Start one member after the other until one survives; returns how many did not.

        `progress` counts those that had committed something of the deadly message's queue.
        """
        committed = [self.committed()]
        for died in range(20):
            if self.live(free=free):
                return died
            committed.append(self.committed())
            self.progress += committed[-1] != committed[-2]
        raise AssertionError("none survived")

    def committed(self):
        (queue,) = [q for q in self.queues if q.queue_id == self.set_aside[0].queue]
        return self.client.brokers.query_offset(self.group, queue) or 0

    def events(self):
        return [event for member in self.members for event in member.events]

    def handled(self):
        done = {event.id for event in self.events()}
        return all(sent.id in done for sent in self.sent if sent not in self.set_aside)

    @property
    def set_aside(self):
        """What is to be parked: the deadly message and all later ones of its key."""
        return [sent for sent in self.sent if sent.key == DEADLY][NUMBER:]

    def parked(self):
        """Attempts and reason of each message in the park topic, by its source offset."""
        queue = next(q for q in self.queues if q.queue_id == self.set_aside[0].queue)
        found = ParkTopic(self.client, self.group, self.topic).records(queue)
        return {r.offset: (r.details.attempts, r.details.reason) for r in found}

    def records(self, kind):
        found = [r for queue in self.queues for _, r in records(self.client, self.group, queue)]
        return [record for record in found if isinstance(record, kind)]

    def judge(self):
        sent = [sent for sent in self.sent if sent not in self.set_aside]
        return judge(by_lane(sent), by_lane(self.events()))


def check_all_is_well(group):
    """The message is parked with its successors; everything else was handled in order."""
    offsets = [sent.offset for sent in group.set_aside]
    eventually(lambda: sorted(group.parked()) == offsets, within=20)
    parked = group.parked()
    assert parked[offsets[0]] == (2, "the process died 2 times while handling it")
    assert {parked[offset][0] for offset in offsets[1:]} == {0}, "never tried"
    verdict = group.judge()
    assert verdict.ok, verdict
    deadly = {sent.id for sent in group.set_aside}
    assert not [event for event in group.events() if event.id in deadly]


def check_deaths(group, deaths):
    """Two until it counts as a loop, two during the message.

    More where a machine is so slow that members commit something before they die: that is progress.
    """
    assert 4 <= deaths <= 5 + 2 * group.progress


nightly = pytest.mark.nightly


@pytest.mark.parametrize(
    ("handler", "death"),
    [
        ("sync", "sigkill"),
        ("async", "segfault"),
        *(pytest.param("sync", death, marks=nightly) for death in ("exit", "segfault")),
        *(pytest.param("async", death, marks=nightly) for death in ("exit", "sigkill")),
    ],
)
def test_four_deaths_and_everybody_else_goes_on(death, handler, orderly_namesrv, closing):
    options = [f"--death={death}", f"--handler={handler}"]
    group = Group(closing, orderly_namesrv, unique("topic"), options)
    check_deaths(group, group.deaths())
    check_all_is_well(group)
    (deadly, *_) = group.set_aside
    blamed = {suspect for entry in group.records(Entry) for suspect in entry.suspects}
    assert blamed == {(deadly.offset, 1), (deadly.offset, 2)}, "and nobody else"


def test_another_member_finds_it_after_the_lease(orderly_broker, closing):
    """Nobody frees the queues: each heir waits for the end of the dead one's lease."""
    broker = closing(leasing_broker(SHORT / 2))
    group = Group(closing, broker.namesrv, unique("topic"), [], lease=SHORT / 2)
    check_deaths(group, group.deaths(free=False))
    check_all_is_well(group)


def test_once_it_is_mended_a_release_brings_all_of_it_back_in_order(orderly_namesrv, closing):
    group = Group(closing, orderly_namesrv, unique("topic"), ["--death=exit"])
    group.deaths()
    group.members[-1].close()
    mended = group.join("--deadly=no")
    eventually(lambda: len(mended.held) == QUEUES, within=30)
    queue = next(q for q in group.queues if q.queue_id == group.set_aside[0].queue)
    parked = ParkTopic(group.client, group.group, group.topic)
    result = parked.carried_out(queue, Verb.RELEASE, DEADLY)
    assert (result.settled, result.reason) == (len(group.set_aside), None)
    eventually(lambda: {sent.id for sent in group.sent} <= {e.id for e in group.events()}, 20)
    verdict = judge(by_lane(group.sent), by_lane(group.events()))
    assert verdict.ok, verdict


@nightly
def test_members_killed_while_a_key_is_stuck_park_nobody(orderly_namesrv, closing):
    stuck = KEYS[2]
    group = Group(closing, orderly_namesrv, unique("topic"), [f"--stuck={stuck}", "--deadly=no"])
    free = {sent.id for sent in group.sent if sent.key != stuck}
    for _ in range(6):
        group.join()
        eventually(lambda: len(group.members[-1].held) == QUEUES, within=30)
        eventually(lambda: free <= {event.id for event in group.events()}, within=30)
        group.kill()
    assert max(entry.deaths for entry in group.records(Entry)) >= 2
    assert all(entry.parked == () for entry in group.records(Entry))


def test_without_deaths_nothing_is_written_for_it(orderly_namesrv, closing):
    group = Group(closing, orderly_namesrv, unique("topic"), ["--deadly=no"])
    member = group.join()
    eventually(lambda: {sent.id for sent in group.sent} <= {e.id for e in group.events()}, 30)
    member.close()
    assert group.records(Trying) == []
