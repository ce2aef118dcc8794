"""Dead letters: what each says of itself, and what becomes of them when they are sent again."""

import tracemalloc
from dataclasses import replace

import pytest

from orderly import Ack, ConsumerConfig, Message, OrderlyConsumer
from orderly import DeadLetter as Reject
from orderly.client.broker import PullQuery
from orderly.errors import (
    ConfigError,
    NoPermission,
    OrderlyError,
    TopicNotFound,
    UndecodableBody,
)
from orderly.model import MessageQueue, Permission
from orderly.monitoring import dead_letters as module
from orderly.monitoring.dead_letters import DeadLetter, DeadLetters, _as_first_stored
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.heartbeat import Subscription
from orderly.testing import Fail, Fault
from tests.support.messages import message
from tests.support.waiting import eventually, patient_client, patient_producer


@pytest.fixture
def client(orderly_fake):
    with patient_client(orderly_fake.namesrv) as client:
        yield client


@pytest.fixture
def letters(orderly_fake, client):
    """The dead letters of a group that rejected 0, 1, 2, 3 of the keys k0 and k1."""
    orderly_fake.create_topic("orders", queues=2)
    with patient_producer(orderly_fake.namesrv) as producer:
        for number in range(4):
            producer.send(
                Message("orders", b"%d" % number, f"k{number % 2}", properties={"p": "1"})
            )
    config = ConsumerConfig(consume_from="first")
    dead = DeadLetters(client, "shipping")
    with patient_client(orderly_fake.namesrv) as own:
        consumer = OrderlyConsumer("shipping", lambda *_: Reject("no"), client=own, config=config)
        with consumer.subscribe("orders"):
            eventually(lambda: len(dead.list()) == 4)
    return dead.list()


def of(letters, key):
    return [letter.message.body for letter in letters if letter.message.sharding_key == key]


def replayed(client, letters, to=None):
    """The outcomes of a replay of letters of the group."""
    dead = DeadLetters(client, "shipping")
    return list(dead.replay(dead.plan(letters, to)))


def letter(**properties):
    return DeadLetter(replace(message(7), properties=properties, offset_message_id="OFFSET"))


