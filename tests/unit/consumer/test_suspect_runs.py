"""In a crash loop: one suspect at a time over all queues, each after a record."""

import asyncio
import threading
import time

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer.coroutines import Coroutines
from orderly.consumer.handler_caller import Caller
from orderly.consumer.workers import Worker
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import AppendRecord
from orderly.ordering.crashes import Crashes, Suspects
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack, Fail
from orderly.protocol.state_record import Trying, decode_record, encode_record
from tests.support.messages import message
from tests.support.waiting import eventually

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]
TOGETHER = 0.02  # seconds that each handler takes, so that two at a time would be seen


class Memory:
    """Journals, and says of an entry that it is written."""

    token = 1

    def __init__(self, queue):
        self.queue = queue

    def journal(self, offset):
        yield AppendRecord(self.queue, encode_record(Trying("me@1", 1, offset)))

    def recorded(self, key):
        return None

    def due(self, *content, **how):
        return False

    def remember(self, *content, **how):
        yield AppendRecord(self.queue, b"entry")


class Setting:
    """An engine, its queues, and what was tried and handled, in order.

    Attributes:
        happened: ("tries", queue id, offset) and ("handled", queue id, offset).
        fail: queue id -> what its appends raise.
        timers: whether what waits goes on.
        act: what the handler answers.
        slow: queue id and offset of the message whose handler waits for `gate`.
    """

    def __init__(self, session, hold, engine):
        session.config = ConsumerConfig(order="key", concurrency=4, batch_size=5, suspend=0.05)
        self.session, self._hold = session, hold
        self.happened, self.fail, self.act = [], {}, lambda m: Ack()
        self.timers = True
        self.running, self.most = [], 0
        self.slow, self.gate = None, threading.Event()
        self.lock = threading.Lock()
        self.perform, session.perform = session.perform, self.append
        handler = self.handle_async if engine is Coroutines else self.handle
        session.client.schedule.after = self._after
        self.engine = engine(session, Caller(session, handler), lambda held: None)

    def _after(self, seconds, work):
        if self.timers:
            threading.Timer(min(seconds, 0.05), work).start()

    def append(self, call):
        if not isinstance(call, AppendRecord):
            return self.perform(call)
        if call.queue.queue_id in self.fail:
            raise self.fail[call.queue.queue_id]
        if call.body != b"entry":
            self.happened.append(("tries", call.queue.queue_id, decode_record(call.body).offset))
        return len(self.happened)

    def hold(self, queue, keys, crashes, end=None):
        suspects = Suspects(crashes, 0, len(keys) if end is None else end)
        memory = Memory(queue)
        held = self._hold(
            queue, by_key=True, max_runs=4, batch_size=5, suspects=suspects, memory=memory
        )
        found = [message(offset, key, queue) for offset, key in enumerate(keys)]
        held.owned.pulled(found, len(keys), None, list(keys))
        return held

    def start(self, *holds):
        for held in holds:
            self.engine.ready(held)

    def begin(self, messages):
        with self.lock:
            assert len(messages) == 1, "in a crash loop one message is a batch"
            place = (messages[0].queue.queue_id, messages[0].queue_offset)
            self.running.append(place)
            self.most = max(self.most, len(self.running))
            return place

    def end(self, place):
        with self.lock:
            self.running.remove(place)
            self.happened.append(("handled", *place))

    def handle(self, messages, context):
        place = self.begin(messages)
        time.sleep(TOGETHER)
        assert place != self.slow or self.gate.wait(30)
        self.end(place)
        return self.act(messages[0])

    async def handle_async(self, messages, context):
        place = self.begin(messages)
        await asyncio.sleep(TOGETHER)
        assert place != self.slow or await asyncio.to_thread(self.gate.wait, 30)
        self.end(place)
        return self.act(messages[0])

    def offsets(self, queue_id=0):
        return [offset for what, q, offset in self.happened if (what, q) == ("handled", queue_id)]

    def tried(self):
        return [event for event in self.happened if event[0] == "tries"]


