"""Where a group starts: first, last or a time, each with and without a committed offset."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from orderly import ConsumeResult
from orderly.model import MessageQueue
from orderly.namespace import RETRY_PREFIX
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendMessage
from tests.support.brokers import set_group
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually, patient_producer

KEY = "k"


@dataclass
class History:
    """A topic in use: messages 0 and 1 are older than `boundary`, the others are not."""

    topic: str
    queue: MessageQueue
    boundary: datetime
    sent: int = 4


@pytest.fixture(scope="module")
def history(orderly_namesrv, orderly_topic):
    topic = orderly_topic(queues=4)
    with patient_producer(orderly_namesrv) as producer:
        queue = send_numbers(producer, topic, [KEY], 2)[0].queue
        boundary = int(time.time()) + 1  # Java's form of a time has no fractions
        eventually(lambda: time.time() > boundary + 0.01)
        send_numbers(producer, topic, [KEY], 2, first=2)
    return History(topic, queue, datetime.fromtimestamp(boundary, UTC))


@pytest.fixture
def topic(history):
    return history.topic


def iso(moment):
    return moment.isoformat()


def java(moment):
    return moment.astimezone().strftime("%Y%m%d%H%M%S")


@pytest.mark.parametrize(
    ("position", "committed", "first"),
    [
        (lambda _: "first", None, 0),
        (lambda _: "last", None, None),
        (iso, None, 2),
        (java, None, 2),
        (lambda _: "first", 1, 1),
        (lambda _: "last", 1, 1),
        (iso, 1, 1),
        (java, 3, 3),
    ],
    ids=["first", "last", "ISO", "Java", "first-1", "last-1", "ISO-1", "Java-3"],
)
def test_the_first_message_is(
    position, committed, first, history, client, producer, group, start_group
):
    if committed is not None:
        set_group(client, group)
        client.brokers.update_offset(group, history.queue, committed)
    seen = start_group(consume_from=position(history.boundary)).seen
    new = history.sent
    history.sent += 1
    send_numbers(producer, history.topic, [KEY], 1, first=new)
    eventually(lambda: new in seen.numbers(KEY), within=20)
    assert seen.numbers(KEY) == list(range(new if first is None else first, new + 1))


@pytest.mark.parametrize("consume_from", ["last", "first", "2100-01-01T00:00:00Z"])
def test_what_is_in_the_groups_retry_topic_is_delivered_as_its_original_topic(
    consume_from, history, client, group, start_member
):
    put_into_retry_topic(client, group, history.topic)
    topics = []

    def act(messages, context):
        topics.append(messages[0].topic)
        return ConsumeResult.SUCCESS

    _, seen = start_member(act, consume_from=consume_from)
    eventually(lambda: "retried" in [d.key for d in seen.deliveries], within=20)
    assert topics[-1] == history.topic


def put_into_retry_topic(client, group, topic):
    retry_topic = RETRY_PREFIX + group
    client.admin.create_topic(retry_topic, 1)
    properties = {"RETRY_TOPIC": topic, "__SHARDINGKEY": "retried"}
    header = SendMessage(
        producer_group="somebody",
        topic=retry_topic,
        queue_id=0,
        born_timestamp=int(time.time() * 1000),
        properties=encode_properties(properties),
        reconsume_times=1,
        max_reconsume_times=16,
    )
    queue = client.routes.get(retry_topic).write_queues()[0]
    client.brokers.send_now(queue, request(header.code, to_ext(header), b"7"))
    eventually(lambda: client.brokers.max_offset(queue) == 1)
