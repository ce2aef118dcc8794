"""Stored messages become cases: parked ones by their own record, dead letters by what they tell."""

from dataclasses import replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from orderly.consumer.parking.setting_aside import BEHIND
from orderly.model import MessageQueue
from orderly.ordering.state.topic import park_topic
from orderly.protocol.park_control import Command, Verb
from orderly.protocol.park_record import ParkDetails, control_message, park_message
from orderly.spark.columns import arrow_schema
from orderly.spark.jobs.poison.cases import COLUMNS, SCHEMA, cases
from tests.support.messages import message
from tests.support.park_queue import stored

GROUP = "shipping"
SOURCE = MessageQueue("orders", "broker-a", 3)
PARK = replace(SOURCE, topic=park_topic(GROUP, "orders"))
DEAD = MessageQueue("%DLQ%shipping", "broker-a", 0)


def at(seconds):
    return datetime.fromtimestamp(seconds, UTC)


def row(kept, queue):
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue_id": queue.queue_id,
        "queue_offset": kept.queue_offset,
        "msg_id": kept.offset_message_id,
        "uniq_key": kept.properties.get("UNIQ_KEY"),
        "born_ts": at(kept.born_time),
        "store_ts": at(kept.store_time),
        "reconsume_times": kept.reconsume_times,
        "store_size": kept.stored_size,
        "body": kept.body,
        "properties": list(kept.properties.items()),
    }


def read(*rows, **options):
    batch = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(COLUMNS))
    (found,) = cases([batch], GROUP, **options)
    assert found.schema == SCHEMA
    return found.to_pylist()


def parked(offset, queue=SOURCE, **details):
    details = {"key": "k", "reason": "why", "parked_at": 9.5, "token": 1} | details
    original = replace(message(offset, queue=queue), store_time=7.25)
    return stored(park_message(original, ParkDetails(**details)), 4)


def test_a_parked_message_tells_its_place_and_its_failure():
    (case,) = read(
        row(parked(17, attempts=3, fingerprint="ValueError: no", last_error="no 5"), PARK)
    )
    place = [case[name] for name in ("topic", "broker", "queue_id", "queue_offset")]
    assert place == ["orders", "broker-a", 3, 17]
    assert (case["kind"], case["key"], case["key_is_int"]) == ("parked", "k", False)
    assert (case["cause"], case["sample"], case["attempts"]) == ("ValueError: no", "no 5", 3)
    assert (case["at"], case["origin_ts"]) == (at(9.5), at(7.25))
    assert (case["stored_topic"], case["stored_offset"]) == (PARK.topic, 4)
    assert case["body"] is None, "not asked for"


def test_bodies_are_kept_only_if_asked_for():
    (case,) = read(row(parked(17, attempts=1), PARK), bodies=True)
    assert case["body"] == message(17).body


@pytest.mark.parametrize(
    ("details", "kind", "cause"),
    [
        ({"reason": BEHIND.reason}, "behind", None),
        ({"reason": ""}, "behind", None),  # no room for texts
        ({"reason": "it ended two processes"}, "parked", "it ended two processes"),
        ({"attempts": 1, "reason": ""}, "parked", "no reason told"),
        ({"attempts": 1, "reason": "r", "fingerprint": "f"}, "parked", "f"),
    ],
)
def test_what_only_waits_is_no_failure(details, kind, cause):
    (case,) = read(row(parked(1, **details), PARK))
    assert (case["kind"], case["cause"]) == (kind, cause)


def test_a_number_is_another_key_than_its_text():
    number, text = read(row(parked(1, key=7), PARK), row(parked(1, key="7"), PARK))
    assert [(it["key"], it["key_is_int"]) for it in (number, text)] == [("7", True), ("7", False)]


def test_a_dead_letter_tells_topic_id_and_count():
    ours = replace(
        message(5),
        properties={
            "RETRY_TOPIC": "orders", "UNIQ_KEY": "id-1", "__SHARDINGKEY": "k", "TAGS": "made",
            "RECONSUME_TIME": "17",
        },
    )  # fmt: skip
    brokers = replace(message(6), properties={"DLQ_ORIGIN_TOPIC": "orders", "UNIQ_KEY": "id-2"})
    one, other = read(row(ours, DEAD), row(brokers, DEAD))
    assert (one["kind"], one["topic"], one["key"], one["message_id"]) == (
        "dead",
        "orders",
        "k",
        "id-1",
    )
    assert (one["attempts"], one["cause"]) == (17, "dead letters of orders, tag made")
    assert (other["topic"], other["key"], other["message_id"]) == ("orders", None, "id-2")
    assert (one["queue_offset"], one["stored_offset"]) == (None, 5), "its old place is not told"


def test_controls_give_no_case_and_what_is_foreign_is_counted():
    command = stored(control_message(Command("id", Verb.RELEASE, "k", "me", 1)))
    foreign = replace(message(1), body=b"nonsense", properties={})
    elsewhere = row(parked(1, attempts=1, queue=replace(SOURCE, queue_id=4)), PARK)
    others = row(parked(1, attempts=1), replace(PARK, topic=park_topic("billing", "orders")))
    found = read(row(command, PARK), row(foreign, PARK), elsewhere, others)
    assert [case["kind"] for case in found] == ["unreadable"] * 3
