"""RocketMQ's own `mqadmin` shows a group of ours as it shows any other, with the right numbers."""

import re
import time
from collections import Counter

import pytest

from orderly import ConsumerConfig, ConsumeResult, OrderlyConsumer
from tests.support.consuming import Recorder, send_numbers
from tests.support.java import mqadmin, mqadmin_table, mqadmin_value
from tests.support.waiting import eventually, patient_client, patient_producer

KEYS = [f"order-{i}" for i in range(12)]
GOOD = 3  # messages of each key that are handled; what comes after is stuck
SENT = 5
PROCESS_QUEUE = re.compile(r"(\w+)=([^,\]]*)")  # one field of a queue's state


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=4)


def member(namesrv, group, topic, handler, tags="*"):
    config = ConsumerConfig(consume_from="first", commit_interval=0.2, rebalance_interval=5)
    consumer = OrderlyConsumer(group, handler, namesrv=namesrv, config=config)
    return consumer.subscribe(topic, tags)


def succeed(messages, context):
    return ConsumeResult.SUCCESS


def stuck_at_the_fourth(messages, context):
    done = all(int(message.body) < GOOD for message in messages)
    return ConsumeResult.SUCCESS if done else context.suspend(30)


def until_committed(namesrv, group, topic, offsets):
    """Wait until the group's offsets at the broker are these, by queue id."""

    def committed():
        stats = client.admin.consume_stats(group, topic)
        return {queue.queue_id: pair.consumer_offset for queue, pair in stats.items()}

    with patient_client(namesrv) as client:
        eventually(lambda: committed() == offsets, within=30, every=0.05)


def by_queue(results):
    """How many messages were stored in each queue."""
    return Counter(result.queue.queue_id for result in results)


def process_queues(status, topic):
    """What `consumerStatus -i` says of each queue of the topic: {queue id: {field: text}}."""
    _, detail = status.split("#Consumer MQ Detail#")
    rows = mqadmin_table(detail, "Topic")
    return {
        int(row["QID"]): dict(PROCESS_QUEUE.findall(row["ProcessQueueInfo"]))
        for row in rows
        if row["Topic"] == topic
    }


def test_consumer_progress_tells_the_backlog_of_each_queue(orderly_namesrv, group, topic):
    with patient_producer(orderly_namesrv) as producer:
        results = send_numbers(producer, topic, KEYS, SENT)
    stored, handled = by_queue(results), by_queue(results[: GOOD * len(KEYS)])
    with member(orderly_namesrv, group, topic, stuck_at_the_fourth):
        until_committed(orderly_namesrv, group, topic, handled)
        output = mqadmin("consumerProgress", "-g", group, namesrv=orderly_namesrv)
    rows = [row for row in mqadmin_table(output, "Topic") if row["Topic"] == topic]
    assert {int(row["QID"]) for row in rows} == stored.keys() == {0, 1, 2, 3}
    for row in rows:
        queue = int(row["QID"])
        assert int(row["Broker Offset"]) == stored[queue]
        assert int(row["Consumer Offset"]) == handled[queue]
        assert int(row["Diff"]) == stored[queue] - handled[queue]
    assert mqadmin_value(output, "Consume Diff Total") == str((SENT - GOOD) * len(KEYS))


def test_consumer_connection_names_the_members_and_what_they_subscribe(
    orderly_namesrv, group, topic
):
    with (
        member(orderly_namesrv, group, topic, succeed, tags="red || blue") as first,
        member(orderly_namesrv, group, topic, succeed, tags="red || blue") as second,
    ):
        output = mqadmin("consumerConnection", "-g", group, namesrv=orderly_namesrv)
    members = mqadmin_table(output, "ClientId")
    assert sorted(row["ClientId"] for row in members) == sorted([first.client_id, second.client_id])
    assert {row["Language"] for row in members} == {"PYTHON"}
    subscribed = {row["Topic"]: row["SubExpression"] for row in mqadmin_table(output, "Topic")}
    assert subscribed == {topic: "red || blue", f"%RETRY%{group}": "*"}
    assert mqadmin_value(output, "ConsumeType") == "CONSUME_PASSIVELY"
    assert mqadmin_value(output, "MessageModel") == "CLUSTERING"
    assert mqadmin_value(output, "ConsumeFromWhere") == "CONSUME_FROM_FIRST_OFFSET"


