"""More queues for a topic in use: no message overtakes another of its key."""

import time

import pytest

from orderly import Ack
from orderly.errors import LayoutChanged, RouteError
from orderly.monitoring.topic_growth import Patience, TopicGrowth
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually, patient_producer

KEYS = [f"order-{i}" for i in range(20)]
QUICK = {"route_interval": 0.2, "rebalance_interval": 0.2, "commit_interval": 0.2}
QUICKLY = Patience(watch=0.1, quiet=0.5, timeout=60.0, every=0.1)


def slowly(_messages, _context):
    time.sleep(0.01)
    return Ack()


def is_open(producer, topic):
    try:
        return producer.queues(topic)
    except RouteError:  # LayoutChanged: it looks again after a second
        return False


def test_what_is_under_way_is_finished_before_keys_move(
    producer, topic, client, start_group, orderly_namesrv, closing
):
    members = start_group(slowly, **QUICK)
    growth = TopicGrowth(client, topic, 7)
    pinned = closing(patient_producer(orderly_namesrv, layout=str(growth.plan.pin)))
    send_numbers(producer, topic, KEYS, 3)
    with pytest.raises(LayoutChanged):
        send_numbers(pinned, topic, KEYS, 1, first=4)
    await_visible(client)  # or it looks as if they were being written now

    def tell(text):
        if text.startswith("writing is closed"):  # a producer that does not know it yet
            send_numbers(producer, topic, KEYS, 1, first=3)

    growth.run(QUICKLY, tell)
    assert members.seen.by_key() == {key: [0, 1, 2, 3] for key in KEYS}
    eventually(lambda: is_open(pinned, topic), within=30)
    sent = send_numbers(pinned, topic, KEYS, 3, first=4)
    assert {result.queue.queue_id for result in sent} == set(range(7))
    eventually(lambda: len(members.seen.deliveries) >= 7 * len(KEYS), within=30)
    assert members.seen.by_key() == {key: [0, 1, 2, 3, 4, 5, 6] for key in KEYS}


def test_a_producer_that_does_not_know_of_it_is_refused(
    producer, topic, client, start_member, orderly_namesrv
):
    start_member(**QUICK)
    send_numbers(producer, topic, KEYS, 1)
    await_visible(client)
    TopicGrowth(client, topic, 7).run(QUICKLY, lambda _: None)
    producer.resume()
    producer._client.routes.refresh(topic)  # as it does every 30 s
    with pytest.raises((LayoutChanged, RouteError), match="7"):
        send_numbers(producer, topic, KEYS, 1, first=1)
