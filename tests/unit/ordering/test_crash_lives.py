"""Life after life of owners that a message kills: it is found, nobody else is condemned.

Each life is the real take-over, queue and records; the broker, the handlers and the deaths are the
test's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from orderly.ordering.broker_calls import AppendRecord, MaxOffset, converse
from orderly.ordering.crashes import MOST_SUSPECTS, Suspects
from orderly.ordering.fence import FORGOTTEN
from orderly.ordering.owned_queue import Lease, OwnedQueue
from orderly.ordering.ownership import CommitProgress, commit, take_over
from orderly.ordering.results import Disposition
from orderly.protocol.state_record import Entry, Trying, decode_record
from tests.support.messages import QUEUE, message
from tests.support.owners import PARK_QUEUE, STATE_QUEUE, StateBroker


@dataclass
class World:
    """A queue whose messages have these keys, and what happens to whoever handles them.

    Attributes:
        killers: offsets whose handler ends the process.
        stuck: keys whose handler always fails.
        committed_after: so many handler calls.
        most: handler calls of a life; then it is killed from outside while nothing is in hand.
    """

    keys: str
    killers: frozenset = frozenset()
    stuck: frozenset = frozenset()
    committed_after: int = 10**9
    most: int = 10**9
    lanes: int = 3
    broker: StateBroker = field(default_factory=StateBroker)
    condemned: set = field(default_factory=set)
    parked: set = field(default_factory=set)
    finished: set = field(default_factory=set)
    names: object = field(default_factory=lambda: count(1))

    def live(self, *, close=False, name=None):
        """One owner's life; returns what killed it, or None."""
        life = Life(self, name or f"member@{next(self.names)}")
        died_of = life.run(self.most)
        if close and died_of is None:
            life.commit(closing=True)
        self.broker.owner = None  # the lease runs out
        return died_of

    def records(self):
        return [decode_record(body) for body in self.broker.log]


class Life:
    def __init__(self, world, name):
        self.world, self.perform = world, world.broker.performer(name)
        world.broker.end = len(world.keys)
        dialogue = take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, name, "first")
        self.found = found = converse(dialogue, self.perform)
        self.owned = OwnedQueue(
            QUEUE,
            found.start,
            Lease(0.0, 1e9),
            max_messages=10**6,
            max_bytes=10**9,
            by_key=True,
            max_runs=world.lanes,
            finished=found.finished,
            fence=found.fence,
            suspects=Suspects(found.crashes, found.start, found.end),
        )
        self.owned.pulled(self.pull(found.start), len(world.keys), None, world.keys[found.start :])

    def pull(self, start):
        keys, broker = self.world.keys, self.world.broker
        return [
            replace(message(n, keys[n]), store_time=broker.stored_at(n) / 1000)
            for n in range(start, len(keys))
        ]

    def run(self, most):
        for called in range(most):
            if called and called % self.world.committed_after == 0:
                self.commit()
            in_hand = self.take()
            if not in_hand:
                return None
            assert not self.owned.suspects.on or len(in_hand) == 1
            for batch in in_hand:
                offset = batch.messages[0].queue_offset
                if self.world.keys[offset] in self.world.parked or not self.begins(offset):
                    self.park(batch, offset)
                elif offset in self.world.killers:
                    return offset
                else:
                    self.finish(batch, offset)
        return None

    def take(self):
        """As many batches as may be in work at once."""
        if (missed := self.owned.refill_gate(1.0)) is not None:
            self.owned.refilled(missed, self.pull(missed), len(self.world.keys))
        batches = []
        while self.owned.request_run():
            self.owned.begin_run()
            batch = self.owned.take(1, 1.0)
            if batch is not None:
                batches.append(batch)
        for _ in batches:
            self.owned.end_run()
        return batches

    def begins(self, offset):
        suspects = self.owned.suspects
        if offset in suspects.condemned:
            return False
        if suspects.suspected(offset):
            self.owned.tries(offset)
            converse(self.found.memory.journal(offset), self.perform)
        return True

    def park(self, batch, offset):
        """On record at once; from then on no handler sees the key."""
        if self.world.keys[offset] not in self.world.parked:
            self.world.condemned.add(offset)
            self.commit()
        self.world.parked.add(self.world.keys[offset])
        self.owned.finish(batch, Disposition.COMMIT, 1.0)

    def finish(self, batch, offset):
        if self.world.keys[offset] in self.world.stuck:
            self.owned.finish(batch, Disposition.ROLLBACK, 1.0, wait=FORGOTTEN)
        else:
            self.world.finished.add(offset)
            self.owned.finish(batch, Disposition.COMMIT, 1.0)
        if self.owned.suspects.trying is not None:
            self.owned.tries(None)
            converse(self.found.memory.journal(None), self.perform)
        if self.owned.suspects.over:
            self.owned.suspects.over = False
            self.commit()

    def commit(self, *, closing=False):
        owned = self.owned
        crashes = owned.crashes(closing=closing)
        progress = CommitProgress(owned.offset, owned.finished_ahead, crashes=crashes)
        dialogue = commit(QUEUE, progress, owned.fence, self.found.memory, now=1.0, closing=closing)
        converse(dialogue, self.perform)


def test_two_deaths_for_the_loop_and_two_during_the_message():
    world = World("abcabcabc", killers={4})
    assert [world.live() for _ in range(5)] == [4, 4, 4, 4, None]
    assert world.condemned == {4}
    assert world.finished == {0, 2, 3, 5, 6, 8, 1}


def test_a_member_that_dies_before_it_could_commit_anything_is_no_other_case():
    world = World("abcdefgh" * 20, killers={100}, lanes=8, committed_after=30)
    lives = 0
    while world.live() is not None:
        lives += 1
        assert lives < 20
    assert world.condemned == {100}