@pytest.fixture(params=[Worker, Coroutines], ids=["threads", "coroutines"])
def setting(request, session, hold):
    setting = Setting(session, hold, request.param)
    yield setting
    setting.engine.close()


def finished(held, offset):
    eventually(lambda: held.owned.offset == offset and held.owned.idle)


def test_one_at_a_time_over_all_queues_and_each_has_its_turns(setting):
    setting.slow = (0, 0)  # until all the others want their turn
    holds = [setting.hold(queue, "abcde", Crashes(2)) for queue in QUEUES]
    setting.start(holds[0])
    eventually(lambda: setting.running == [(0, 0)])
    setting.start(*holds[1:])
    eventually(lambda: len(setting.engine._suspect_runs._waiting) == 3)
    setting.gate.set()
    for held in holds:
        finished(held, 5)
    assert setting.most == 1
    order = [queue_id for what, queue_id, _ in setting.happened if what == "handled"]
    assert sorted(order) == sorted([*range(4)] * 5)
    assert set(order[:8]) == {0, 1, 2, 3}, "nobody waits for another queue's last suspect"


def test_a_queue_without_suspects_does_not_wait_for_another_ones(setting):
    setting.slow = (0, 0)
    looping = setting.hold(QUEUES[0], "abc", Crashes(2), end=1)
    sound = setting.hold(QUEUES[1], "abc", Crashes())
    setting.start(looping, sound)
    finished(sound, 3)
    assert setting.offsets(0) == []
    setting.gate.set()
    finished(looping, 3)
    assert {event[2] for event in setting.tried()} == {0, None}


def test_after_the_loop_keys_run_side_by_side_again(setting):
    setting.slow = (0, 1)
    held = setting.hold(QUEUES[0], "abcdefgh", Crashes(2), end=1)
    setting.start(held)
    eventually(lambda: setting.most > 1)
    setting.gate.set()
    finished(held, 8)
    assert [event[2] for event in setting.tried()] == [0, None]


def test_what_cannot_be_put_on_record_is_not_handled(setting, caplog):
    setting.fail[0] = OrderlyError("made by the test")
    held = setting.hold(QUEUES[0], "a", Crashes(2))
    setting.start(held)
    eventually(lambda: "suspects.not_recorded" in caplog.text)
    assert setting.offsets() == []
    setting.fail.clear()
    finished(held, 1)
    assert setting.happened[:2] == [("tries", 0, 0), ("handled", 0, 0)]


def test_what_waits_for_its_record_keeps_nobody_from_the_turn(setting):
    setting.fail[0], setting.timers = OrderlyError("made by the test"), False
    first, second = (setting.hold(queue, "a", Crashes(2)) for queue in QUEUES[:2])
    setting.start(first, second)
    finished(second, 1)
    assert setting.offsets(0) == []


def test_what_is_no_suspect_keeps_nobody_from_the_turn(setting):
    """Of the first queue only message 1 can run, which came after it was taken."""
    setting.fail[0], setting.timers = OrderlyError("made by the test"), False
    setting.slow = (0, 1)
    first = setting.hold(QUEUES[0], "ab", Crashes(2), end=1)
    second = setting.hold(QUEUES[1], "a", Crashes(2))
    setting.start(first)
    eventually(lambda: setting.running == [(0, 1)])
    setting.start(second)
    finished(second, 1)
    setting.gate.set()
    eventually(lambda: setting.offsets(0) == [1])


@pytest.mark.parametrize("key", ["a", None, ("no", "text")])
def test_a_condemned_message_is_not_handled_and_blocks_only_its_key(setting, key, caplog):
    """It cannot be parked here: there is no park topic, and some keys never can be."""
    keys = [key, "b", key, "c", key, "b"]
    held = setting.hold(QUEUES[0], keys, Crashes(4, ((0, 2),)))
    setting.start(held)
    eventually(lambda: set(setting.offsets()) == {1, 3, 5})
    eventually(lambda: caplog.text.count("message.condemned") >= 2)
    assert "the process died 2 times while handling it" in caplog.text
    assert held.owned.offset == 0
    assert not {0, 2, 4} & set(setting.offsets())


