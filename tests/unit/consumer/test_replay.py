"""Commands on a parked key, turn by turn, with a park queue in memory."""

import itertools
from dataclasses import replace

import pytest

from orderly.clock import now
from orderly.config import ConsumerConfig
from orderly.consumer import replay as replaying
from orderly.consumer.replay import Replay
from orderly.errors import RequestTimeout
from orderly.ordering.owned_queue import Drop, Lease
from orderly.ordering.results import Ack, ConsumeResult, Fail, Suspend
from orderly.protocol.park_record import PARKED, Command, Released, Result, Verb

TIMEOUT = RequestTimeout("made by the test")


@pytest.fixture
def replay(setting):
    """Begin a command on key "a" and run its first turn."""

    def begin(verb=Verb.RELEASE):
        command = Command("id", verb, "a", "me", 0)
        lane_task = Replay(setting.session, setting.held, command, setting.worker.ready)
        lane_task.send()
        return lane_task

    setting.answer = lambda message, context: Ack()
    return begin


def last(shelf):
    return shelf.control(Result)[-1]


def test_a_replayed_message_is_named_like_a_live_one(setting, replay):
    config = setting.session.client.config
    setting.session.client.config = replace(config, namespace="orders-of")
    setting.park("a")
    seen = []
    setting.answer = lambda message, context: seen.append(message.namespace) or Ack()
    replay()
    assert seen == ["orders-of"]


def drain(setting):
    setting.worker.ready(setting.held)


def test_a_key_that_cannot_be_recorded_as_given_back_stays_parked(setting, shelf, replay):
    setting.park("a")
    setting.fail_record = [TIMEOUT]
    lane_task = replay()
    assert (lane_task.ended, setting.parking.parked("a")) == (False, True)
    setting.pulled("a")
    drain(setting)
    lane_task.send()
    assert setting.handled == [(0, True), (1, True)], "nothing twice, nothing left out"
    assert lane_task.ended


@pytest.mark.parametrize("fails", range(6))
def test_a_call_that_fails_anywhere_repeats_no_message(fails, setting, shelf, replay):
    setting.park("a", "a", "a")
    shelf.fail = [None] * fails + [TIMEOUT]
    lane_task = replay()
    for _ in range(2):
        lane_task.send()
    assert lane_task.ended
    assert setting.handled == [(0, True), (1, True), (2, True)]
    assert last(shelf) == Result("id", done=True, settled=3)
    assert not setting.parking.parked("a")


def test_no_message_is_replayed_once_the_lease_is_over(setting, shelf, replay, monkeypatch):
    """Nobody has noticed yet, but another member may own the queue: reading took too long."""
    setting.park("a")
    read = shelf.pull_now

    def read_slowly(query):
        setting.owned.lease = Lease(now() - 100, 30.0)
        return read(query)

    monkeypatch.setattr(setting.session.client.brokers, "pull_now", read_slowly)
    lane_task = replay()
    assert setting.handled == []
    assert not lane_task.ended


def test_a_failure_because_the_queue_is_given_up_stops_nothing(setting, shelf, replay):
    setting.park("a", "a")

    def give_up(message, context):
        setting.owned.drop(Drop.REVOKED)
        return Fail("interrupted")

    setting.answer = give_up
    assert not replay().ended
    assert [result.done for result in shelf.control(Result)] == [False]


@pytest.mark.parametrize("change", ["lost", "reset"])
def test_nothing_counts_after_a_loss_or_a_reset(change, setting, shelf, replay):
    setting.park("a", "a")

    def lose(message, context):
        if change == "lost":
            setting.owned.drop(Drop.LOST)
        else:
            setting.owned.restart_at(0, Drop.OFFSET_ILLEGAL)
        return Ack()

    setting.answer = lose
    replay()
    assert setting.parking.get("a").next == 0
    assert len(setting.handled) == 1
    assert shelf.control(Released) == []


def test_what_the_broker_has_deleted_stops_it_once(setting, shelf, replay):
    setting.park("a", "a", "a")
    shelf.delete_below(2)
    assert replay().ended
    assert "deleted" in last(shelf).reason
    assert setting.handled == []
    lane_task = replay()
    assert lane_task.ended
    assert setting.handled == [(2, True)]


@pytest.mark.parametrize("verb", [Verb.RELEASE, Verb.DROP, Verb.TRY])
def test_what_a_newer_release_parked_is_not_passed_over(verb, setting, shelf, replay):
    setting.park("a", "a", "a")
    rewrite(shelf, 1, '"v":1', '"v":2')
    assert replay(verb).ended
    assert "upgrade" in last(shelf).reason
    assert setting.handled == []
    assert (setting.parking.get("a").next, setting.parking.get("a").messages) == (0, 3)