def test_two_killers_of_one_queue_are_both_found():
    world = World("abcabc", killers={1, 5})
    assert [world.live() for _ in range(8)].count(None) >= 1
    assert world.condemned == {1, 5}


def test_members_killed_from_outside_while_a_key_is_stuck_condemn_nobody():
    world = World("abab" * 5, stuck={"a"}, committed_after=1)
    for _ in range(20):
        assert world.live() is None
    assert world.condemned == set()
    assert all(not r.suspects for r in world.records() if isinstance(r, Entry))
    assert not [r for r in world.records() if isinstance(r, Trying)], "nor tries one by one"


def test_what_others_finish_beside_it_hides_no_killer():
    """The committed offset stands still at a stuck key; each owner finishes something."""
    world = World("ab" * 3 + "k" + "ab" * 30, killers={6}, stuck={"a"}, committed_after=1)
    world.lanes = 2
    assert [world.live() for _ in range(5)] == [6, 6, 6, 6, None]
    assert world.condemned == {6}


def test_idle_members_killed_from_outside_try_nothing_one_by_one():
    world = World("ab", committed_after=1)
    world.live()
    world.live(close=True)
    for _ in range(10):
        assert world.live() is None
    assert not [r for r in world.records() if isinstance(r, Trying)]


def test_a_loop_ends_once_everything_was_tried_though_a_key_is_stuck():
    world = World("ab" * 10, stuck={"a"})
    world.most = 0
    world.live()
    world.live()
    world.most = 10**9
    world.live()
    tried = [r for r in world.records() if isinstance(r, Trying)]
    assert {r.offset for r in tried} == {None, 0, *range(1, 20, 2)}
    entries = [r for r in world.records() if isinstance(r, Entry)]
    assert [r.deaths for r in entries] == [0, 1, 2, 0], "the first: there was no record"


def test_normal_running_tries_nothing():
    world = World("abc" * 30, committed_after=5)
    world.live()
    assert not [r for r in world.records() if isinstance(r, Trying)]


def test_a_clean_end_forgets_the_deaths():
    world = World("abc", killers={1})
    world.live()
    world.killers = frozenset()
    world.live(close=True)
    assert world.records()[-1].deaths == 0


def test_a_clean_end_in_the_loop_hands_it_on():
    world = World("abcabcabc", killers={4})
    world.live()
    world.live()
    world.most = 1
    world.live(close=True)
    assert (world.records()[-1].closed, world.records()[-1].deaths) == (True, 2)
    world.most = 10**9
    assert [world.live() for _ in range(3)] == [4, 4, None]
    assert world.condemned == {4}


def test_who_lost_the_queue_and_takes_it_again_is_not_dead():
    world = World("abc", killers={0})
    world.live(name="same@1")
    for _ in range(5):
        world.live(name="same@1")
    assert not [r for r in world.records() if isinstance(r, Trying)]


def test_what_was_finished_before_the_death_is_not_blamed():
    world = World("abc", killers={0})
    world.live()
    world.live()
    world.live()
    world.killers = frozenset()
    world.committed_after = 1
    world.live()
    world.live()
    assert world.condemned == set()
    assert world.records()[-1].suspects == ()


def test_who_set_the_offset_begins_anew():
    world = World("abcabc", killers={4}, broker=StateBroker(offset=2))
    for _ in range(3):
        world.live()
    world.broker.offset = 0
    before = len(world.records())
    world.live()
    new = world.records()[before:]
    assert [record.deaths for record in new if isinstance(record, Entry)] == [0]
    assert not [record for record in new if isinstance(record, Trying)]


def test_a_killer_behind_more_than_can_be_tried_is_found_in_the_end():
    keys, killer = "abcdefgh" * 400, 2 * MOST_SUSPECTS + 100
    world = World(keys, killers={killer}, lanes=8)
    lives = 0
    while world.live() is not None:
        lives += 1
        assert lives <= 12
    assert world.condemned == {killer}
    tries = [r.offset for r in world.records() if isinstance(r, Trying)]
    assert len(tries) <= 2 * 6 * (MOST_SUSPECTS + 1)


def test_the_end_of_the_queue_is_asked_for_only_after_a_death():
    world = World("abc", killers={1})
    world.live()
    assert world.broker.asked(MaxOffset) == 0
    world.live()
    assert world.broker.asked(MaxOffset) == 1


def test_an_unclean_take_over_costs_one_record():
    world = World("abc", killers={1})
    world.live()
    before = world.broker.asked(AppendRecord)
    world.live()
    assert world.broker.asked(AppendRecord) - before == 3, "acquire, confirm and the deaths"


@settings(max_examples=40, deadline=None)
@given(
    keys=st.text("abcdef", min_size=1, max_size=40),
    killers=st.sets(st.integers(0, 39), max_size=3),
    stuck=st.sets(st.sampled_from("abcdef"), max_size=2),
    committed_after=st.sampled_from([1, 3, 10, 10**9]),
    lanes=st.integers(1, 6),
    kills=st.lists(st.integers(0, 12), max_size=6),
)
def test_killers_are_found_and_nobody_else(keys, killers, stuck, committed_after, lanes, kills):
    """Also if members are killed from outside in between, while no handler runs."""
    world = World(keys, frozenset(killers), frozenset(stuck), committed_after, lanes=lanes)
    for most in kills:
        world.most = most
        world.live()
    world.most = 10**9
    lives = 0
    while world.live() is not None:
        lives += 1
        assert lives <= 4 * (len(killers) + 1) + len(keys)
    assert world.condemned <= killers
    done = {n for n in range(len(keys)) if keys[n] not in stuck | world.parked}
    assert done <= world.finished
