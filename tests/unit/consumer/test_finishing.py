"""What becomes of a batch once its handler has answered: how long its lane waits, who wakes it."""

import pytest
import structlog

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer.finishing import Finisher
from orderly.consumer.handler_caller import Caller
from orderly.errors import HandlerHung, WorkerDied
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack, ConsumeResult, DeadLetter, Fail, Park, Suspend
from tests.support.messages import message

WAIT, LONGEST = 2.0, 16.0


class Setting:
    """One queue; `handle(answer)` has its next batch answered so and finished."""

    def __init__(self, session, hold, order):
        longest = {"max_suspend": LONGEST} if order == "key" else {}
        session.config = ConsumerConfig(
            order=order, suspend=WAIT, batch_size=2, max_reconsume_times=None, **longest
        )
        self.session, self.timers = session, session.client.schedule
        self.ready, self.reopened = [], []
        self.finisher = Finisher(session, self.ready.append, self.reopened.append)
        by_key = order == "key"
        self.held = hold(by_key=by_key, max_runs=3)
        keys = list("aab") if by_key else None
        self.held.owned.pulled([message(n, k) for n, k in enumerate("aab")], 3, None, keys)

    def take(self):
        return self.held.owned.take(self.session.config.batch_size, now())

    def handle(self, answer):
        batch = self.take()

        def respond(messages, context):
            return answer(messages, context) if callable(answer) else answer

        called = Caller(self.session, respond).call(self.held, batch.messages, batch.key)
        blocks = self.finisher.blocks(self.held, batch, called)
        self.finisher.finish(self.held, batch, called)
        return blocks

    def wake(self):
        self.held.owned.wake(now() + 10_000)


@pytest.fixture
def setting(session, hold):
    return Setting(session, hold, "key")


def test_a_success_goes_on_at_once(setting):
    setting.handle(Ack())
    assert (setting.held.owned.offset, setting.timers.waiting) == (2, [])


@pytest.mark.parametrize("ended", [WorkerDied("died"), HandlerHung("hung")])
def test_after_an_end_from_outside_each_message_of_the_batch_comes_alone(setting, ended):
    setting.handle(raising(ended))
    setting.handle(Ack())  # of another key
    setting.wake()
    assert [m.queue_offset for m in setting.take().messages] == [0]


def test_after_a_failure_the_batch_comes_again_whole(setting):
    setting.handle(raising(ValueError()))
    setting.handle(Ack())
    setting.wake()
    assert [m.queue_offset for m in setting.take().messages] == [0, 1]


def raising(error):
    def handle(messages, context):
        raise error

    return handle


def test_keys_that_failed_together_do_not_come_again_together(setting):
    setting.handle(Fail("no"))
    setting.handle(Fail("no"))
    first, second = setting.timers.seconds
    assert WAIT / 2 <= min(first, second) < max(first, second) <= WAIT


def test_by_queue_the_wait_is_always_the_same(session, hold):
    setting = Setting(session, hold, "queue")
    for _ in range(4):
        setting.handle(Fail("no"))
        setting.wake()
    assert setting.timers.seconds == [WAIT] * 4


def test_the_retry_topic_waits_like_a_queue_also_with_order_by_key(setting, hold):
    """One lane holds all of it: a wait that grows would stop the whole topic."""
    setting.held = hold(by_key=False)
    setting.held.owned.pulled([message(0)], 1)
    for _ in range(4):
        setting.handle(Fail("no"))
        setting.wake()
    assert setting.timers.seconds == [WAIT] * 4


def test_a_queue_that_is_leaving_is_not_woken_again(setting):
    batch = setting.take()
    setting.held.owned.drop(Drop.REVOKED)
    called = Caller(setting.session, lambda *_: Fail("no")).call(setting.held, batch.messages)
    setting.finisher.finish(setting.held, batch, called)
    assert setting.timers.waiting == []


def test_a_log_that_raises_does_not_leave_a_lane_asleep_for_ever(setting):
    class Broken:
        def info(self, *args, **fields):
            raise OSError("the disk is full")

        warning = info

    batch = setting.take()
    called = Caller(setting.session, lambda *_: ConsumeResult.SUSPEND).call(
        setting.held, batch.messages
    )
    setting.held.log = Broken()
    with pytest.raises(OSError, match="full"):
        setting.finisher.finish(setting.held, batch, called)
    assert len(setting.timers.waiting) == 1


