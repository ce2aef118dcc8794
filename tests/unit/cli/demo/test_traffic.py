"""The demo's messages: each event once, in its order, one of them spoiled; live ones are paced."""

from __future__ import annotations

import json
from concurrent.futures import Future

from orderly.cli.demo import traffic
from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.traffic import MOST_LIVE, SendLog, send_all, sent_live, stream_of
from orderly.errors import SendFailed
from orderly.model import MessageQueue, SendResult

EVENTS = [FlightEvent(n, n, "arrival", f"N{n % 7}", "UA1", "EWR", "IAH") for n in range(400)]


def test_every_event_is_one_message_in_its_order():
    stream = stream_of(EVENTS, seed=1)
    messages = [*stream.at_once("t"), *stream.live("t")]
    assert [number for number, _ in messages] == list(range(400))
    assert [json.loads(message.body)["n"] for _, message in messages] == list(range(400))
    assert [message.sharding_key for _, message in messages] == [event.tail for event in EVENTS]
    spoiled = [n for n, m in messages if json.loads(m.body)["at"] != EVENTS[n].time]
    assert spoiled == [stream.bad.number]


def test_the_failing_event_is_of_the_first_part_the_bad_one_of_the_live_part():
    stream = stream_of(EVENTS, seed=1)
    assert stream.failing.number < stream.first_live == 200 <= stream.bad.number


def test_the_live_part_is_bounded():
    assert stream_of(EVENTS * 50, seed=1).first_live == 400 * 50 - MOST_LIVE


class Producer:
    """Stores at once, but for one message."""

    def __init__(self, refused=-1):
        self.refused = refused
        self.sent = 0

    def submit(self, message):
        result = Future()
        if self.sent == self.refused:
            result.set_exception(SendFailed("disk full"))
        else:
            result.set_result(SendResult(MessageQueue(message.topic, "b", 0), self.sent, "", ""))
        self.sent += 1
        return result


def messages():
    return list(stream_of(EVENTS[:200], seed=1).at_once("t"))


def test_what_is_stored_and_what_failed_is_noted():
    told = []
    log = send_all(Producer(refused=7), messages(), told.append)
    assert log.failed == {7: "disk full"}
    assert [offset for _, offset in log.stored.values()] == [n for n in range(100) if n != 7]
    assert log.fast == 99
    assert told[-1] == 100
    assert told == sorted(told)


def test_live_messages_are_spread_over_the_time(monkeypatch):
    monkeypatch.setattr(traffic, "LIVE_SECONDS", 1.5)
    log = SendLog()
    with sent_live(Producer(), messages(), log, lambda _: None) as live:
        assert len(log.stored) < 100
        live.result(30)
    assert len(log.stored) == 100
    assert (log.fast, log.seconds) == (0, 0.0)


def test_leaving_ends_the_live_messages(monkeypatch):
    monkeypatch.setattr(traffic, "LIVE_SECONDS", 3600)
    log = SendLog()
    with sent_live(Producer(), messages(), log, lambda _: None) as live:
        pass
    assert live.done()
    assert len(log.stored) < 100