def test_a_condemned_message_is_looked_for_also_after_the_loop(setting, caplog):
    held = setting.hold(QUEUES[0], "abab", Crashes(0, ((0, 2),)))
    setting.start(held)
    eventually(lambda: set(setting.offsets()) == {1, 3})
    eventually(lambda: "message.condemned" in caplog.text)
    assert setting.tried() == []


def test_a_failure_clears_a_suspect_too(setting):
    failing = {0}
    setting.act = lambda m: Fail("not yet") if m.queue_offset in failing else Ack()
    held = setting.hold(QUEUES[0], "ab", Crashes(2))
    setting.start(held)
    eventually(lambda: not held.owned.suspects.on)
    assert held.owned.offset == 0
    failing.clear()
    finished(held, 2)


def test_a_queue_that_is_given_up_frees_its_turn(setting):
    first, second = (setting.hold(queue, "abc", Crashes(2)) for queue in QUEUES[:2])

    def drop(handled):
        if handled.queue.queue_id == 0:
            with first.lock:
                first.owned.drop(Drop.REVOKED)
        return Ack()

    setting.act = drop
    setting.start(first, second)
    finished(second, 3)
    assert len(setting.offsets(0)) == 1


def test_a_suspect_that_goes_aside_frees_its_turn(setting):
    """It is the last one of its queue, which goes on without turns after that."""
    setting.engine.parker.park = lambda held, batch, failures, finished: None  # it succeeds
    first, second = (setting.hold(queue, "a", Crashes(2)) for queue in QUEUES[:2])
    first.owned.parking.note("a", 7, 0, 1)  # an earlier message of it, from before a reset
    setting.start(first)
    finished(first, 1)
    setting.start(second)
    finished(second, 1)
    assert setting.offsets(0) == []


def test_a_run_that_breaks_down_frees_its_turn(setting):
    first, second = (setting.hold(queue, "a", Crashes(2)) for queue in QUEUES[:2])
    finish, broken = setting.engine._finisher.finish, []

    def breaks(held, batch, called):
        if not broken:
            broken.append(held)
            raise RuntimeError("made by the test")
        finish(held, batch, called)

    setting.engine._finisher.finish = breaks
    setting.timers = False
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        setting.start(first, second)
        eventually(lambda: first.owned.offset + second.owned.offset == 1)
    finally:
        threading.excepthook = hook
    assert not broken[0].owned.offset


def test_the_end_of_the_loop_is_on_record_at_once(setting, session, monkeypatch, caplog):
    caplog.set_level("INFO")
    recorded = []
    monkeypatch.setattr(setting.engine._suspect_runs._saver, "record", recorded.append)
    mine = MessageQueue("orders", "broker-b", 0)  # what ran before may still end, and say so
    held = setting.hold(mine, "ab", Crashes(2))
    setting.start(held)
    eventually(lambda: recorded == [held])
    told = [r.getMessage() for r in caplog.records if "crash_loop.ends" in r.getMessage()]
    assert len([event for event in told if "broker-b" in event]) == 1
    assert held.owned.suspects.recorded(2) == Crashes()


def test_in_normal_running_the_turn_is_never_asked_for(setting, monkeypatch):
    monkeypatch.setattr(setting.engine, "_suspect_runs", None)
    held = setting.hold(QUEUES[0], "abcd", Crashes(1))
    setting.engine._finisher.parker.saw = lambda key, moment: None
    monkeypatch.setattr(setting, "begin", lambda messages: (0, messages[0].queue_offset))
    monkeypatch.setattr(setting, "end", lambda place: setting.happened.append(("handled", *place)))
    setting.start(held)
    finished(held, 4)
    assert setting.tried() == []
    assert held.owned.keeps_lock(now())