def test_only_what_asks_a_broker_blocks(setting, cluster):
    cluster.send_now = lambda queue, command: None
    assert not setting.handle(Fail("no"))
    setting.wake()
    assert setting.handle(DeadLetter("bad")) is True


def test_a_dead_letter_is_done_and_its_key_goes_on(setting, cluster):
    cluster.send_now = lambda queue, command: None
    setting.handle(DeadLetter("bad"))
    assert (setting.held.owned.offset, setting.timers.waiting) == (2, [])


def test_what_is_left_untried_behind_a_dead_letter_does_not_wait(setting, cluster):
    cluster.send_now = lambda queue, command: None

    def rejects_the_first(messages, context):
        context.not_tried(messages[1])
        return context.dead_letter(messages[0], "bad")

    setting.handle(rejects_the_first)
    assert (setting.held.owned.offset, setting.timers.waiting) == (1, [])


def test_a_result_after_the_loss_moves_nothing(setting):
    batch = setting.take()
    called = Caller(setting.session, lambda *_: Ack()).call(setting.held, batch.messages)
    setting.held.owned.drop(Drop.LOST)
    setting.finisher.finish(setting.held, batch, called)
    assert (setting.held.owned.offset, setting.held.owned.idle) == (0, True)


def test_by_key_the_events_of_a_batch_name_what_it_is_ordered_by(setting, cluster):
    cluster.send_now = lambda queue, command: None
    setting.held.owned.pulled([message(3, "tenant")], 4, None, [("account", 7)])
    setting.take()
    setting.take()  # the other two keys are busy

    def rejects(messages, context):
        context.dead_letter(messages[0], "bad")
        return Fail("no")

    with structlog.testing.capture_logs() as events:
        setting.handle(Suspend(0.01))
        setting.held.owned.wake(now() + 9)
        setting.handle(rejects)
    structlog.reset_defaults()
    named = {event["event"]: event["key"] for event in events}
    assert named == dict.fromkeys(
        ("key.suspended", "handler.answered_fail", "message.dead_lettered"),
        "('account', 7)",
    )


class Aside:
    """Takes the place of `SettingAside`; `wait` is what it says."""

    def __init__(self, wait):
        self.wait, self.asked = wait, []

    def park(self, held, batch, failures, finished):
        self.asked.append((batch.messages, dict(failures), set(finished)))
        return self.wait


def test_what_cannot_be_parked_waits_and_counts_only_what_failed(setting):
    setting.finisher.parker = Aside(7.0)
    setting.handle(Park("bad"))
    assert (setting.held.owned.offset, setting.timers.seconds) == (0, [7.0])
    setting.wake()
    setting.take()  # the other key
    assert [m.reconsume_times for m in setting.take().messages] == [1, 0]


def test_what_is_done_or_a_dead_letter_is_not_parked(setting, monkeypatch):
    setting.finisher.parker = Aside(7.0)
    monkeypatch.setattr(
        setting.finisher._dead_letters, "send_to_dlq", lambda *_, **__: frozenset({0})
    )
    setting.handle(lambda messages, context: context.park(messages[1], "bad"))
    ((_, _, finished),) = setting.finisher.parker.asked
    assert finished == {0}
    assert setting.held.owned.offset == 1


def test_parking_goes_before_a_limit_of_failures(setting):
    setting.session.config = ConsumerConfig(order="key", batch_size=2, max_reconsume_times=0)
    setting.finisher.parker = Aside(None)
    setting.handle(Park("bad"))
    assert len(setting.finisher.parker.asked) == 1


def test_a_key_that_wakes_without_a_body_has_it_pulled_again(setting):
    setting.held.owned.limit(1, 10**6)
    for _ in "ab":
        setting.handle(Suspend(0.5))
    later, sooner = setting.timers.waiting.pop(), setting.timers.waiting.pop()
    sooner[1]()
    assert setting.reopened == [], "it kept its body"
    later[1]()
    assert setting.reopened == [setting.held]
