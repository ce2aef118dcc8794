"""Batches that a broker stores as one message, true and forged ones, on a real broker."""

import pytest

from orderly import Ack, ConsumerConfig, OrderlyConsumer
from orderly.client.broker import PullQuery
from orderly.errors import BrokerError
from orderly.model import MessageQueue, UndecodableMessage
from orderly.protocol.codes import ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.topics import CreateTopic
from tests.support.consuming import unique
from tests.support.messages import forge, inner_batch, send_raw
from tests.support.topics import stored
from tests.support.waiting import eventually, patient_client

INNER, UNWRAP = 128, 64
THREE = [b"1", b"2", b"3"]


@pytest.fixture
def batched(client):
    """A queue of type BatchCQ."""
    topic = unique("batches")
    (broker,) = client.admin.cluster().brokers.values()
    header = CreateTopic(
        topic=topic, read_queue_nums=1, write_queue_nums=1, attributes="+queue.type=BatchCQ"
    )
    command = request(header.code, to_ext(header))
    assert client.connections.get(broker.master).call(command, 10).code == ResponseCode.SUCCESS
    eventually(lambda: client.routes.refresh(topic).read_queues(), within=30)
    return MessageQueue(topic, "broker-a", 0)


def pulled(client, queue, offset, count):
    """The messages from an offset on, as (offset, body; None: it cannot be read)."""
    found = []
    while len(found) < count:
        query = PullQuery("orderly-tests", queue, offset, 32, Subscription(queue.topic), suspend=5)
        reply = client.brokers.pull_now(query)
        found += reply.messages
        assert reply.next_offset > offset, "there is no more"
        offset = reply.next_offset
    return [(m.queue_offset, None if isinstance(m, UndecodableMessage) else m.body) for m in found]


@pytest.mark.parametrize("batch", [False, True], ids=["one message", "a batch"])
@pytest.mark.parametrize("says", [3, 1, None])
def test_a_queue_of_the_usual_type_takes_none(client, queue, batch, says):
    client.routes.get(queue.topic)
    told = {} if says is None else {"INNER_NUM": str(says)}
    for flags in (INNER, INNER | UNWRAP):
        with pytest.raises(BrokerError) as refused:
            send_raw(client, queue, inner_batch(THREE), sys_flag=flags, batch=batch, **told)
        assert refused.value.code == ResponseCode.MESSAGE_ILLEGAL
    assert client.brokers.max_offset(queue) == 0


def test_one_that_is_only_to_be_unwrapped_is_a_message_like_any_other(
    client, queue, orderly_namesrv
):
    client.routes.get(queue.topic)
    send_raw(client, queue, inner_batch(THREE), sys_flag=UNWRAP)
    (found,) = stored(orderly_namesrv, queue.topic, 1, queues=1)
    assert found.body == inner_batch(THREE)


def test_true_ones_are_unwrapped_and_forged_ones_hide_nothing(client, batched):
    """What a sender says of their number, such a queue believes: so many offsets they get."""
    send = {"client": client, "queue": batched}
    assert send_raw(**send, body=inner_batch(THREE), sys_flag=0, batch=True) == 0
    assert forge(**send, bodies=[b"forged"] * 9, says=1) == 3
    assert send_raw(**send, body=inner_batch(THREE), sys_flag=0, batch=True) == 4
    assert forge(**send, bodies=[b"forged"], says=9) == 7
    assert send_raw(**send, body=inner_batch(THREE), sys_flag=0, batch=True) == 16
    found = pulled(client, batched, 0, 11)
    assert found == [
        (0, b"1"), (1, b"2"), (2, b"3"),
        (3, None),
        (4, b"1"), (5, b"2"), (6, b"3"),
        (7, None),
        (16, b"1"), (17, b"2"), (18, b"3"),
    ]  # fmt: skip
    assert pulled(client, batched, 5, 2)[:2] == found[5:7], "from within a batch on"


def test_a_consumer_handles_all_that_others_sent(client, batched, group, orderly_namesrv):
    send = {"client": client, "queue": batched, "sys_flag": 0, "batch": True}
    send_raw(**send, body=inner_batch(THREE))
    forge(client, batched, [b"forged"] * 9, 1)
    end = send_raw(**send, body=inner_batch(THREE)) + 3
    seen = []

    def handle(messages, context):
        seen.extend(message.queue_offset for message in messages)
        return Ack()

    config = ConsumerConfig(consume_from="first", commit_interval=0.1)
    with patient_client(orderly_namesrv) as own:
        consumer = OrderlyConsumer(group, handle, client=own, config=config)
        consumer.subscribe(batched.topic)
        with consumer:
            eventually(lambda: client.brokers.query_offset(group, batched) == end, within=60)
    assert seen == list(range(end))
