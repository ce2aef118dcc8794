"""Parked messages that grow old are appended again, in time, and only those."""

import time
from types import SimpleNamespace

import pytest
from structlog.testing import capture_logs

from orderly.clock import now
from orderly.consumer import retention
from orderly.consumer.replay import Replay
from orderly.consumer.retention import RetentionRefresh
from orderly.errors import RequestTimeout
from orderly.model import MessageQueue
from orderly.ordering.lane import Turn
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Ack, Disposition
from orderly.protocol.park_record import Command, Result, Verb

HOUR = 3600.0


@pytest.fixture
def keepalive(setting):
    settings = {"fileReservedTime": "10"}
    admin = SimpleNamespace(broker_settings=lambda broker: settings)
    setting.session.client.admin = admin
    return RetentionRefresh(setting.session, setting.worker.ready)


@pytest.fixture
def park_at(setting, shelf):
    """Park messages so many hours ago."""

    def park(hours, *keys):
        shelf.store_time = time.time() - hours * HOUR
        setting.park(*keys)
        shelf.store_time = time.time()

    return park


def test_what_is_older_than_half_of_the_retention_is_appended_again(
    keepalive, park_at, setting, shelf
):
    park_at(6, "a", "b", "a")
    park_at(4, "a", "c")
    with capture_logs() as logs:
        keepalive.round()
    assert shelf.parked[5:] == [("a", 0), ("a", 2), ("b", 1)]
    assert {p.key: p.at for p in setting.parking.snapshot()} == {"a": 3, "b": 7, "c": 4}
    assert [e["messages"] for e in logs if e["event"] == "park.kept"] == [2, 1]
    keepalive.round()
    assert len(shelf.parked) == 8, "once"


def test_a_release_finds_them_where_they_are_now(keepalive, park_at, setting, shelf):
    park_at(6, "a", "a")
    keepalive.round()
    shelf.delete_below(2)
    setting.answer = lambda message, context: Ack()
    Replay(
        setting.session,
        setting.held,
        Command("id", Verb.RELEASE, "a", "me", 0),
        setting.worker.ready,
    ).send()
    assert setting.handled == [(0, True), (1, True)]


def test_what_was_deleted_before_is_told_and_the_next_release_stops_for_it(
    keepalive, park_at, setting, shelf
):
    park_at(6, "a", "a", "a", "a")
    shelf.delete_below(2)
    with capture_logs() as logs:
        keepalive.round()
        keepalive.round()
    told = [e for e in logs if e["event"] == "park.expired"]
    assert [(e["key"], e["messages"], e["log_level"]) for e in told] == [("a", 2, "error")] * 2
    assert shelf.parked[4:] == [("a", 2), ("a", 3)], "what is left is kept, once"
    setting.answer = lambda message, context: Ack()
    for identity in ("first", "second"):
        Replay(
            setting.session,
            setting.held,
            Command(identity, Verb.RELEASE, "a", "me", 0),
            setting.worker.ready,
        ).send()
        result = shelf.control(Result)[-1]
        assert ("deleted" in (result.reason or "")) == (identity == "first")
    assert setting.handled == [(2, True), (3, True)]


def test_what_is_settled_is_not_kept(keepalive, park_at, setting, shelf):
    park_at(6, "a", "a")
    setting.parking.settled("a", 1)
    keepalive.round()
    assert shelf.parked[2:] == [("a", 1)]


def test_in_turns_between_which_the_lane_goes_on(keepalive, park_at, setting, shelf, monkeypatch):
    monkeypatch.setattr(retention, "_SLICE", 0.0)
    park_at(6, "a", "a")
    keepalive.round()
    assert shelf.parked[2:] == [("a", 0)]
    setting.pulled("a")
    setting.worker.ready(setting.held)
    setting.timers.ring()
    assert shelf.parked[2:] == [("a", 0), ("a", 2), ("a", 1)]
    assert setting.parking.get("a").at == 2


@pytest.mark.parametrize("fails", range(3))
def test_a_failure_is_told_and_the_next_round_does_it(fails, keepalive, park_at, setting, shelf):
    park_at(6, "a")
    shelf.fail = [None] * fails + [RequestTimeout("made by the test")]
    with capture_logs() as logs:
        keepalive.round()
    (event,) = [e for e in logs if e["event"] == "park.expiring"]
    assert (event["key"], event["log_level"]) == ("a", "error")
    assert setting.parking.get("a").at == 0
    keepalive.round()
    assert setting.parking.get("a").at == 1


def test_a_queue_that_is_given_up_does_not_wait_for_it(keepalive, park_at, setting, shelf):
    park_at(6, "a", "a")

    def give_up(queue):
        setting.owned.drop(Drop.REVOKED)
        shelf.reads = 0
        return len(shelf.messages)

    setting.session.client.brokers.max_offset = give_up
    with capture_logs() as logs:
        keepalive.round()
    assert shelf.reads == 0
    assert len(shelf.parked) == 2
    assert "park.expiring" not in [e["event"] for e in logs]


def test_a_lane_that_does_not_come_to_its_turn_is_told(keepalive, park_at, setting):
    park_at(6, "a")
    setting.owned.want_turn("a", Turn("a release that calls the handler"))
    assert setting.take().lane_task
    keepalive.round()
    with capture_logs() as logs:
        keepalive.round()
    assert "park.expiring" in [e["event"] for e in logs]


def test_a_queue_that_the_program_paused_keeps_them_too(keepalive, park_at, setting, shelf):
    park_at(6, "a")
    setting.owned.pause()
    keepalive.round()
    assert shelf.parked == [("a", 0), ("a", 0)]


def test_a_broker_that_does_not_say_keeps_for_three_days(keepalive, park_at, setting, shelf):
    def refuse(broker):
        raise RequestTimeout("made by the test")

    setting.session.client.admin.broker_settings = refuse
    park_at(35, "a")
    keepalive.round()
    assert len(shelf.parked) == 1
    park_at(37, "b")
    keepalive.round()
    assert shelf.parked[2:] == [("b", 1)]


def test_a_key_that_was_released_and_parked_anew_meanwhile_is_left_alone(
    keepalive, park_at, setting, shelf
):
    """Else it would begin where it was before, and former commands would be about it."""
    park_at(6, "a")
    setting.owned.want_turn("a", Turn("a release that calls the handler"))
    batch = setting.take()
    keepalive.round()
    setting.parking.release("a")
    setting.owned.finish(batch, Disposition.COMMIT, now())
    setting.park("b")
    stored = len(shelf.messages)
    setting.parking.note("a", 7, stored, 70)
    with capture_logs() as logs:
        setting.worker.ready(setting.held)
    assert (setting.parking.get("a").at, len(shelf.messages)) == (stored, stored)
    assert "park.kept" not in [e["event"] for e in logs]


def test_a_silent_broker_is_asked_about_one_key_of_one_queue_only(
    keepalive, setting, hold, cluster
):
    for number in (1, 2):
        queue = MessageQueue("orders", "broker-b", number)
        hold(queue, by_key=True).owned.parking.note("a", 0, 0, 70)
    asked = []

    def silent(query):
        asked.append("read")
        raise RequestTimeout("made by the test")

    cluster.pull_now = silent
    keepalive.round()
    assert asked == ["read"]
