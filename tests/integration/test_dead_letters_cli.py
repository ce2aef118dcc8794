"""`orderly dlq` on a real broker: it shows what was given up, and sends it again in order."""

import json

import pytest

from orderly import Ack, ConsumerConfig, DeadLetter, Message, OrderlyConsumer
from orderly.client.broker import PullQuery
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import Subscription
from tests.support.consuming import Recorder
from tests.support.topics import dead_numbers
from tests.support.waiting import PATIENCE, eventually, patient_client


def reject_all(messages, context):
    return DeadLetter("not wanted")


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=2)


@pytest.fixture
def dead(orderly_namesrv, producer, client, group, topic):
    """Four messages of two keys, all of them dead letters."""
    for number in range(4):
        key = f"k{number % 2}"
        producer.send(Message(topic, str(number).encode(), key, tags="red", properties={"p": "1"}))
    config = ConsumerConfig(consume_from="first")
    with (
        patient_client(orderly_namesrv) as own,
        OrderlyConsumer(group, reject_all, client=own, config=config).subscribe(topic),
    ):
        return dead_numbers(client, group, 4)


def listed(orderly, group):
    code, out, _ = orderly("dlq", "list", group, "-o", "json")
    assert code == 0
    return json.loads(out)["dead_letters"]


def test_a_group_without_dead_letters_says_so(orderly, client, group):
    client.groups.group_config(group, "broker-a")  # makes the group
    code, _, err = orderly("dlq", "list", group)
    assert code == 0
    assert f"group {group} has no dead letters" in err
    code, out, err = orderly("dlq", "replay", group, "--yes")
    assert (code, out) == (3, "")
    assert "nothing was sent" in err


@pytest.mark.usefixtures("dead")
def test_list_tells_where_each_came_from(orderly, group, topic):
    found = listed(orderly, group)
    assert sorted(letter["body"] for letter in found) == ["0", "1", "2", "3"]
    assert {letter["topic"] for letter in found} == {topic}
    assert {(letter["reconsume_times"], letter["tags"]) for letter in found} == {(1, "red")}
    table = orderly("dlq", "list", group)[1].splitlines()
    assert len(table) == 5
    assert topic in table[1]


def test_replay_sends_them_again_by_key_and_in_order(orderly, client, group, topic, dead):
    code, out, err = orderly("dlq", "replay", group, "--yes", "-o", "json")
    assert code == 0, err
    assert "4 of 4 sent; the order of their keys has a gap" in err
    sent = json.loads(out)["messages"]
    assert {entry["topic"] for entry in sent} == {topic}
    assert len({entry["new_message_id"] for entry in sent}) == 4
    recorder = Recorder(lambda *_: Ack())
    config = ConsumerConfig(consume_from="first")
    other = f"{group}-2"
    with OrderlyConsumer(other, recorder, client=client, config=config).subscribe(topic):
        eventually(lambda: len(recorder.deliveries) == 8)
    for key, numbers in (("k0", [0, 2]), ("k1", [1, 3])):
        again = [number for number in dead if number in numbers]
        assert recorder.numbers(key) == [*numbers, *again]
    assert len(listed(orderly, group)) == 4, "they are still there"


@pytest.mark.usefixtures("dead")
def test_replay_of_chosen_ones_to_another_topic(orderly, orderly_topic, client, group, topic):
    other = orderly_topic(queues=1)
    one = listed(orderly, group)[1]
    code, out, _ = orderly("dlq", "replay", group, "--id", one["message_id"], "--into", other, "-y")
    assert code == 0
    assert [line.split()[2] for line in out.splitlines()[1:]] == [other]
    wrong = orderly("dlq", "replay", group, "--id", one["message_id"], "--id", "nobody", "-y")
    assert wrong[0] == 3
    assert "no dead letter has these ids: nobody; nothing was sent" in wrong[2]


@pytest.mark.usefixtures("dead")
def test_without_yes_and_without_somebody_to_ask_nothing_is_sent(orderly, group):
    code, out, err = orderly("dlq", "replay", group)
    assert (code, out) == (3, "")
    assert "give --yes" in err
    missing = orderly("dlq", "replay", group, "--into", "no-such-topic", "--yes")
    assert missing[0] == 3
    assert "no-such-topic" in missing[2]


SEND_BACK = 36  # what a Java consumer that keeps no order does with a message it gives up


@pytest.mark.broker
def test_list_shows_what_a_java_consumer_sent_back(orderly, producer, client, group, topic):
    sent = producer.send(Message(topic, b"given up", "k0"))
    everything = Subscription(topic)
    query = PullQuery(group, sent.queue, sent.queue_offset, 1, everything, suspend=0)
    (message,) = eventually(lambda: client.brokers.pull_now(query).messages)
    fields = {
        "offset": str(message.physical_offset),
        "group": group,
        "delayLevel": "-1",  # straight to the dead letters
        "originMsgId": message.offset_message_id,
        "originTopic": topic,
    }
    master = client.routes.get(topic).broker(sent.queue.broker_name).master
    reply = client.connections.get(master).call(request(SEND_BACK, fields), PATIENCE)
    assert reply.code == 0, reply.remark
    (letter,) = eventually(lambda: listed(orderly, group))
    assert (letter["topic"], letter["message_id"]) == (topic, sent.message_id)
    assert (letter["key"], letter["body"], letter["reconsume_times"]) == ("k0", "given up", 1)
