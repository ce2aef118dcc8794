"""Members killed with -9 while keys are parked, and while one is released: order holds throughout.

Of a parked key nothing is handled before its turn, whoever owns its queue; a release that a killed
owner had begun is carried on by the next one from where it was on record.
"""

import threading
import time

import pytest

from orderly.consumer.replay import SLICE
from orderly.monitoring.parked import ParkedMessages
from orderly.testing import judge
from tests.support.accounts import BAD, WRITTEN, Accounts
from tests.support.brokers import SHORT, leasing_broker
from tests.support.members import CONCURRENCY, by_key, by_lane, judge_ownerships
from tests.support.traffic import KEYS
from tests.support.waiting import eventually, patient_client

LEASE = SHORT
SECONDS = 0.05  # of a handler
BAD_ONES = {5: BAD, 11: BAD, 23: BAD}  # by number: the first ones of three keys

pytestmark = [pytest.mark.broker, pytest.mark.nightly]


class Run:
    """Traffic by key with a few messages in trouble, members to be killed, and an operator."""

    def __init__(self, closing, start_traffic):
        broker = closing(leasing_broker(LEASE))
        self.accounts = closing(Accounts(KEYS))
        self.trouble = dict(BAD_ONES)
        self.accounts.trouble = self.trouble.get
        self.traffic = start_traffic(broker, lease=LEASE, members=0, pause=0.01)
        self.client = closing(patient_client(broker.namesrv))
        self.operator = ParkedMessages(self.client, self.traffic.group)
        self.dead = []

    @property
    def living(self):
        return [member for member in self.traffic.processes if member not in self.dead]

    def join(self, members):
        for _ in range(members):
            more = by_key(self.accounts, commit=0.2)
            self.traffic.join_process(seconds=SECONDS, more=more)
        self.settle()

    def settle(self):
        eventually(lambda: self.traffic.settled(self.living), within=LEASE + 30, every=0.05)

    def kill(self, owner):
        """Kill the member with that client id."""
        (victim,) = [member for member in self.living if member.client_id == owner]
        victim.kill()
        self.dead.append(victim)

    def parked(self):
        found = self.operator.keys()
        return {key for _, key in found}

    def replays(self, key):
        return [w for w in self.accounts.answers(WRITTEN, replayed=True) if w.key == key]

    def replays_on_record(self, key):
        """Whether the owner has recorded that messages of a key were replayed."""
        saved = [record for member in self.living for record in list(member.saves)]
        nexts = {offset for record in saved for parked, offset in record.parked if parked == key}
        return len(nexts) > 1

    def release(self, key):
        """Have a key released; returns what will hold the outcome."""
        outcomes = []
        waiting = threading.Thread(
            target=lambda: outcomes.extend(self.operator.release(key, patience=10 * LEASE)),
            name="operator",
            daemon=True,
        )
        waiting.start()
        return outcomes

    def replay_a_slice(self, key):
        """Let a turn of a release pass that has begun, and the next one wait in its first message.

        Returns:
            What lets it go on.
        """
        go_on, reached, turn_is_over = threading.Event(), [], threading.Event()

        def admits(of, number):
            if of != key or go_on.is_set():
                return True
            reached.append(number)
            return number == reached[0] and turn_is_over.is_set()

        self.accounts.admits = admits
        outcomes = self.release(key)
        eventually(lambda: reached)
        begun = time.monotonic()
        eventually(lambda: time.monotonic() > begun + SLICE)
        turn_is_over.set()
        eventually(lambda: self.replays_on_record(key) and reached[-1] != reached[0])
        return go_on, outcomes

    def check(self):
        """Finish all traffic; nothing was lost, overtaken, or run twice but since a record."""
        self.traffic.finish()
        found = judge_ownerships(self.traffic.processes, CONCURRENCY)
        verdict = judge(by_lane(self.traffic.writer.sent), by_lane(self.traffic.deliveries()))
        assert verdict.ok, verdict
        assert self.accounts.overtaken() == []
        assert self.accounts.faults() == []
        assert found.faults == []


@pytest.fixture
def run(orderly_broker, closing, start_traffic):
    return Run(closing, start_traffic)


def test_its_heir_parks_on_and_carries_on_the_release_it_had_begun(run):
    run.join(3)
    keys = {KEYS[number] for number in BAD_ONES}
    eventually(lambda: run.parked() == keys, every=0.1)
    first, *more = run.accounts.answers(BAD)
    run.kill(first.owner)
    run.settle()
    run.traffic.goes_on(400)
    assert run.parked() == keys
    counted = [(report.recorded, report.messages) for report in run.operator.list().keys]
    assert all(recorded <= messages for recorded, messages in counted), "what comes again is once"
    assert run.accounts.answers(BAD) == [first, *more], "none came to the heir"
    run.trouble.clear()
    go_on, outcomes = run.replay_a_slice(first.key)
    begun_by = run.replays(first.key)[0].owner
    run.kill(begun_by)
    assert not outcomes
    go_on.set()
    eventually(lambda: outcomes, within=LEASE + 60, every=0.05)
    assert (outcomes[0].failed_at, outcomes[0].reason) == (None, None)
    heirs = [w.number for w in run.replays(first.key) if w.owner != begun_by]
    assert heirs[0] > first.number, "from the record on, not from its beginning"
    for key in sorted(keys - {first.key}):
        assert run.operator.release(key)[0].reason is None
    run.check()
    assert run.parked() == set()
