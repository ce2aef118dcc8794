"""Looking for commands: which are taken, which are refused, and how often a broker is asked."""

import time

import pytest

from orderly.consumer.park_commands import ParkCommands
from orderly.errors import RequestTimeout
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack
from orderly.protocol.park_record import Command, Result, Verb, control_message, park_request
from tests.support.messages import message
from tests.unit.consumer.conftest import PARK_QUEUE


class Asked:
    """Gives commands, and has them looked for."""

    def __init__(self, setting, shelf, *, dry_run=False):
        self.setting, self.shelf = setting, shelf
        self.commands = ParkCommands(
            setting.session, setting.worker.ready, setting.aside, dry_run=dry_run
        )

    def give(self, verb, key, identity="id"):
        record = control_message(Command(identity, verb, key, "me", 0))
        self.shelf.send_now(PARK_QUEUE, park_request("group", PARK_QUEUE, record, time.time()))

    def result(self, identity="id"):
        ends = [r for r in self.shelf.control(Result) if r.id == identity and r.done]
        return ends[-1] if ends else None


@pytest.fixture
def asked(setting, shelf):
    setting.answer = lambda message, context: Ack()
    return Asked(setting, shelf)


def test_nobody_is_asked_while_nothing_is_parked(asked, shelf):
    asked.commands.round()
    assert shelf.reads == 0


def test_before_the_program_knows_of_a_queue_no_command_about_it_is_taken(asked, setting, shelf):
    """Its hook `assigned` prepares what a handler needs; a release calls the handler."""
    setting.park("a")
    setting.held.announced = False
    asked.give(Verb.RELEASE, "a")
    reads = shelf.reads
    asked.commands.round()
    assert shelf.reads == reads
    setting.held.announced = True
    asked.commands.round()
    assert shelf.reads > reads


def test_one_command_after_the_other(asked, setting):
    setting.park("a", "b")
    asked.give(Verb.RELEASE, "a", "first")
    asked.give(Verb.DROP, "b", "second")
    asked.commands.round()
    assert (asked.result("first").settled, asked.result("second")) == (1, None)
    asked.commands.round()
    assert asked.result("second").settled == 1
    assert setting.handled == [(0, True)]


def test_foreign_messages_are_passed_over(asked, setting, shelf):
    setting.park("a")
    shelf.send_again(message(0, queue=PARK_QUEUE))
    asked.give(Verb.RELEASE, "a")
    asked.commands.round()
    assert asked.result().settled == 1


@pytest.mark.parametrize("fails", range(5))
def test_what_fails_is_carried_on_in_the_next_round(fails, asked, setting, shelf):
    setting.park("a", "a")
    asked.give(Verb.RELEASE, "a")
    shelf.fail = [None] * fails + [RequestTimeout("made by the test")]
    for _ in range(3):
        asked.commands.round()
    assert asked.result() == Result("id", done=True, settled=2)
    assert setting.handled == [(0, True), (1, True)]


def test_a_queue_that_is_given_up_is_left_alone(asked, setting, shelf):
    setting.park("a")
    asked.give(Verb.RELEASE, "a")
    setting.owned.drop(Drop.REVOKED)
    asked.commands.round()
    assert (shelf.reads, setting.handled) == (0, [])


@pytest.mark.parametrize(
    ("told", "begun"),
    [((0, 0), True), ((0, 0, 0), False), ((0, 4, 0, 0), True), ((0, 4, 0, 0, 0), False)],
    ids=str,
)
def test_a_command_that_ends_processes_is_not_begun_for_ever(told, begun, asked, setting, shelf):
    """Nobody is left to say why it got nowhere; a journal of its beginnings is."""
    setting.park("a")
    asked.give(Verb.RELEASE, "a", "deadly")
    asked.give(Verb.RELEASE, "a", "fresh")
    for settled in told:
        record = control_message(Result("deadly", done=False, settled=settled))
        shelf.send_now(PARK_QUEUE, park_request("group", PARK_QUEUE, record, 0.0))
    asked.commands.round()
    assert (asked.result("deadly").reason is None) == begun
    asked.commands.round()
    assert asked.result("fresh").settled == 1 - begun
