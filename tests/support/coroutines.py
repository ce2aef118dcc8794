"""An engine of coroutines with a handler that does what a test says.

The timers are the test's; the loop is real, on a thread of its own unless a test says otherwise.
"""

import asyncio
import threading
from dataclasses import replace

from orderly.config import ConsumerConfig
from orderly.consumer.handling import engine as engine_module
from orderly.consumer.handling import finishing
from orderly.consumer.handling.calling import Caller
from orderly.consumer.handling.coroutines import Coroutines
from orderly.consumer.session import now
from orderly.ordering.outcomes import Ack
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually

CONCURRENCY = 3
OTHER = replace(QUEUE, queue_id=1)


class Setting:
    """An engine and its handler, which notes each call and does what `act` says."""

    def __init__(self, session, hold, monkeypatch):
        self.ahead = 0.0  # seconds the clock of the test is ahead
        for module in (engine_module, finishing):
            monkeypatch.setattr(module, "now", lambda: now() + self.ahead)
        session.config = ConsumerConfig(order="key", concurrency=CONCURRENCY, suspend=2.5)
        self.session, self._hold = session, hold
        self.timers = session.client.schedule
        self.calls, self.running, self.most, self.acks = [], {}, 0, []
        self.gate = threading.Event()
        self.act = self.passes
        self.reopened = []
        self.engine = Coroutines(session, Caller(session, self.handle), self.reopened.append)
        session.interrupt = self.engine.interrupt

    def hold(self, keys, queue=QUEUE, **settings):
        """A queue with one message for each key, which runs at once."""
        by_key = {"by_key": True, "max_runs": CONCURRENCY} | settings
        held = self._hold(queue, **by_key)
        found = [message(offset, key, queue) for offset, key in enumerate(keys)]
        held.owned.pull_gate(now())
        held.owned.pulled(found, len(keys), None, list(keys))
        self.engine.ready(held)
        return held

    async def handle(self, messages, context):
        lane = (context.message_queue, context.key)
        assert lane not in self.running, "one message of a key at a time"
        self.running[lane] = messages[0].queue_offset
        self.most = max(self.most, len(self.running))
        self.calls.append(messages[0].queue_offset)
        try:
            return await self.act(messages, context)
        finally:
            del self.running[lane]

    async def passes(self, messages, context):
        return Ack()

    async def waits(self, messages, context):
        await asyncio.to_thread(self.gate.wait, 30)
        return Ack()

    def later(self):
        """Let as much time pass as a failed lane waits."""
        self.ahead += 2.5
        self.timers.ring()

    def own_thread(self):
        return next((t for t in threading.enumerate() if t.name == "orderly-loop-group"), None)


def done(held, count):
    eventually(lambda: held.owned.offset == count and held.owned.idle)


def goes_on(setting, held):
    """Whether the queue's only run can be claimed: what comes now is handled."""
    eventually(lambda: not setting.engine._tasks)
    held.owned.pulled([message(90, queue=held.queue)], 91, None, ["z"])
    setting.engine.ready(held)
    done(held, 91)
    return setting.calls[-1] == 90
