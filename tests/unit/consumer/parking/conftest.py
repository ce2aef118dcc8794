"""A park queue in memory, beside a held queue whose records are a list."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.config import ConsumerConfig
from orderly.consumer.handler_caller import Caller
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.parking import Parker
from orderly.consumer.session import now
from orderly.consumer.workers import Worker
from orderly.errors import ProtocolError
from orderly.ordering.context import Failure
from orderly.ordering.results import Disposition
from orderly.ordering.state.topic import park_topic
from orderly.protocol.ext import from_ext
from orderly.protocol.park_record import Parked, read_park
from orderly.protocol.properties import decode_properties
from orderly.protocol.send import SendMessage
from tests.support.messages import QUEUE, message

PARK_QUEUE = replace(QUEUE, topic=park_topic("group", QUEUE.topic))


class Shelf:
    """What a broker keeps of one park queue. `fail` makes its next calls raise, one each."""

    def __init__(self):
        self.messages, self.minimum, self.fail, self.reads = [], 0, [], 0
        self.store_time = 2.0
        self.after_send = lambda: None

    def send_now(self, queue, command):
        assert queue == PARK_QUEUE
        self._may_fail()
        header = from_ext(SendMessage, command.ext)
        stored = replace(
            message(len(self.messages), queue=queue),
            body=command.body,
            properties=decode_properties(header.properties.encode()),
            store_time=self.store_time,
        )
        self.messages.append(stored)
        self.after_send()
        return SimpleNamespace(queue_offset=stored.queue_offset)

    def send_again(self, stored):
        """Store another copy of a message."""
        self.messages.append(replace(stored, queue_offset=len(self.messages)))

    def pull_now(self, query):
        self._may_fail()
        self.reads += 1
        if query.offset < self.minimum:
            return self._answer([], self.minimum)
        block = self.messages[query.offset : query.offset + query.max_messages]
        return self._answer(block, query.offset + len(block))

    def delete_below(self, position):
        self.minimum = position

    @property
    def records(self):
        found = []
        for stored in self.messages:
            with contextlib.suppress(ProtocolError):  # damaged, or nobody's
                found.append(read_park(stored))
        return found

    @property
    def parked(self):
        """(key, source offset) of what is parked, in the order in which it was appended."""
        return [(r.key, r.offset) for r in self.records if isinstance(r, Parked)]

    def control(self, kind):
        return [record for record in self.records if isinstance(record, kind)]

    def _answer(self, messages, next_offset):
        return SimpleNamespace(messages=messages, next_offset=next_offset, min_offset=self.minimum)

    def _may_fail(self):
        if self.fail:
            error = self.fail.pop(0)
            if error is not None:
                raise error


class Memory:
    """Knows which keys are on record; `Setting` writes it."""

    def __init__(self):
        self.token, self.kept = 7, {}

    def recorded(self, key):
        return key in self.kept


class Setting:
    """One queue with keys; `take`, `park` and `run` are what an engine does with it."""

    def __init__(self, session, hold, cluster, shelf, monkeypatch):
        session.config = ConsumerConfig(order="key", suspend=1.0, max_suspend=8.0)
        monkeypatch.setattr("orderly.consumer.parking.random.random", lambda: 1.0)
        cluster.send_now, cluster.pull_now = shelf.send_now, shelf.pull_now
        cluster.max_offset = lambda queue: len(shelf.messages)
        self.session, self.shelf, self.timers = session, shelf, session.client.schedule
        self.held = hold(by_key=True, memory=Memory(), max_runs=5)
        self.owned, self.parking = self.held.owned, self.held.owned.parking
        self.aside = Parker(session)
        self.records, self.fail_record, self.handled = [], [], []
        self.answer = lambda message, context: None
        self.worker = Worker(session, Caller(session, self._handle), lambda held: None)
        self.worker.pool = SimpleNamespace(submit=lambda task: task(), crowded=False)
        monkeypatch.setattr(OffsetSaver, "record", lambda _, held: self._record(held))

    def _record(self, held):
        if self.fail_record:
            raise self.fail_record.pop(0)
        kept = held.owned.parking.kept
        self.records.append(kept)
        held.memory.kept = {parked.key: parked for parked in kept.parked}

    def _handle(self, messages, context):
        self.handled += [(m.queue_offset, context.replayed) for m in messages]
        return self.answer(messages[0], context)

    def pulled(self, *keys):
        """Have one message of each key pulled."""
        first = self.owned.next_pull
        messages = [message(first + place, "k") for place, _ in enumerate(keys)]
        self.owned.pulled(messages, first + len(keys), None, list(keys))

    def take(self):
        return self.owned.take(10, now())

    def park(self, *keys, reason="bad"):
        """Have one message of each key pulled and parked."""
        for key in keys:
            self.pulled(key)
            batch = self.take()
            failures = {batch.messages[0].queue_offset: Failure(reason, attempts=1)}
            assert self.aside.park(self.held, batch, failures) is None
            self.owned.finish(batch, Disposition.COMMIT, now())


@pytest.fixture
def shelf():
    return Shelf()


@pytest.fixture
def setting(session, hold, cluster, shelf, monkeypatch):
    return Setting(session, hold, cluster, shelf, monkeypatch)
