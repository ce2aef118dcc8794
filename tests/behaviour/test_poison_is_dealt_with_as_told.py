"""A bad message among good ones: each policy does what it says, and the others never wait."""

import pytest
import structlog
import tenacity

from orderly import (
    Ack,
    AsyncListener,
    DeadLetter,
    Listener,
    PoisonRules,
    Retry,
)
from tests.support.consuming import named, send_numbers
from tests.support.topics import dead_numbers
from tests.support.waiting import eventually

BAD = 1
KEYS = list("abcdefgh")
COUNT = 4
OTHERS = {key: list(range(COUNT)) for key in KEYS if key != "a"}


class Shipping:
    """Number BAD of key a is bad; remembers every call."""

    def __init__(self):
        self.calls = []

    def __call__(self, message, attempt):
        self.calls.append((attempt.key, int(message.body)))
        if self.calls[-1] == ("a", BAD):
            raise ValueError("no such account")
        return Ack()

    async def awaited(self, message, attempt):
        return self(message, attempt)

    def numbers(self, key):
        return [number for found, number in list(self.calls) if found == key]

    def by_key(self):
        return {key: self.numbers(key) for key in KEYS}


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_dead_letter_lets_its_key_go_on_and_tells_the_gap(
    kind, producer, topic, group, client, start_member
):
    shipping = Shipping()
    settings = {"on_error": {ValueError: "dead_letter"}}
    listener = (
        AsyncListener(shipping.awaited, **settings)
        if kind == "async"
        else Listener(shipping, **settings)
    )
    with structlog.testing.capture_logs() as events:
        start_member(recorder=listener, order="key", patient=True)
        send_numbers(producer, topic, KEYS, COUNT)
        eventually(lambda: shipping.by_key() == OTHERS | {"a": [0, BAD, 2, 3]}, within=20)
    assert dead_numbers(client, group, 1) == [BAD]
    assert "order_gap" in named(events, "message.poison")[0]


def test_skip_acknowledges_it_with_an_audit_event(producer, topic, group, client, start_member):
    shipping = Shipping()
    listener = Listener(shipping, on_error={ValueError: "skip"})
    with structlog.testing.capture_logs() as events:
        start_member(recorder=listener, order="key", commit_interval=0.1)
        results = send_numbers(producer, topic, KEYS, COUNT)
        eventually(lambda: shipping.by_key() == OTHERS | {"a": [0, BAD, 2, 3]}, within=20)
    (skipped,) = named(events, "message.skipped")
    sent = results[BAD * len(KEYS)]
    assert (skipped["topic"], skipped["offset"], skipped["message_id"]) == (
        topic,
        sent.queue_offset,
        sent.message_id,
    )
    ends = {r.queue: r.queue_offset + 1 for r in results}
    eventually(lambda: all(client.brokers.query_offset(group, q) == ends[q] for q in ends))


def test_block_holds_its_key_for_ever_and_tells_it_each_time(producer, topic, start_member):
    shipping = Shipping()
    listener = Listener(shipping, on_error={ValueError: "block"}, suspend=0.02, max_suspend=0.05)
    with structlog.testing.capture_logs() as events:
        start_member(recorder=listener, order="key")
        send_numbers(producer, topic, KEYS, COUNT)
        eventually(lambda: OTHERS.items() <= shipping.by_key().items(), within=20)
        blocked = eventually(lambda: named(events, "message.blocked")[2:], within=20)
    assert set(shipping.numbers("a")) == {0, BAD}
    assert (blocked[0]["topic"], blocked[0]["key"]) == (topic, "a")


def test_a_failure_is_poison_once_it_repeats_while_others_succeed(
    producer, topic, group, client, start_member
):
    rules = PoisonRules(
        attempts=3, spacing=0.02, span=0.1, control_keys=3, first_wait=0.05, longest_wait=0.1
    )
    shipping = Shipping()
    listener = Listener(
        shipping,
        retry=Retry(stop=tenacity.stop_after_attempt(2), wait=tenacity.wait_fixed(0.02)),
        poison=rules,
        on_poison=lambda message, attempt, verdict: DeadLetter(verdict.reason.name),
    )
    start_member(recorder=listener, order="key", patient=True)
    send_numbers(producer, topic, KEYS, COUNT)
    eventually(lambda: shipping.numbers("a").count(BAD) >= 3, within=20)
    sent = COUNT

    def goes_on():
        nonlocal sent
        send_numbers(producer, topic, KEYS, 1, first=sent)
        sent += 1
        return sent - 1 in shipping.numbers("a")

    eventually(goes_on, within=20, every=0.05)
    assert dead_numbers(client, group, 1) == [BAD]


def test_park_key_sets_the_key_aside_and_nothing_behind_it_runs(
    producer, topic, group, client, start_member
):
    shipping = Shipping()
    listener = Listener(shipping, on_error={ValueError: "park_key"})
    with structlog.testing.capture_logs() as events:
        start_member(recorder=listener, order="key", commit_interval=0.1, patient=True)
        results = send_numbers(producer, topic, KEYS, COUNT)
        eventually(lambda: OTHERS.items() <= shipping.by_key().items(), within=20)
        ends = {r.queue: r.queue_offset + 1 for r in results}
        eventually(lambda: all(client.brokers.query_offset(group, q) == ends[q] for q in ends))
    (parked,) = named(events, "key.parked")
    assert (parked["offset"], parked["reason"]) == (
        results[BAD * len(KEYS)].queue_offset,
        "retries do not help against a failure of this kind",
    )
    assert parked["error"].startswith("ValueError")
    assert isinstance(parked["exc_info"], ValueError)
    assert named(events, "message.poison") == [], "one event has it all"
    assert shipping.numbers("a") == [0, BAD]
