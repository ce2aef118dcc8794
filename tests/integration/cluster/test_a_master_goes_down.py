"""A master dies and comes back: what producers and members do meanwhile, and that order is kept."""

import contextlib
import time
from functools import partial

import pytest

from orderly import Message, OrderlyConsumer, OrderlyProducer, ProducerConfig
from orderly.errors import LayoutChanged, RouteError, SendFailed
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import request
from tests.support.brokers import EAST, SHORT, WEST, consumer_config, join
from tests.support.consuming import Recorder, first_deliveries, send_numbers, unique
from tests.support.waiting import eventually, patient_client

KEYS = [f"k{i}" for i in range(12)]
PUT_KV_CONFIG = 100


@pytest.fixture
def producer_with(cluster, closing):
    """Make a producer with one layout, and a group of its own."""

    def make(layout):
        config, own = ProducerConfig(layout=layout), closing(patient_client(cluster.namesrv))
        return closing(OrderlyProducer(unique("producer"), client=own, config=config))

    return make


def failure(producer, topic, key):
    """The error of a send, and the seconds until it came."""
    begun = time.monotonic()
    with pytest.raises((SendFailed, RouteError)) as caught:
        producer.send(Message(topic, b"5", sharding_key=key))
    return caught.value, time.monotonic() - begun


def configure_order(client, namesrv, topic):
    """Have the name server tell the topic's layout, also while a master is down."""
    pair = {"key": topic, "value": f"{EAST}:4;{WEST}:4"}
    command = request(PUT_KV_CONFIG, {"namespace": "ORDER_TOPIC_CONFIG", **pair})
    assert client.connections.get(namesrv).call(command, 5).code == ResponseCode.SUCCESS


def brokers_of(producer, topic):
    """Brokers of the queues that are counted now; none while that is refused."""
    try:
        return {queue.broker_name for queue in producer.queues(topic)}
    except RouteError:
        return set()


def test_strict_layouts_fail_fast_and_loose_ones_move_keys_until_it_is_back(
    cluster, client, connect, closing, producer_with, topic, group
):
    strict, loose = producer_with("strict"), producer_with("loose")
    moving, configured = unique("topic"), unique("topic")
    client.admin.create_topic(moving, 4)
    client.admin.create_topic(configured, 4)
    configure_order(client, cluster.namesrv, configured)
    seen = Recorder()
    config = consumer_config(SHORT)
    new = partial(OrderlyConsumer, group, seen, client=connect(), config=config)
    closing(contextlib.closing(join(new, topic)))
    sent = send_numbers(strict, topic, KEYS, 5)
    homes = [result.queue for result in sent[: len(KEYS)]]
    of_east = next(k for k, home in zip(KEYS, homes, strict=True) if home.broker_name == EAST)
    of_west = next(k for k, home in zip(KEYS, homes, strict=True) if home.broker_name == WEST)
    send_numbers(loose, moving, KEYS, 1)
    assert brokers_of(strict, configured) == {EAST, WEST}
    eventually(lambda: len(seen.deliveries) >= len(sent))

    cluster.master.kill()
    assert failure(strict, topic, of_east)[1] < 30, "longer than all attempts take"
    eventually(lambda: not brokers_of(strict, topic))
    refused, seconds = failure(strict, topic, of_east)
    assert isinstance(refused, LayoutChanged)
    assert f"are {WEST}:4 but this producer is pinned to {EAST}:4;{WEST}:4" in str(refused)
    assert "If a broker is down, wait until it is back" in str(refused)
    assert seconds < 15, "nothing is tried"
    client.routes.refresh(moving)
    eventually(lambda: brokers_of(loose, moving) == {WEST})
    assert {r.queue.broker_name for r in send_numbers(loose, moving, KEYS, 1, 1)} == {WEST}

    assert isinstance(failure(strict, configured, of_east)[0], SendFailed)
    (stored,) = send_numbers(strict, configured, [of_west], 1)
    assert stored.queue.broker_name == WEST, "the layout stays: no key moves, others go on"

    cluster.master.restart()
    eventually(lambda: brokers_of(strict, topic) == brokers_of(loose, moving) == {EAST, WEST}, 60)
    strict.resume(of_east)  # its message 5 was not stored
    after = send_numbers(strict, topic, KEYS, 5, first=5)
    assert [result.queue for result in after[: len(KEYS)]] == homes
    eventually(lambda: all(9 in seen.numbers(key) for key in KEYS), within=60)
    assert all(first_deliveries(seen.numbers(key)) == list(range(10)) for key in KEYS)