@pytest.mark.parametrize(
    ("properties", "topic", "message_id"),
    [
        ({"RETRY_TOPIC": "orders", "UNIQ_KEY": "U", "ORIGIN_MESSAGE_ID": "O"}, "orders", "U"),
        ({"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "O"}, "orders", "O"),
        ({"DLQ_ORIGIN_TOPIC": "orders", "UNIQ_KEY": "U"}, "orders", "U"),
        ({}, None, "OFFSET"),
    ],
    ids=["ours and Java's", "without a sender's id", "a broker's", "says nothing"],
)
def test_it_says_where_it_came_from(properties, topic, message_id):
    found = letter(**properties)
    assert (found.topic, found.message_id) == (topic, message_id)


def test_what_is_sent_again_is_the_message_and_not_its_history(letters):
    again = letters[0].again("orders")
    assert (again.sharding_key, again.properties) == (letters[0].message.sharding_key, {"p": "1"})


def test_a_group_that_never_had_any_has_none(client, orderly_fake):
    assert DeadLetters(client, "nobody").list() == ()


def test_a_topic_that_may_not_be_read_is_no_empty_one(client, letters):
    (broker,) = client.routes.get("%DLQ%shipping").brokers
    config = client.admin.topic_config("%DLQ%shipping", broker)
    client.admin.put_topic(replace(config, perm=Permission.WRITE), broker)
    with pytest.raises(NoPermission, match="set its permission to 6"):
        DeadLetters(client, "shipping").list()


def test_they_are_read_in_the_order_of_their_queue(letters):
    assert of(letters, "k0") == [b"0", b"2"]
    assert of(letters, "k1") == [b"1", b"3"]


def test_sent_again_they_keep_that_order_by_key(orderly_fake, client, letters):
    done = replayed(client, letters)
    assert [outcome.error for outcome in done] == [None] * 4
    assert {outcome.result.queue.topic for outcome in done} == {"orders"}
    seen = []
    config = ConsumerConfig(consume_from="first")

    def see(messages, context):
        seen.extend((m.sharding_key, m.body) for m in messages)
        return Ack()

    with OrderlyConsumer("other", see, client=client, config=config).subscribe("orders"):
        eventually(lambda: len(seen) == 8)
    assert [body for key, body in seen if key == "k0"] == [b"0", b"2", b"0", b"2"]


def test_after_a_failure_the_later_ones_of_its_key_stay_and_others_go(
    orderly_fake, client, letters
):
    first = f"__SHARDINGKEY\x01{letters[0].message.sharding_key}\x02"
    refused = Fail(ResponseCode.MESSAGE_ILLEGAL, "not this one")
    orderly_fake.script(
        Fault(RequestCode.SEND_MESSAGE_V2, refused, None, lambda c: first in c.ext.get("i", "")),
        Fault(RequestCode.SEND_BATCH_MESSAGE, refused, None, lambda c: first.encode() in c.body),
    )
    done = replayed(client, letters)
    failed = [o.letter.message.sharding_key for o in done if o.error is not None]
    assert failed == [letters[0].message.sharding_key] * 2


FOREIGN = [
    None, "payments", "no-such-topic", "or ders\x1b[2J", "x" * 30_000, "%RETRY%shipping",
    "%DLQ%other", "TBW102", "rmq_sys_x", state_topic("shipping", "orders"),
    park_topic("other", "payments"),
]  # fmt: skip


def test_nothing_is_sent_where_a_dead_letter_says_unless_its_group_consumes_that(
    orderly_fake, client, letters
):
    for topic in ("payments", state_topic("shipping", "orders"), park_topic("other", "payments")):
        orderly_fake.create_topic(topic, queues=1)
    before = client.admin.topics()
    forged = [letter(**({"RETRY_TOPIC": it} if it else {})) for it in FOREIGN]
    done = replayed(client, [*forged, *letters])
    refused = [outcome for outcome in done if outcome.error is not None]
    assert [outcome.letter for outcome in refused] == forged
    assert all("name the topic to send it to (--into)" in str(each.error) for each in refused)
    assert all(len(str(outcome.error)) < 500 for outcome in refused)
    assert {outcome.result.queue.topic for outcome in done if outcome.result} == {"orders"}
    assert len(done) == len(FOREIGN) + 4, "one that is refused holds up no other"
    assert client.brokers.max_offset(MessageQueue("payments", "broker-a", 0)) == 0
    assert client.admin.topics() == before


def test_who_names_a_topic_may_send_to_one_that_the_group_does_not_consume(
    orderly_fake, client, letters
):
    orderly_fake.create_topic("payments", queues=1)
    done = replayed(client, [letter(RETRY_TOPIC="elsewhere"), *letters], to="payments")
    assert [outcome.result.queue.topic for outcome in done] == ["payments"] * 5


@pytest.mark.parametrize("topic", FOREIGN[4:])
def test_not_even_who_names_it_sends_to_a_topic_without_messages(client, letters, topic):
    with pytest.raises(ConfigError):
        DeadLetters(client, "shipping").plan(letters, topic)


def test_a_member_that_is_online_shows_what_its_group_consumes(orderly_fake, client):
    """Its group has committed nothing, and may never have."""
    orderly_fake.create_topic("orders", queues=1)
    dead = DeadLetters(client, "packing")
    found = letter(RETRY_TOPIC="orders")
    assert len(dead.plan([found]).refused) == 1
    with OrderlyConsumer("packing", lambda *_: Ack(), client=client).subscribe("orders"):
        eventually(lambda: dead.plan([found]).due == (("orders", found),))


def test_a_topic_that_is_not_there_is_an_error(client, letters):
    with pytest.raises(TopicNotFound):
        replayed(client, letters, to="no-such-topic")
    assert client.brokers.max_offset(letters[0].message.queue) == 4


def test_a_batch_that_could_not_be_read_is_not_sent_again_as_a_message():
    letter = DeadLetter(_as_first_stored(replace(message(0), properties={"ORDERLY_UNREAD": "192"})))
    assert letter.message.raw_body == b"body"
    with pytest.raises(UndecodableBody, match="a batch"):
        letter.again("orders")


@pytest.mark.parametrize("text", ["", "x", "-1", "9" * 5000])
def test_what_anybody_else_wrote_there_is_passed_over(text):
    stored = replace(message(0), properties={"ORDERLY_UNREAD": text})
    assert _as_first_stored(stored) is stored


def test_one_that_can_be_read_by_now_is_sent_again_without_a_trace():
    """The extra that reads it was installed since."""
    found = _as_first_stored(replace(message(0), properties={"ORDERLY_UNREAD": "257", "a": "b"}))
    assert DeadLetter(found).again("orders") == Message("orders", b"body", properties={"a": "b"})


# --- more than there is memory for ----------------------------------------------------------------


def test_what_does_not_fit_is_listed_without_its_body_and_sent_again_with_it(
    client, letters, monkeypatch
):
    one = letters[0].message.held_size
    monkeypatch.setattr(module, "MOST_HELD", 2 * one)
    few = DeadLetters(client, "shipping").list()
    assert [letter.left_out for letter in few] == [False, False, True, True]
    for letter, whole in zip(few, letters, strict=True):
        found, full = letter.message, whole.message
        assert (letter.topic, letter.message_id) == (whole.topic, whole.message_id)
        assert (found.queue_offset, found.sharding_key) == (full.queue_offset, full.sharding_key)
        assert (found.store_time, found.tags) == (full.store_time, full.tags)
    with pytest.raises(UndecodableBody, match="left out"):
        few[2].again("orders")
    done = replayed(client, few)
    assert [outcome.error for outcome in done] == [None] * 4
    for outcome, whole in zip(done, letters, strict=True):
        queue, at = outcome.result.queue, outcome.result.queue_offset
        (stored,) = client.brokers.pull_now(
            PullQuery("any", queue, at, 1, Subscription(queue.topic), suspend=0)
        ).messages
        assert (stored.body, stored.properties["p"]) == (whole.message.body, "1")


def test_one_that_is_gone_by_then_is_a_failure_of_its_own(client, letters, monkeypatch):
    monkeypatch.setattr(module, "MOST_HELD", 0)
    few = DeadLetters(client, "shipping").list()
    gone = replace(few[0], message=few[0].message.changed(queue_offset=99))
    done = replayed(client, [gone, few[1]])
    assert [type(outcome.error) for outcome in done] == [OrderlyError, type(None)]


def test_large_ones_take_bounded_memory(client, orderly_fake):
    size, count = 12 << 20, 32
    orderly_fake.create_topic("%DLQ%big", queues=1)
    with patient_producer(
        orderly_fake.namesrv, max_message_size=size, compress_above=1
    ) as producer:
        for number in range(count):
            producer.send(Message("%DLQ%big", bytes(size - 1) + b"%c" % number, "k"))
    dead = DeadLetters(client, "big")
    tracemalloc.start()
    try:
        assert [letter.message.body[-1] for letter in dead.each()] == list(range(count))
        streamed = tracemalloc.get_traced_memory()[1]
        assert len(dead.list()) == count
        listed = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert streamed < 130 << 20  # what one pull may unpack, and one body more
    assert listed < 200 << 20  # of 384
