"""Calls that run too long: told of once and at each doubling, and what follows for each kind."""

import threading
from types import SimpleNamespace

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from orderly.config import ConsumerConfig
from orderly.consumer.handling import hanging, running_calls
from orderly.consumer.handling.hanging import HangWatch, ends_process, interval, stage
from orderly.consumer.handling.running_calls import RunningCalls
from orderly.log import QUEUE_FIELDS
from orderly.ordering.context import ConsumeContext
from orderly.ordering.outcomes import Ack
from tests.support.messages import QUEUE, message

TIMEOUT = 10.0


class Exited(BaseException):
    pass


class Setting:
    """A watch whose clock is the test's, and one call on a thread of its own that waits."""

    def __init__(self, session, monkeypatch):
        self.time = 1000.0
        monkeypatch.setattr(running_calls, "monotonic", lambda: self.time)
        monkeypatch.setattr(hanging, "os", SimpleNamespace(_exit=self.exit))
        monkeypatch.setattr(hanging.threading, "Timer", lambda *a: SimpleNamespace(start=int))
        self.session, self.calls, self.killed = session, RunningCalls(), []
        self.events, self.exits, self.go_on = [], [], threading.Event()

    def exit(self, code):
        self.exits.append(code)
        raise Exited

    def configure(self, **settings):
        self.session.config = ConsumerConfig(handler_timeout=TIMEOUT, **settings)

    def watch(self, kill=None):
        return HangWatch(self.session, self.calls, kill)

    def begin(self, key="k"):
        entered = threading.Event()

        def handle_for_ever(messages, context):
            secret = "not to be told"  # noqa: F841
            entered.set()
            self.go_on.wait(20)
            return Ack()

        context = ConsumeContext(QUEUE, "group", attempt=3, key=key)
        noted = self.calls.around(handle_for_ever)
        batch = (message(7, key),)
        self.thread = threading.Thread(target=noted, args=(batch, context), daemon=True)
        self.thread.start()
        assert entered.wait(30)
        return context

    def end(self):
        self.go_on.set()
        self.thread.join(30)

    def look(self, watch):
        with structlog.testing.capture_logs() as events:
            try:
                watch.round()
            finally:
                self.events += events
        return [event["event"] for event in events]


@pytest.fixture
def setting(session, monkeypatch):
    setting = Setting(session, monkeypatch)
    setting.configure()
    yield setting
    setting.go_on.set()


def test_stages():
    assert [stage(s, 5.0) for s in (0, 4.9, 5, 9.9, 10, 19, 20, 40)] == [0, 0, 1, 1, 2, 2, 3, 4]


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e4))
def test_a_stage_is_reached_at_its_doubling_and_not_before(seconds, timeout):
    reached = stage(seconds, timeout)
    assert reached == 0 or seconds >= timeout * 2 ** (reached - 1)
    assert seconds < timeout * 2**reached * (1 + 1e-9)


@pytest.mark.parametrize(
    ("on_hang", "stoppable", "again", "ends"),
    [
        ("block", False, True, False),
        ("block", True, True, False),
        ("exit", False, False, True),
        ("exit", True, False, False),
        ("exit", True, True, True),
    ],
)
def test_what_ends_the_process(on_hang, stoppable, again, ends):
    assert ends_process(on_hang, stoppable=stoppable, again=again) is ends


def test_the_interval_follows_the_timeout_within_bounds():
    assert [interval(t) for t in (0.1, 4.0, 600.0)] == [0.25, 1.0, 5.0]


def test_a_call_is_told_of_once_and_again_when_its_time_doubles(setting):
    watch = setting.watch()
    setting.begin()
    told = []
    for later in (9, 1, 5, 5, 1, 18, 1, 40):
        setting.time += later
        told.append(len(setting.look(watch)))
    assert told == [0, 1, 0, 1, 0, 0, 1, 1]
    assert [event["seconds"] for event in setting.events] == [10, 20, 40, 80]
    setting.end()
    setting.time += 1000
    assert setting.look(watch) == []


def test_the_event_says_where_and_shows_the_stack_but_no_values(setting):
    setting.configure(order="key")
    setting.begin(key="k1")
    setting.time += TIMEOUT
    setting.look(setting.watch())
    (event,) = setting.events
    assert (event["event"], event["log_level"]) == ("handler.hung", "error")
    assert set(QUEUE_FIELDS) <= set(event)
    assert (event["topic"], event["queue_id"], event["offset"]) == ("orders", 0, 7)
    assert (event["key"], event["group"]) == ("k1", "group")
    assert "in handle_for_ever" in event["stack"]
    assert "test_the_event_says" not in event["stack"], "no other thread's"
    assert "secret=" not in event["stack"]


def test_a_worker_process_is_killed_and_its_call_named(setting):
    context = setting.begin()
    setting.time += TIMEOUT
    assert setting.look(setting.watch(setting.killed.append)) == ["handler.hung"]
    assert [c is context for c in setting.killed] == [True]
    assert "stack" not in setting.events[0], "that of the thread that waits says nothing"


def test_a_thread_is_left_alone_with_block(setting):
    setting.begin()
    setting.time += 100 * TIMEOUT
    assert setting.look(setting.watch()) == ["handler.hung"]
    assert setting.exits == []
    assert setting.thread.is_alive()


def test_a_thread_ends_the_process_with_exit(setting):
    setting.configure(on_hang="exit")
    watch = setting.watch()
    setting.begin()
    setting.time += TIMEOUT - 1
    assert setting.look(watch) == []
    setting.time += 1
    with pytest.raises(Exited):
        setting.look(watch)
    assert [event["event"] for event in setting.events] == ["handler.hung", "process.exits"]
    assert set(QUEUE_FIELDS) <= set(setting.events[1])
    assert (setting.exits, setting.events[1]["exit_code"]) == ([70], 70)
