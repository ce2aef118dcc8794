"""Where a group without committed offsets starts, and that nothing sent after that is skipped."""

import threading
import time
from datetime import UTC, datetime

from orderly import Message
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually

KEYS = [f"k{i}" for i in range(8)]


def test_last_while_a_producer_writes_skips_nothing_after_the_first_message_seen(
    producer, topic, client, start_member
):
    """Java computes this start twice and loses what arrives in between (issue 10955)."""
    stop, sent = threading.Event(), []

    def write():
        number = 0
        while not stop.is_set():
            for key in KEYS:
                body = str(number).encode()
                sent.append(producer.send(Message(topic, body, sharding_key=key)))
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: len(sent) > 200)
        await_visible(client)
        _, seen = start_member(consume_from="last")
        eventually(lambda: len({d.key for d in seen.deliveries}) == len(KEYS), within=30)
        goal = len(sent) + 400
        eventually(lambda: len(sent) > goal, within=30)
    finally:
        stop.set()
        writer.join()
    last = max(int(r.queue_offset) for r in sent)
    assert last > 0
    total = len(sent) // len(KEYS)
    eventually(lambda: all(total - 1 in seen.numbers(key) for key in KEYS), within=30)
    for key in KEYS:
        numbers = seen.numbers(key)
        assert numbers == list(range(numbers[0], total)), key
        assert numbers[0] > 0, "LAST does not read what was there before"


def test_first_reads_everything(producer, topic, start_member):
    send_numbers(producer, topic, KEYS, 3)
    _, seen = start_member(consume_from="first")
    eventually(lambda: len(seen.deliveries) == 24, within=30)


def test_a_time_reads_from_there(producer, topic, client, start_member):
    send_numbers(producer, topic, KEYS, 2)
    sent = time.time()
    eventually(lambda: time.time() > sent + 0.01)  # the broker counts in milliseconds
    boundary = datetime.now(UTC)
    eventually(lambda: time.time() > sent + 0.02)
    send_numbers(producer, topic, KEYS, 2, first=2)
    await_visible(client)
    _, seen = start_member(consume_from=boundary.isoformat())
    eventually(lambda: all(seen.numbers(key) == [2, 3] for key in KEYS), within=30)


def test_a_committed_offset_wins_over_the_setting(producer, topic, start_member):
    send_numbers(producer, topic, KEYS, 2)
    consumer, seen = start_member(consume_from="first")
    eventually(lambda: len(seen.deliveries) == 16, within=30)
    consumer.close()
    send_numbers(producer, topic, KEYS, 2, first=2)
    _, again = start_member(consume_from="first")
    eventually(lambda: len(again.deliveries) >= 16, within=30)
    assert again.by_key() == {key: [2, 3] for key in KEYS}