def test_a_damaged_copy_stops_it_once(setting, shelf, replay):
    setting.park("a", "a", "a")
    rewrite(shelf, 1, '"v":1', '"v":')
    replay()
    assert "about 1 of its messages are lost" in last(shelf).reason
    assert setting.handled == []
    replay()
    assert last(shelf).reason is None
    assert setting.handled == [(0, True), (2, True)]


def rewrite(shelf, position, old, new):
    """Change what describes a parked message."""
    stored = shelf.messages[position]
    text = stored.properties[PARKED]
    assert old in text
    changed = stored.properties | {PARKED: text.replace(old, new)}
    shelf.messages[position] = replace(stored, properties=changed)


def test_what_the_handler_keeps_is_not_settled_by_a_copy_that_is_gone(setting, shelf, replay):
    setting.park(*"a" * 34)

    def keep(message, context):
        context.auto_commit = False
        shelf.delete_below(33)  # bodies are read in blocks of 32
        return ConsumeResult.SUCCESS

    setting.answer = keep
    replay()
    assert len(setting.handled) == 32
    assert (last(shelf).settled, last(shelf).failed_at) == (0, 0)
    assert setting.parking.get("a").next == 0


def test_a_manual_commit_counts_when_it_comes(setting, shelf, replay):
    setting.park("a", "a", "a")

    def commit_the_second(message, context):
        context.auto_commit = False
        second = message.queue_offset == 1
        return ConsumeResult.COMMIT if second else ConsumeResult.SUCCESS

    setting.answer = commit_the_second
    replay()
    assert (last(shelf).settled, last(shelf).failed_at) == (2, 2)
    assert "COMMIT" in last(shelf).reason
    assert setting.parking.get("a").next == 2


def test_what_is_kept_is_not_settled_by_a_later_message_alone(setting, shelf, replay):
    setting.park("a", "a", "a")

    def finish_the_second(message, context):
        context.auto_commit = False
        if message.queue_offset != 1:
            return ConsumeResult.SUCCESS
        context.done(message)
        return Suspend(1.0)

    setting.answer = finish_the_second
    replay()
    assert setting.parking.get("a").next == 0


def test_what_is_rolled_back_is_not_settled_though_it_was_named_done(setting, shelf, replay):
    """As with live messages: a rollback brings back all that is in hand, whatever was named."""
    setting.park("a", "a", "a")

    def roll_back_the_second(message, context):
        context.auto_commit = False
        if message.queue_offset == 2:
            return ConsumeResult.COMMIT
        context.done(message)
        return ConsumeResult.ROLLBACK if message.queue_offset == 1 else ConsumeResult.SUCCESS

    setting.answer = roll_back_the_second
    replay()
    assert setting.handled == [(0, True), (1, True)]
    assert (last(shelf).settled, last(shelf).failed_at) == (0, 0)
    assert setting.parking.get("a").next == 0


def test_many_messages_are_read_in_blocks(setting, shelf, replay):
    setting.session.config = ConsumerConfig(order="key")
    setting.park(*itertools.repeat("a", 300))
    reads = shelf.reads
    replay()
    assert [offset for offset, _ in setting.handled] == list(range(300))
    assert shelf.reads - reads < 30


def test_a_try_of_more_than_fits_into_its_result_says_so(setting, shelf, replay, monkeypatch):
    monkeypatch.setattr(replaying, "MAX_OUTCOMES", 2)
    monkeypatch.setattr(replaying, "SLICE", 0.0)
    setting.park("a", "a", "a")
    lane_task = replay(Verb.TRY)
    setting.timers.ring()
    assert lane_task.ended
    assert [result.settled for result in shelf.control(Result)] == [0, 1, 2]
    assert last(shelf).reason == "only the first 2 of 3 were tried"
    assert len(last(shelf).outcomes) == 2


def test_a_paused_queue_replays_nothing_until_it_goes_on(setting, replay):
    setting.park("a")
    setting.owned.pause()
    lane_task = replay()
    lane_task.send()
    assert (setting.handled, setting.owned.idle) == ([], True)
    setting.owned.resume(now())
    setting.worker.ready(setting.held)
    assert setting.handled == [(0, True)]
    assert lane_task.ended


def test_a_command_that_waits_for_its_turn_holds_no_queue_back(setting, replay):
    setting.park("a")
    setting.owned.pause()
    replay()
    assert setting.handled == []
    setting.owned.drop(Drop.REVOKED)
    assert setting.owned.idle
