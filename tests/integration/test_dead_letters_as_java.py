"""The same messages dead-lettered by the Java client's ordered consumer and by ours are alike."""

import threading
from pathlib import Path

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from tests.support.consuming import unique
from tests.support.java import compile_java, run_java
from tests.support.topics import dead_letters
from tests.support.waiting import eventually, patient_client, patient_producer

pytestmark = pytest.mark.needs("jdk")

SOURCE = Path(__file__).with_name("JavaDeadLetters.java")
LIMIT = 1
OF_A_PULL = {"MIN_OFFSET", "MAX_OFFSET"}  # Java notes the queue's ends on each message it pulls
LARGE = b"large " * 2000  # travels compressed


@pytest.fixture
def topic(orderly_topic, orderly_namesrv):
    topic = orderly_topic(queues=1)
    with patient_producer(orderly_namesrv) as producer:
        for body in (b"small", LARGE):
            producer.send(
                Message(topic, body, "a", tags="red", keys=("k1", "k2"), properties={"p": "€"})
            )
        producer.send(Message(topic, b"plain", "a"))
        producer.send(Message(topic, b"last", "a"))
    return topic


def by_java(namesrv, group, topic, folder):
    compile_java(SOURCE, folder)
    run_java(folder, SOURCE.stem, f"{namesrv} {group} {topic} {LIMIT}")


def by_ours(namesrv, group, topic):
    ended = threading.Event()

    def handle(messages, context):
        if messages[0].body != b"last":
            return context.suspend(0.01)
        ended.set()
        return ConsumeResult.SUCCESS

    config = ConsumerConfig(consume_from="first", max_reconsume_times=LIMIT)
    with (
        patient_client(namesrv) as own,
        OrderlyConsumer(group, handle, client=own, config=config).subscribe(topic),
    ):
        eventually(ended.is_set)


def described(message):
    """All that a reader of the dead letters sees, but for when and by whom it was sent."""
    return {
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "body": message.body,
        "message_id": message.message_id,
        "reconsume_times": message.reconsume_times,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "properties": {k: v for k, v in message.properties.items() if k not in OF_A_PULL},
    }


def test_a_dead_letter_of_ours_is_as_one_of_java(orderly_namesrv, topic, tmp_path):
    java, ours = unique("java"), unique("ours")
    by_java(orderly_namesrv, java, topic, tmp_path)
    by_ours(orderly_namesrv, ours, topic)
    with patient_client(orderly_namesrv) as client:
        eventually(lambda: len(dead_letters(client, ours)) == 3)
        found = [described(message) for message in dead_letters(client, ours)]
        expected = [described(message) for message in dead_letters(client, java)]
    assert [message["body"] for message in found] == [b"small", LARGE, b"plain"]
    assert found == expected
