"""ProcessQueue against a model: two plain lists."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from orderly.model import UndecodableMessage
from orderly.ordering.process_queue import ProcessQueue
from tests.support.messages import message


def span(messages):
    return (messages[0].queue_offset, messages[-1].queue_offset) if messages else None


class ProcessQueueMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.queue = ProcessQueue()
        self.pending = []
        self.in_hand = []
        self.last_batch = []
        self.next_offset = 0

    @rule(gaps=st.lists(st.integers(1, 4), max_size=6))
    def put(self, gaps):
        fresh = []
        for gap in gaps:
            self.next_offset += gap
            plain = message(self.next_offset)
            fresh.append(UndecodableMessage(plain, "why") if self.next_offset % 7 == 0 else plain)
        assert self.queue.put(fresh) == len(fresh)
        self.pending += fresh

    @rule()
    def put_again_changes_nothing(self):
        held = self.in_hand + self.pending
        assert self.queue.put(held) == 0

    @rule(limit=st.integers(1, 5))
    def take(self, limit):
        self.last_batch = self.queue.take(limit)
        alone = [isinstance(m, UndecodableMessage) for m in self.pending[:limit]]
        if any(alone):
            limit = max(1, alone.index(True))
        assert self.last_batch == self.pending[:limit]
        self.in_hand += self.last_batch
        self.pending = self.pending[limit:]

    @rule()
    def commit(self):
        self.queue.commit()
        self.in_hand, self.last_batch = [], []

    @rule(data=st.data())
    def rollback(self, data):
        offsets = [m.queue_offset for m in self.in_hand]
        finished = data.draw(st.sets(st.sampled_from(offsets))) if offsets else set()
        self.queue.rollback(finished)
        self.pending = [m for m in self.in_hand if m.queue_offset not in finished] + self.pending
        self.in_hand, self.last_batch = [], []

    @rule(data=st.data())
    def put_back(self, data):
        offsets = [m.queue_offset for m in self.last_batch]
        finished = data.draw(st.sets(st.sampled_from(offsets))) if offsets else set()
        untried = data.draw(st.sets(st.sampled_from(offsets))) if offsets else set()
        self.queue.put_back(self.last_batch, finished, untried)
        self.pending = [
            m.changed(reconsume_times=m.reconsume_times + (m.queue_offset not in untried))
            for m in self.last_batch
            if m.queue_offset not in finished
        ] + self.pending
        self.in_hand = self.in_hand[: len(self.in_hand) - len(self.last_batch)]
        self.last_batch = []

    @invariant()
    def counts_both_parts(self):
        held = self.in_hand + self.pending
        assert (self.queue.pending, self.queue.in_hand) == (len(self.pending), len(self.in_hand))
        assert self.queue.count == len(held)
        assert self.queue.size == sum(m.held_size for m in held)
        assert self.queue.head == (held[0] if held else None)
        assert self.queue.spans == (span(self.pending), span(self.in_hand))


TestProcessQueue = ProcessQueueMachine.TestCase
TestProcessQueue.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
