"""Looking for commands: which are taken, which are refused, and how often a broker is asked."""

import time

import pytest

from orderly.clock import now
from orderly.consumer import command_task, park_commands
from orderly.consumer.park_commands import ParkCommands
from orderly.consumer.replay import Replay
from orderly.errors import OrderlyError, RequestTimeout
from orderly.model import MessageQueue
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack
from orderly.protocol.park_record import Command, Result, Verb, control_message, park_request
from tests.support.messages import message
from tests.unit.consumer.conftest import PARK_QUEUE, Memory


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


def test_about_one_key_one_after_the_other_and_about_others_at_once(asked, setting):
    """A release waits for the handler, and nothing waits for it but what is about its key."""
    setting.park("a", "b", "c")
    setting.owned.pause()
    for verb, key in ((Verb.RELEASE, "a"), (Verb.DROP, "a"), (Verb.DROP, "b")):
        asked.give(verb, key, f"{verb} {key}")
    asked.commands.round()
    assert asked.result("drop b").settled == 1
    assert (asked.result("release a"), asked.result("drop a")) == (None, None)
    assert setting.parking.commands == len("abc"), "a next owner begins with the first of them"
    setting.owned.resume(now())
    asked.commands.round()
    setting.worker.ready(setting.held)
    asked.commands.round()
    assert asked.result("release a").settled == 1
    assert "is not parked" in asked.result("drop a").reason
    assert setting.handled == [(0, True)]
    assert setting.parking.commands > len("abc") + 2


def test_an_heir_carries_out_only_what_nobody_has_ended(asked, setting, shelf):
    """What was ended beside one that was not is read again by the next owner."""
    setting.park("a", "b")
    setting.owned.pause()
    asked.give(Verb.RELEASE, "a", "first")
    asked.give(Verb.DROP, "b", "second")
    asked.commands.round()
    setting.owned.resume(now())
    results = len(shelf.control(Result))
    (turn,) = setting.owned.messages.lane_of("a").turns
    setting.owned.messages.recall("a", turn.lane_task)  # its owner is gone
    heir = Asked(setting, shelf)
    heir.commands.round()
    assert [r.id for r in shelf.control(Result)[results:] if r.done] == ["first"]


def test_no_more_than_so_many_are_open_and_none_is_lost(asked, setting, monkeypatch):
    monkeypatch.setattr(park_commands, "MOST_OPEN", 2)
    setting.park(*"abcd")
    setting.owned.pause()
    for key in "abcd":
        asked.give(Verb.RELEASE, key, key)
    asked.commands.round()
    setting.owned.resume(now())
    for _ in range(3):
        setting.worker.ready(setting.held)
        asked.commands.round()
    assert [asked.result(key).settled for key in "abcd"] == [1] * 4


def test_one_that_the_broker_refuses_holds_up_no_other(asked, setting, shelf, monkeypatch):
    setting.park("a", "b")
    send = Replay.send

    def refused(self):
        if self._command.key == "a":
            raise OrderlyError("made by the test")
        send(self)

    monkeypatch.setattr(Replay, "send", refused)
    asked.give(Verb.DROP, "a", "first")
    asked.give(Verb.DROP, "b", "second")
    for _ in range(2):
        asked.commands.round()
    assert (asked.result("first"), asked.result("second").settled) == (None, 1)


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
    [
        ((0, 0), True),
        ((0, 0, 0), False),
        ((0, 4, 0, 0), True),
        ((0, 4, 0, 0, 0), False),
        ((0, "it waits", 0, "it waits"), True),
        ((0, "it waits", 0, "it waits", 0), False),
    ],
    ids=str,
)
def test_a_command_that_ends_processes_is_not_begun_for_ever(told, begun, asked, setting, shelf):
    """Nobody is left to say why it got nowhere; a journal of its beginnings is."""
    setting.park("a")
    asked.give(Verb.RELEASE, "a", "deadly")
    asked.give(Verb.RELEASE, "a", "fresh")
    for each in told:
        settled, why = (0, each) if isinstance(each, str) else (each, None)
        record = control_message(Result("deadly", done=False, settled=settled, reason=why))
        shelf.send_now(PARK_QUEUE, park_request("group", PARK_QUEUE, record, 0.0))
    asked.commands.round()
    assert (asked.result("deadly").reason is None) == begun
    assert asked.result("fresh").settled == 1 - begun


def test_what_a_command_waits_for_is_told_once_and_counts_as_no_beginning(
    asked, setting, shelf, monkeypatch
):
    monkeypatch.setattr(command_task, "TELL_AFTER", 0.0)
    setting.park("a")
    setting.owned.pause()
    asked.give(Verb.RELEASE, "a")
    for _ in range(4):
        asked.commands.round()
    told = [result.reason for result in shelf.control(Result)]
    assert told == ["the program has paused the queue, so the handler may not be called"]
    setting.owned.resume(now())
    setting.owned.pause_key("a")
    for _ in range(2):
        asked.commands.round()
    assert len(shelf.control(Result)) == 2
    assert "has paused the key" in shelf.control(Result)[-1].reason
    setting.owned.resume_key("a", now())
    setting.worker.ready(setting.held)
    assert asked.result().settled == 1


def failing(cluster, error):
    """Let each pull fail; returns the queues that are read from now on."""
    read = []

    def pull_now(query):
        read.append(query.queue)
        raise error

    cluster.pull_now = pull_now
    return read


def test_a_silent_broker_is_asked_once_a_round_and_holds_up_no_other(asked, setting, hold, cluster):
    queues = [MessageQueue("orders", name, n) for name in ("broker-a", "broker-b") for n in (1, 2)]
    for queue in queues:
        hold(queue, by_key=True, memory=Memory()).owned.parking.note("a", 0, 0, 70)
    read = failing(cluster, RequestTimeout("made by the test"))
    for _ in range(2):
        asked.commands.round()
    assert sorted(queue.broker_name for queue in read) == ["broker-a"] * 2 + ["broker-b"] * 2


def test_a_broker_that_refuses_to_read_one_queue_is_asked_about_the_others(asked, hold, cluster):
    for number in (1, 2):
        queue = MessageQueue("orders", "broker-a", number)
        hold(queue, by_key=True, memory=Memory()).owned.parking.note("a", 0, 0, 70)
    read = failing(cluster, OrderlyError("made by the test"))
    asked.commands.round()
    assert sorted(queue.queue_id for queue in read) == [1, 2]
