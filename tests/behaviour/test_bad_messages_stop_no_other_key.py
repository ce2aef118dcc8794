"""Hundreds of bad messages, each with a key of its own, before good ones: the good ones go on."""

import json
from collections import defaultdict
from types import SimpleNamespace

import pytest
import structlog

from orderly import Ack, Listener
from orderly.monitoring.dead_letters import DeadLetters
from orderly.monitoring.parked import ParkedMessages
from tests.support.messages import GARBAGE, ZLIB, send_raw
from tests.support.waiting import eventually

BAD, GOOD, COUNT = 300, 100, 2
POLICIES = ["park_key", "skip", "dead_letter"]
SORTS = {"unreadable": (GARBAGE, ZLIB), "not JSON": (b"{", 0), "raises": (b'"bad"', 0)}


@pytest.fixture(params=[1, 8], ids=["one queue", "beside others"])
def topic(request, orderly_topic):
    return orderly_topic(queues=request.param)


@pytest.fixture
def storm(client, topic):
    """Store bad messages in one queue, and behind them good ones in all queues, two of a key."""

    def send(sort):
        queues = client.routes.get(topic).read_queues()
        body, sys_flag = SORTS[sort]
        for number in range(BAD):
            send_raw(client, queues[0], body, key=f"bad-{number}", sys_flag=sys_flag)
        for number in range(COUNT):
            for key in range(GOOD):
                queue = queues[key % len(queues)]
                send_raw(client, queue, b"%d" % number, key=f"good-{key}", sys_flag=0)

    return send


class Shop:
    """Notes what it was given of each good key, and fails at the content of a bad message."""

    def __init__(self):
        self.seen = defaultdict(list)

    def sell(self, value, attempt):
        if value == "bad":
            raise ValueError("content")
        self.seen[attempt.key].append(value)
        return Ack()

    def __call__(self, messages, context):
        for message in messages:
            self.sell(json.loads(message.body), SimpleNamespace(key=context.key))
        return Ack()

    @property
    def done(self):
        return dict(self.seen) == {f"good-{key}": list(range(COUNT)) for key in range(GOOD)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("sort", SORTS)
def test_the_others_are_handled_in_order_whatever_is_bad_and_whatever_the_policy(
    sort, policy, storm, start_member
):
    storm(sort)
    shop = Shop()
    listener = Listener(shop.sell, decode="json", on_poison=policy)
    consumer, _ = start_member(recorder=listener, order="key")
    eventually(lambda: shop.done, within=40)
    eventually(lambda: consumer.health().ready, within=20)


def test_a_plain_handler_that_cannot_read_a_body_makes_only_its_key_wait(storm, start_member):
    storm("unreadable")
    shop = Shop()
    start_member(recorder=shop, order="key", suspend=0.5)
    eventually(lambda: shop.done, within=40)


class AtOnce:
    """What becomes of forty bad bodies, each of a key of its own, among as many good ones."""

    KEYS = 40

    def __init__(self, client, group, topic):
        self.client, self.group, self.topic = client, group, topic
        self.bad = {f"bad-{key}" for key in range(self.KEYS)}

    def send(self, bad=b"{"):
        queue = self.client.routes.get(self.topic).read_queues()[0]
        for key in range(self.KEYS):
            for body in (b"0", b"1"):
                send_raw(self.client, queue, body, key=f"good-{key}", sys_flag=0)
            send_raw(self.client, queue, bad, key=f"bad-{key}", sys_flag=0)

    def parked(self):
        return {
            each.key for each in ParkedMessages(self.client, self.group, self.topic).list().keys
        }

    def dead(self):
        return {each.message.sharding_key for each in DeadLetters(self.client, self.group).list()}


def test_a_class_that_is_named_for_parking_is_parked_at_once_however_many_fail_so(
    client, group, topic, start_member
):
    sent = AtOnce(client, group, topic)
    sent.send(b'"bad"')
    listener = Listener(Shop().sell, decode="json", on_error={ValueError: "park_key"})
    start_member(recorder=listener, order="key", concurrency=1)
    eventually(lambda: sent.parked() == sent.bad, within=30)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_body_that_cannot_be_decoded_is_dealt_with_at_once_however_many_there_are(
    policy, client, group, topic, start_member
):
    sent = AtOnce(client, group, topic)
    sent.send()
    listener = Listener(lambda value, attempt: Ack(), decode="json", on_poison=policy)
    with structlog.testing.capture_logs() as events:
        start_member(recorder=listener, order="key", commit_interval=0.1)
        if policy == "park_key":
            eventually(lambda: sent.parked() == sent.bad, within=30)
        elif policy == "dead_letter":
            eventually(lambda: sent.dead() == sent.bad, within=30)
        else:
            skipped = lambda: {e["key"] for e in events if e["event"] == "message.skipped"}  # noqa: E731
            eventually(lambda: skipped() == sent.bad, within=30)
    assert [e for e in events if e["event"] == "circuit.opened"] == []


def test_a_wrong_decoder_does_not_park_everything_and_a_right_one_goes_on_in_order(
    client, group, topic, parks, start_member
):
    queue = client.routes.get(topic).read_queues()[0]
    keys = [f"k{number}" for number in range(60)]
    for number in range(COUNT):
        for key in keys:
            send_raw(client, queue, b"%d" % number, key=key, sys_flag=0)
    wrong = Listener(lambda value, attempt: Ack(), decode=_wrong, on_poison="park_key")
    with structlog.testing.capture_logs() as events:
        consumer, _ = start_member(recorder=wrong, order="key")
        waiting = lambda: [e.because for e in consumer.explain_keys(99) if e.because is not None]  # noqa: E731
        eventually(lambda: len(consumer.parked().get(queue, ())) == 20, within=30)
        told = eventually(lambda: len(found := waiting()) == 40 and found, within=30)
        parked = {each.key for each in consumer.parked()[queue]}
        consumer.close()
    assert {"most_poisoned" in why for why in told} == {True}
    assert {e["because"] for e in events if e["event"] == "message.retry"} == {"BUDGET"}
    assert len(parked) == 20
    shop = Shop()
    start_member(recorder=Listener(shop.sell, decode="json", on_poison="park_key"), order="key")
    eventually(lambda: shop.seen.keys() == set(keys) - parked, within=30)
    operator = ParkedMessages(client, group, topic)
    for key in parked:
        assert [outcome.failed_at for outcome in operator.release(key)] == [None]
    eventually(lambda: shop.seen == {key: list(range(COUNT)) for key in keys}, within=30)


def _wrong(body):
    raise LookupError("no such schema")
