"""Operators' commands about a key need no permit and wait for no other key, no pause and no worker.

What they do wait for, a handler call, they name. The queue has no other work than what is said.
"""

import asyncio
import threading

import pytest

from orderly import Ack, Park, Suspend
from orderly.consumer import adding, command_task
from orderly.monitoring.parked import ParkedMessages
from orderly.ordering.explain import Why
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

BAD, KEYS = "bad", [f"key-{number}" for number in range(60)]
SLOW = 0.05  # messages a second: the second one comes when each of these tests has ended
SOON = 15  # seconds, on a machine that stands still now and then


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def operator(client, group, topic, parks):
    return ParkedMessages(client, group, topic)


class Handler:
    """Parks the bad key, or does as `answers` says of a key; notes whom it was called for.

    A call for a key in `holds` runs until `go_on` is set.
    """

    def __init__(self, **answers):
        self.answers = {BAD: Park("no such account")} | answers
        self.called, self.holds, self.go_on = [], set(), threading.Event()

    def __call__(self, messages, context):
        self.called.append(context.key)
        if context.key in self.holds:
            self.go_on.wait(60)
        return self.answers.get(context.key, Ack())


@pytest.fixture
def handler():
    found = Handler()
    yield found
    found.go_on.set()


@pytest.fixture(params=["thread", "async"])
def start(request, handler, start_group):
    """Start the group, by key."""

    async def act(messages, context):
        return await asyncio.to_thread(handler, messages, context)

    def start(**settings):
        how = handler if request.param == "thread" else act
        return start_group(how, queues=1, order="key", commit_interval=0.3, **settings)

    return start


def explained(members):
    return [e for member in members.consumers for e in member.explain()]


def told(outcomes):
    return [(outcome.settled, outcome.reason) for outcome in outcomes]


def committed(client, group, stored):
    last = stored[-1]
    return lambda: client.brokers.query_offset(group, last.queue) == last.queue_offset + 1


def test_they_need_no_permit(start, handler, operator, producer, topic):
    """The consumer's rate has let one message through, and 60 keys wait in line."""
    send_numbers(producer, topic, [BAD], 1)
    group = start(max_rate=SLOW)
    eventually(lambda: operator.list().keys, within=30)
    send_numbers(producer, topic, KEYS, 1)
    eventually(lambda: Why.RATE_LIMITED in {e.why for e in explained(group)}, within=30)
    assert told(operator.drop(BAD, patience=SOON)) == [(1, None)]
    assert told(operator.add(KEYS[-1], patience=SOON).outcomes) == [(1, None)]
    assert len(handler.called) <= 2


def test_what_is_behind_a_parked_key_needs_none_either(
    start, operator, producer, topic, client, group
):
    """No handler gets it, so it must not hold back the offset for hours."""
    stored = send_numbers(producer, topic, [BAD], 1)
    start(max_rate=SLOW, max_rate_per_key=SLOW)
    eventually(lambda: operator.list().keys, within=30)
    stored += send_numbers(producer, topic, [BAD], 20)
    eventually(committed(client, group, stored), within=SOON)
    assert operator.list().keys[0].messages == 21


def test_a_key_that_the_program_paused(start, handler, operator, producer, topic, client, group):
    """It is parked with all that comes later, and goes on where it is resumed and released."""
    members = start()
    for member in members.consumers:
        member.pause_key("mine")
    stored = send_numbers(producer, topic, ["mine"], 70)
    eventually(lambda: any(e.keys_paused for e in explained(members)), within=30)
    (outcome,) = operator.add("mine", patience=SOON).outcomes
    assert outcome.reason is None
    stored += send_numbers(producer, topic, ["mine"], 1)
    eventually(committed(client, group, stored), within=30)
    assert operator.list().keys[0].messages == 71
    assert not any(e.keys_paused for e in explained(members)), "it holds nothing back any more"
    assert handler.called == []
    for member in members.consumers:
        member.resume_key("mine")
    assert told(operator.release("mine")) == [(71, None)]
    assert handler.called == ["mine"] * 71


def test_a_paused_key_is_dropped_and_stays_paused(start, handler, operator, producer, topic):
    send_numbers(producer, topic, [BAD], 2)
    members = start()
    eventually(lambda: operator.list().keys, within=30)
    for member in members.consumers:
        member.pause_key(BAD)
    assert told(operator.drop(BAD, patience=SOON)) == [(2, None)]
    send_numbers(producer, topic, [BAD], 1)
    eventually(lambda: any(e.keys_paused for e in explained(members)), within=30)
    assert len(handler.called) == 1


