"""A growth's plan, and its steps on brokers that are a dict, with whatever may go wrong at each."""

from dataclasses import replace

import pytest

from orderly.errors import ConfigError, OrderlyError, RequestTimeout
from orderly.model import MessageQueue
from orderly.monitoring.topic_growth import (
    Behind,
    Change,
    CheckDrained,
    DrainStatus,
    GrowBookKeeping,
    Notice,
    Patience,
    Pause,
    growing,
    make_plan,
)
from orderly.protocol.topics import TopicConfig

TWO = TopicConfig(
    name="orders", read_queues=2, write_queues=2, order=True, attributes={"message.type": "FIFO"}
)
PRESENT = {"broker-b": TWO, "broker-a": TWO}
PLAN = make_plan("orders", 4, PRESENT)
PATIENCE = Patience(watch=5.0, quiet=35.0, timeout=600.0, every=1.0)
QUEUE = MessageQueue("orders", "broker-a", 0)
WRITE = 2


def test_it_is_closed_widened_and_opened_and_keeps_what_else_it_is():
    plan = make_plan("orders", 8, PRESENT)
    assert plan.needed
    assert plan.closed == dict.fromkeys(PRESENT, replace(TWO, perm=4))
    wide = replace(TWO, read_queues=8, write_queues=8)
    assert plan.widened == dict.fromkeys(PRESENT, replace(wide, perm=4))
    assert plan.grown == dict.fromkeys(PRESENT, wide)


def test_the_new_pin_is_in_the_order_in_which_producers_count():
    assert str(make_plan("orders", 8, PRESENT).pin) == "broker-a:8;broker-b:8"


def test_a_topic_that_is_as_wanted_needs_nothing():
    assert not make_plan("orders", 2, PRESENT).needed


@pytest.mark.parametrize(
    "left",
    [
        replace(TWO, perm=4),  # closed, and the run was killed
        replace(TWO, read_queues=8, write_queues=8, perm=4),
        replace(TWO, read_queues=8),
    ],
)
def test_what_a_killed_run_left_is_finished_by_the_next(left):
    plan = make_plan("orders", 8, {"broker-a": left})
    assert plan.needed
    assert plan.grown["broker-a"] == replace(TWO, read_queues=8, write_queues=8)


@pytest.mark.parametrize("wider", [replace(TWO, read_queues=4), replace(TWO, write_queues=4)])
def test_nothing_is_shrunk(wider):
    with pytest.raises(
        ConfigError, match="4 queues on broker broker-b, more than 3: this command only adds"
    ):
        make_plan("orders", 3, PRESENT | {"broker-b": wider})


def test_what_cannot_be_read_cannot_be_drained():
    with pytest.raises(ConfigError, match="is not readable on broker broker-a"):
        make_plan("orders", 8, {"broker-a": replace(TWO, perm=2)})


def test_an_order_configuration_is_not_touched():
    with pytest.raises(ConfigError, match=r"order configuration \(broker-a:2\)"):
        make_plan("orders", 8, PRESENT, "broker-a:2")


# --- the steps


class World:
    """Brokers, a clock, writers and a group that works its backlog off.

    Args:
        backlog: of the group, in messages.
        pace: messages that it finishes in a second.
        writes: times at which somebody writes a message.
        fails: number of the step (of those that do or ask something) at which `error` is raised.
        done: whether the step was carried out all the same.
    """

    def __init__(self, backlog=20, pace=2, writes=(), fails=None, error=None, done=False):
        self.settings, self.now = dict(PRESENT), 100.0
        self.backlog, self.pace, self.writes = backlog, pace, [100.0 + at for at in writes]
        self.fails, self.error, self.done = fails, error, done
        self.written, self.book_keeping, self.count = 20, False, 0
        self.told = []

    def run(self, patience=PATIENCE):
        steps = growing(PLAN, patience)
        try:
            step = next(steps)
            while True:
                try:
                    answer = self.do(step)
                except (Exception, KeyboardInterrupt) as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration:
            return

    def do(self, step):
        self.count += not isinstance(step, Notice)
        if self.count == self.fails and not isinstance(step, Notice):
            if self.done:
                self._do(step)
            raise self.error
        return self._do(step)

    def _do(self, step):
        match step:
            case CheckDrained():
                behind = (Behind("g", self.backlog),) if self.backlog > 0 else ()
                return DrainStatus({QUEUE: self.written}, behind)
            case Pause(seconds):
                self._pass(seconds)
                return self.now
            case Change(broker, config):
                self._change(broker, config)
            case GrowBookKeeping():
                self.book_keeping = True
            case Notice(text):
                self.told.append(text)
        return None

    def _pass(self, seconds):
        self.now += seconds
        came = [at for at in self.writes if at <= self.now]
        self.writes = [at for at in self.writes if at > self.now]
        self.written += len(came)
        self.backlog = max(0, self.backlog + len(came) - self.pace * seconds)

    def _change(self, broker, config):
        if config.write_queues > TWO.write_queues:
            assert self.backlog == 0, "a key may move only when nothing is left"
            assert self.book_keeping, "state and park topics are never smaller"
            if not config.perm & WRITE:
                closed = [not c.perm & WRITE for c in self.settings.values()]
                assert all(closed), "no broker is wider while another is open"
        self.settings[broker] = config


