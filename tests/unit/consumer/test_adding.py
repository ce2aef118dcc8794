"""An operator has a key parked that blocks: at its lane's next turn, or it is said why not."""

import time

import pytest

from orderly.config import ParkLimits
from orderly.consumer import adding
from orderly.consumer.park_commands import ADD_VALID, IDLE_LOOKS, ParkCommands
from orderly.errors import RequestTimeout
from orderly.ordering.results import Ack, ConsumeResult, Fail, Suspend
from orderly.protocol.park_record import (
    Command,
    Parked,
    Result,
    Verb,
    control_message,
    park_request,
)
from tests.unit.consumer.conftest import PARK_QUEUE


class Asked:
    """Gives commands, and has them looked for."""

    def __init__(self, setting, shelf):
        self.setting, self.shelf = setting, shelf
        self.shelf.store_time = time.time()
        self.begin()

    def begin(self):
        setting = self.setting
        worker = setting.worker
        self.commands = ParkCommands(setting.session, worker.ready, worker.parker, dry_run=False)

    def give(self, verb, key="a", identity="id"):
        record = control_message(Command(identity, verb, key, "jane", 0))
        self.shelf.send_now(PARK_QUEUE, park_request("group", PARK_QUEUE, record, time.time()))

    def rounds(self, count=IDLE_LOOKS):
        for _ in range(count):
            self.commands.round()

    def result(self, identity="id"):
        (end,) = [r for r in self.shelf.control(Result) if r.id == identity and r.done]
        return end

    def unanswered(self):
        return not any(r.done for r in self.shelf.control(Result))


@pytest.fixture
def asked(setting, shelf):
    return Asked(setting, shelf)


def handle(setting, *keys):
    """Have messages of keys pulled, and handled."""
    setting.pulled(*keys)
    setting.worker.ready(setting.held)


@pytest.mark.parametrize("answer", [Suspend(20), Fail("no"), None])
def test_a_key_that_waits_is_parked_at_once_and_others_go_on(asked, setting, shelf, answer):
    setting.answer = lambda m, c: answer if c.key == "a" else Ack()
    handle(setting, "a", "a", "b")
    assert sorted(setting.handled) == [(0, False), (2, False)]
    asked.give(Verb.ADD)
    asked.rounds()
    asked.rounds(1)
    assert asked.result() == Result("id", done=True, settled=2)
    assert shelf.parked == [("a", 0), ("a", 1)]
    assert len(setting.handled) == 2, "the handler is not asked again"
    (first, _) = shelf.control(Parked)
    assert first.details.reason == "an operator parked the key (jane)"
    assert (first.details.attempts, first.details.fingerprint is None) == (1, False)
    handle(setting, "a", "b")
    assert shelf.parked[2:] == [("a", 3)]
    assert setting.owned.offset == 5


def test_a_key_of_which_nothing_waits(asked, setting):
    setting.answer = lambda *_: Ack()
    handle(setting, "b")
    asked.give(Verb.ADD)
    asked.rounds()
    assert asked.result() == Result("id", done=True, settled=0)
    assert setting.parking.commands == 1, "it is not looked at again"


def test_a_queue_in_which_nothing_is_parked_is_looked_at_seldom(asked, shelf):
    asked.rounds(IDLE_LOOKS - 1)
    assert shelf.reads == 0
    asked.rounds(1)
    assert shelf.reads == 1


def test_several_keys_one_after_the_other(asked, setting, shelf):
    setting.answer = lambda *_: Suspend(20)
    handle(setting, "a", "b")
    asked.give(Verb.ADD, "a", "first")
    asked.give(Verb.ADD, "b", "second")
    asked.rounds(IDLE_LOOKS + 3)
    assert asked.result("first").settled == asked.result("second").settled == 1
    assert shelf.parked == [("a", 0), ("b", 1)]


def test_a_limit_that_is_reached_meanwhile_is_told_too(asked, setting, shelf, monkeypatch):
    setting.answer = lambda *_: Suspend(20)
    handle(setting, "a")
    monkeypatch.setattr(setting.worker.parker, "why_not", lambda *_: None)
    setting.session.config = setting.session.config.__class__(
        order="key", parking=ParkLimits(size=1)
    )
    asked.give(Verb.ADD)
    asked.rounds()
    asked.rounds(1)
    assert "share of the limit" in asked.result().reason
    assert shelf.parked == []


def test_what_a_handler_keeps_uncommitted_is_not_taken_from_it(asked, setting):
    def keep(_, context):
        context.auto_commit = False
        return ConsumeResult.SUCCESS

    setting.answer = keep
    handle(setting, "a")
    asked.give(Verb.ADD)
    asked.rounds()
    assert "uncommitted" in asked.result().reason


def test_a_call_that_runs_is_waited_for_and_what_it_acknowledges_is_not_parked(
    asked, setting, shelf
):
    def look_meanwhile(*_):
        asked.give(Verb.ADD)
        asked.rounds()
        assert asked.unanswered()
        return Ack()

    setting.answer = look_meanwhile
    handle(setting, "a")
    asked.rounds(1)
    assert asked.result() == Result("id", done=True, settled=0)
    assert (shelf.parked, setting.owned.offset) == ([], 1)


def test_a_call_that_runs_for_long_is_not_waited_for(asked, setting, shelf, monkeypatch):
    monkeypatch.setattr(adding, "ADD_PATIENCE", -1.0)

    def look_meanwhile(*_):
        asked.give(Verb.ADD)
        asked.rounds(IDLE_LOOKS + 1)
        assert "a handler call with the key is running" in asked.result().reason
        return Fail("no")

    setting.answer = look_meanwhile
    handle(setting, "a")
    assert shelf.parked == []


def test_an_old_command_is_not_carried_out(asked, setting, shelf):
    setting.answer = lambda *_: Suspend(20)
    handle(setting, "a")
    shelf.store_time = time.time() - ADD_VALID - 1
    asked.give(Verb.ADD)
    asked.rounds()
    assert "give the command again" in asked.result().reason
    assert shelf.parked == []


def test_an_heir_does_not_carry_out_what_was_answered(asked, setting, shelf):
    asked.give(Verb.ADD)
    asked.rounds()
    assert asked.result().settled == 0
    setting.parking.commands = 0  # that was not on record when the owner ended
    setting.answer = lambda *_: Suspend(20)
    handle(setting, "a")
    asked.begin()
    asked.rounds()
    assert asked.result().settled == 0, "it is answered once"
    assert shelf.parked == []


@pytest.mark.parametrize("fails", range(7))
def test_what_fails_is_carried_on_in_the_next_round(fails, asked, setting, shelf):
    setting.answer = lambda *_: Suspend(20)
    handle(setting, "a")
    asked.give(Verb.ADD)
    asked.rounds(IDLE_LOOKS - 1)
    shelf.fail = [None] * fails + [RequestTimeout("broker-a did not answer")]
    for _ in range(2 * IDLE_LOOKS):
        asked.rounds(1)
        if setting.timers.waiting:
            setting.timers.ring()
    assert asked.result().settled == 1
    assert set(shelf.parked) == {("a", 0)}