def test_a_queue_that_the_program_paused(start, handler, operator, producer, topic):
    handler.answers["waits"] = Suspend(3600)
    (first, *_) = send_numbers(producer, topic, [BAD, "waits"], 1)
    members = start()
    eventually(lambda: operator.list().keys and "waits" in handler.called, within=30)
    for member in members.consumers:
        member.pause([first.queue])
    assert told(operator.add("waits", patience=SOON).outcomes) == [(1, None)]
    assert told(operator.drop(BAD, patience=SOON)) == [(1, None)]


def test_while_handlers_run_on_all_workers(start, handler, operator, producer, topic, monkeypatch):
    """What calls no handler is done. A release waits, and says for what; it goes first then."""
    monkeypatch.setattr(command_task, "TELL_AFTER", 0.5)
    send_numbers(producer, topic, [BAD, "bad too"], 1)
    handler.answers["bad too"] = Park("no such account")
    start(concurrency=1)
    eventually(lambda: len(operator.list().keys) == 2, within=30)
    handler.holds.add("long")
    send_numbers(producer, topic, ["long"], 1)
    eventually(lambda: "long" in handler.called, within=30)
    send_numbers(producer, topic, ["waits", *KEYS], 1)
    eventually(lambda: told(operator.add("waits", dry_run=True).outcomes) == [(1, None)], within=30)
    assert told(operator.add("waits", patience=SOON).outcomes) == [(1, None)]
    assert told(operator.drop(BAD, patience=SOON)) == [(1, None)]
    handler.answers["bad too"] = Ack()
    said, ended = [], []
    release = threading.Thread(
        target=lambda: ended.extend(operator.release("bad too", on_sent=said.append))
    )
    release.start()
    eventually(lambda: any("no worker is free" in line for line in said), within=SOON)
    handler.go_on.set()
    release.join(60)
    assert told(ended) == [(1, None)]
    assert handler.called.index("bad too", 3) == 3, "before all keys that wait"


def test_a_release_of_another_key_that_hangs(start, handler, operator, producer, topic):
    """Two keys are parked. The handler hangs in the release of one: the other can be released."""
    handler.answers["bad too"] = Park("no such account")
    send_numbers(producer, topic, [BAD, "bad too"], 1)
    start()
    eventually(lambda: len(operator.list().keys) == 2, within=30)
    handler.answers = {}
    handler.holds.add(BAD)
    ended = []
    release = threading.Thread(target=lambda: ended.extend(operator.release(BAD)))
    release.start()
    eventually(lambda: handler.called.count(BAD) == 2, within=30)
    assert told(operator.release("bad too", patience=SOON)) == [(1, None)]
    handler.go_on.set()
    release.join(60)
    assert told(ended) == [(1, None)]


def test_a_call_with_the_key_is_waited_for_and_named(
    start, handler, operator, producer, topic, monkeypatch
):
    monkeypatch.setattr(command_task, "TELL_AFTER", 0.5)
    monkeypatch.setattr(adding, "ADD_PATIENCE", 3.0)
    handler.holds.add("long")
    send_numbers(producer, topic, ["long"], 2)
    start()
    eventually(lambda: "long" in handler.called, within=30)
    said = []
    (outcome,) = operator.add("long", on_sent=said.append).outcomes
    assert "a handler call with the key is running" in outcome.reason
    assert any("a handler call with the key is running" in line for line in said)
    assert operator.list().keys == ()
    handler.go_on.set()
    eventually(lambda: handler.called == ["long"] * 2, within=30)


def test_released_messages_keep_the_rate_and_go_before_what_waits(
    start, handler, operator, producer, topic
):
    """Every other permit is for them: they starve nobody, and nobody starves them."""
    send_numbers(producer, topic, [BAD], 3)
    start(max_rate=5.0)
    eventually(lambda: operator.list().keys and operator.list().keys[0].messages == 3, within=30)
    send_numbers(producer, topic, KEYS * 2, 1)
    handler.answers = {}
    eventually(lambda: len(handler.called) > 3, within=30)
    began = len(handler.called)
    assert told(operator.release(BAD)) == [(3, None)]
    after = handler.called[began:]
    places = [place for place, key in enumerate(after) if key == BAD]
    assert places[-1] - places[0] <= 6, "with a permit for others between each two"
    assert len(set(after)) > 1
    assert len(after) < len(KEYS) * 2 - began, "most of the others still wait"
