"""A broker killed in the middle of a task costs nothing: no gap, each key in its order."""

import threading

import pyarrow as pa

from orderly.spark.access import Access
from orderly.spark.sending import send_partition
from orderly.spark.stamps import ID, SEQ
from orderly.spark.write_plan import Roles, WritePlan
from orderly.testing import EmbeddedBroker
from tests.support.topics import by_key, first_copies, stored
from tests.support.waiting import patient_client

KEYS, BATCHES, ROWS = 50, 20, 500


def batches(kill_at, kill):
    """The rows of a partition; the broker is killed while some of them are in flight."""
    for number in range(BATCHES):
        if number == kill_at:
            kill()
        rows = range(number * ROWS, (number + 1) * ROWS)
        yield pa.record_batch(
            {
                "key": pa.array([f"key-{row % KEYS}" for row in rows]),
                "seq": pa.array(rows, pa.int64()),
                "body": pa.array([b"%d" % row for row in rows]),
            }
        )


def test_no_gap_and_no_disorder_when_the_broker_is_killed():
    with EmbeddedBroker() as broker:
        with patient_client(broker.namesrv) as client:
            client.admin.create_topic("t", 4)
        restart = threading.Thread(target=broker.restart_broker)

        def kill():
            broker.kill_broker()
            restart.start()

        plan = WritePlan(
            Access(broker.namesrv),
            "t",
            "broker-a:4",
            "hash_mod",
            Roles(body="body", key="key", order="seq"),
            max_batch_bytes=65_536,
        )
        outcome = send_partition(plan, 0, batches(BATCHES // 2, kill))
        restart.join()
        messages = stored(broker.namesrv, "t", BATCHES * ROWS, 4)

    assert outcome.sent.rows == BATCHES * ROWS
    found = by_key(messages, lambda message: int(message.properties[SEQ]))
    assert {key: first_copies(numbers) for key, numbers in found.items()} == {
        f"key-{key}": list(range(key, BATCHES * ROWS, KEYS)) for key in range(KEYS)
    }
    ids = {message.properties[ID] for message in messages}
    assert len(ids) == BATCHES * ROWS
    assert len(messages) - len(ids) <= outcome.sent.doubtful