def test_reset_offset_by_time_delivers_again_from_that_moment_in_order(
    orderly_namesrv, group, topic
):
    seen = Recorder()
    with (
        patient_producer(orderly_namesrv) as producer,
        member(orderly_namesrv, group, topic, seen),
    ):
        before = send_numbers(producer, topic, KEYS, 2)
        moment = int(time.time() * 1000) + 2  # between the two in the broker's milliseconds
        eventually(lambda: time.time() * 1000 > moment + 2)
        after = send_numbers(producer, topic, KEYS, 2, first=2)
        until_committed(orderly_namesrv, group, topic, by_queue(before + after))
        output = mqadmin(
            *("resetOffsetByTime", "-g", group, "-t", topic, "-s", str(moment)),
            namesrv=orderly_namesrv,
        )
        # The broker tells of the reset in the answer to the next pull; a new message ends the
        # one it holds.
        last = send_numbers(producer, topic, KEYS, 1, first=4)
        expected = [0, 1, 2, 3, 2, 3, 4]
        eventually(lambda: all(seen.numbers(key)[-1] == 4 for key in KEYS), within=40)
        assert {key: seen.numbers(key) for key in KEYS} == dict.fromkeys(KEYS, expected)
        until_committed(orderly_namesrv, group, topic, by_queue(before + after + last))
    told = {int(row["queueId"]): int(row["offset"]) for row in mqadmin_table(output, "brokerName")}
    assert told == by_queue(before)


def test_consumer_status_shows_what_the_member_holds(orderly_namesrv, group, topic):
    with patient_producer(orderly_namesrv) as producer:
        results = send_numbers(producer, topic, KEYS, SENT)
    stored, handled = by_queue(results), by_queue(results[: GOOD * len(KEYS)])
    with member(orderly_namesrv, group, topic, stuck_at_the_fourth) as consumer:
        until_committed(orderly_namesrv, group, topic, handled)
        status = mqadmin(
            "consumerStatus", "-g", group, "-i", consumer.client_id, namesrv=orderly_namesrv
        )
    assert mqadmin_value(status, "PROP_CONSUMEORDERLY") == "true"
    assert mqadmin_value(status, "PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY"
    assert orderly_namesrv in mqadmin_value(status, "PROP_NAMESERVER_ADDR")
    assert int(mqadmin_value(status, "PROP_CONSUMER_START_TIMESTAMP")) > 1_700_000_000_000
    held = process_queues(status, topic)
    assert held.keys() == stored.keys()
    for queue in stored:
        info = held[queue]
        waiting = stored[queue] - handled[queue]
        assert (info["locked"], info["droped"]) == ("true", "false")
        assert int(info["commitOffset"]) == handled[queue]
        assert int(info["cachedMsgCount"]) + int(info["transactionMsgCount"]) == waiting
        assert int(info["cachedMsgMaxOffset"]) == stored[queue] - 1


def test_consumer_status_of_the_group_finds_nothing_wrong(orderly_namesrv, group, topic):
    with (
        member(orderly_namesrv, group, topic, succeed) as first,
        member(orderly_namesrv, group, topic, succeed) as second,
    ):
        eventually(lambda: len(first.assignment) == len(second.assignment) == 2, within=30)
        status = mqadmin("consumerStatus", "-g", group, namesrv=orderly_namesrv)
    members = {row["ClientId"] for row in mqadmin_table(status, "Index")}
    assert members == {first.client_id, second.client_id}
    assert "Same subscription in the same group of consumer" in status
    assert "Rebalance OK" in status
    assert "can't lock" not in status


def test_consumer_progress_names_the_owner_of_each_queue(orderly_namesrv, group, topic):
    with member(orderly_namesrv, group, topic, succeed) as consumer:
        eventually(lambda: len(consumer.assignment) == 4, within=30)
        output = mqadmin("consumerProgress", "-g", group, "-s", "true", namesrv=orderly_namesrv)
    rows = [row for row in mqadmin_table(output, "Topic") if row["Topic"] == topic]
    address = consumer.client_id.partition("@")[0]
    assert [row["Client IP"] for row in rows] == [address] * 4