def test_it_waits_for_the_backlog_and_for_silence():
    world = World(backlog=20, pace=2)
    world.run()
    assert world.settings == PLAN.grown
    assert world.now >= 100 + 5 + 35
    assert any("g: " in text for text in world.told)


def test_a_message_of_a_producer_with_an_old_route_begins_the_silence_anew():
    world = World(backlog=0, writes=[5 + 30])
    world.run()
    assert world.now >= 100 + 5 + 30 + 35


def test_a_topic_that_is_written_to_is_left_alone():
    world = World(writes=[2, 3])
    with pytest.raises(OrderlyError, match="2 messages in the last 5 s"):
        world.run()
    assert world.settings == PRESENT
    assert not any("closed" in text for text in world.told)


@pytest.mark.parametrize("pace", [0, 0.01])
def test_what_is_not_drained_in_time_is_put_back(pace):
    world = World(pace=pace)
    with pytest.raises(OrderlyError, match=r"not drained within 600 s: g: .*--ignore-group"):
        world.run()
    assert world.settings == PRESENT
    assert world.now >= 700


class Blind(World):
    """Brokers that do not answer for a while."""

    blind = (0.0, 0.0)

    def _do(self, step):
        if isinstance(step, CheckDrained) and self.blind[0] < self.now < self.blind[1]:
            raise RequestTimeout("no answer")
        return super()._do(step)


def test_a_look_that_fails_is_repeated_and_begins_the_silence_anew():
    world = Blind(backlog=0)
    world.blind = (110, 120)
    world.run()
    assert world.settings == PLAN.grown
    assert world.now >= 119 + 35


def test_brokers_that_never_answer_again_end_the_wait():
    world = Blind(backlog=0)
    world.blind = (110, 1e9)
    with pytest.raises(OrderlyError, match="not drained within 600 s: not known: no answer"):
        world.run()
    assert world.settings == PRESENT


def whole():
    world = World()
    world.run()
    return world.count


@pytest.mark.parametrize("done", [False, True], ids=["not-done", "done"])
@pytest.mark.parametrize("error", [RequestTimeout("no answer"), KeyboardInterrupt()])
def test_whatever_fails_wherever_leaves_no_topic_closed_or_half_grown(error, done):
    for fails in range(1, whole() + 1):
        world = World(fails=fails, error=error, done=done)
        told = ended_with(world)
        if told is None:
            assert world.settings == PLAN.grown, f"step {fails}"
        elif "run the command again" in told:  # a broker was not opened: it says which
            closed = {name for name, config in world.settings.items() if not config.perm & WRITE}
            assert closed <= {name for name in PRESENT if name in told}
            assert {config.write_queues for config in world.settings.values()} == {4}
        else:
            assert world.settings == PRESENT, f"step {fails}"


def ended_with(world):
    """What the run raised, as text; None: nothing."""
    try:
        world.run()
    except (OrderlyError, KeyboardInterrupt) as error:
        return str(error)
    return None


def test_what_cannot_be_put_back_is_said():
    class Dying(World):
        def _change(self, broker, config):
            if broker == "broker-b":
                raise RequestTimeout("broker-b is gone")
            super()._change(broker, config)

    world = Dying()
    with pytest.raises(
        OrderlyError, match=r"could not be restored on broker broker-b \(broker-b is gone\)"
    ):
        world.run()
    assert world.settings["broker-a"] == TWO
