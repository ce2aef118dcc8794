"""What failed more often than allowed is in the group's dead letters, whole, and nowhere else."""

import pytest

from orderly import ConsumeResult, Message
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendMessage
from tests.support.consuming import send_numbers
from tests.support.topics import dead_letters, dead_numbers, retried
from tests.support.waiting import eventually

BAD = 1
LARGE = b"large " * 2000  # over the 4096 bytes from which bodies are sent compressed
PROPERTIES = {"amount": "12.50", "währung": "€"}


def refuse(messages, context):
    bad = any(int(message.body) == BAD for message in messages)
    return ConsumeResult.SUSPEND if bad else ConsumeResult.SUCCESS


def refuse_everything(messages, context):
    return ConsumeResult.SUSPEND


@pytest.mark.parametrize("limit", [0, 2])
def test_it_is_handled_once_more_than_the_limit_and_then_the_queue_goes_on(
    limit, producer, topic, group, start_group, client
):
    seen = start_group(refuse, max_reconsume_times=limit, suspend=0.02, patient=True).seen
    # Not before: counts begin anew when a queue comes to another member.
    send_numbers(producer, topic, ["a"], 4)
    eventually(lambda: 3 in seen.numbers("a"), within=20)
    assert seen.numbers("a") == [0, *[BAD] * (limit + 1), 2, 3]
    assert dead_numbers(client, group, 1) == [BAD]
    assert retried(client, group) == []


def test_without_a_limit_nothing_is_dead_lettered(producer, topic, group, start_member, client):
    send_numbers(producer, topic, ["a"], 3)
    _, seen = start_member(refuse, suspend=0.01)
    eventually(lambda: seen.numbers("a").count(BAD) >= 20, within=20)
    assert set(seen.numbers("a")) == {0, BAD}
    assert dead_letters(client, group) == []


@pytest.mark.parametrize("body", [b"7", LARGE], ids=["small", "compressed"])
def test_it_keeps_all_that_was_sent(body, producer, topic, group, start_member, client):
    message = Message(
        topic, body, sharding_key="a", tags="red", keys=("k1", "k2"), properties=PROPERTIES
    )
    sent = producer.send(message)
    # A handler of its own: the recorder's bodies are numbers.
    start_member(recorder=refuse_everything, max_reconsume_times=0, patient=True)
    (dead,) = eventually(lambda: dead_letters(client, group), within=20)
    assert dead.body == body
    assert (dead.sharding_key, dead.tags, dead.keys) == ("a", "red", ("k1", "k2"))
    assert PROPERTIES.items() <= dead.properties.items()
    assert dead.message_id == sent.message_id
    assert dead.properties["RETRY_TOPIC"] == dead.topic == topic
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent.message_id
    assert dead.reconsume_times == 1
    assert dead.stored_size < 4096, "a large body is stored compressed, as it was sent"


def test_it_keeps_the_flag_that_only_clients_of_other_languages_set(
    producer, topic, group, start_member, client
):
    queue = client.routes.get(topic).write_queues()[0]
    header = SendMessage(
        producer_group="flagged",
        topic=topic,
        queue_id=queue.queue_id,
        born_timestamp=1_700_000_000_000,
        flag=5,
        properties=encode_properties({"UNIQ_KEY": "7F0000010001", "TRAN_MSG": "false"}),
        broker_name=queue.broker_name,
    )
    client.brokers.send_now(queue, request(header.code, to_ext(header), b"7"))
    start_member(recorder=refuse_everything, max_reconsume_times=0)
    (dead,) = eventually(lambda: dead_letters(client, group), within=20)
    assert dead.flag == 5
    assert "TRAN_MSG" not in dead.properties
