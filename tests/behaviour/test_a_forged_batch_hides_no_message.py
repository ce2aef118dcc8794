"""Who says that a message is a batch claims offsets; those that others' messages have stay theirs.

Brokers before 5.0 store such a message, and so does the fake. 5.x refuses it, unless the topic's
queues are of type BatchCQ (tests/integration/test_inner_batches.py).
"""

import pytest
import structlog

from orderly import Ack, Client
from orderly.model import MessageQueue, UndecodableMessage
from tests.support.messages import forge, send_raw
from tests.support.waiting import eventually

CLAIMED = 40  # offsets; more than are ever used
KEYS = "ab"
FORGED = [b"forged"] * CLAIMED


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def send(client, queue):
    """Store honest messages, with forged batches between them.

    Returns:
        The number of each honest one by its offset, and the offsets of the forged ones.
    """

    def send():
        client.routes.get(queue.topic)
        honest, forged = {}, []
        for number in range(12):
            if number % 5 == 2:
                says = (CLAIMED, None, 1)[number // 5]
                forged.append(forge(client, queue, FORGED, says, key="b"))
            body = b"%d" % number
            honest[send_raw(client, queue, body, key=KEYS[number % 2], sys_flag=0)] = number
        return honest, [offset for offset in forged if offset is not None]

    return send


class Reading:
    """A handler that reads what can be read; remembers the rest."""

    def __init__(self):
        self.numbers, self.unread = {}, []

    def __call__(self, messages, context):
        for message in messages:
            if isinstance(message, UndecodableMessage):
                self.unread.append(message.queue_offset)
            else:
                self.numbers[message.queue_offset] = int(message.body)
        return Ack()


@pytest.mark.parametrize("order", ["queue", "key"])
@pytest.mark.parametrize("sent_first", [True, False], ids=["one pull", "several"])
def test_all_other_messages_are_handled(
    order, sent_first, send, client, group, queue, start_member
):
    reading = Reading()
    with structlog.testing.capture_logs() as events:
        sent = send() if sent_first else None
        start_member(recorder=reading, order=order, commit_interval=0.1)
        honest, forged = sent or send()
        end = len(honest) + len(forged)
        eventually(lambda: client.brokers.query_offset(group, queue) == end, within=60)
    assert reading.numbers == honest
    assert sorted(reading.unread) == forged
    told = [e for e in events if e["event"] == "message.undecodable"]
    assert sorted({event["offset"] for event in told}) == forged
    assert all("a batch of 40 messages" in event["why"] for event in told)


def test_the_fake_broker_stores_them(orderly_fake, closing):
    """So the test above is about something."""
    queue = MessageQueue("orders", "broker-a", 0)
    orderly_fake.create_topic("orders", queues=1)
    client = closing(Client(namesrv=orderly_fake.namesrv))
    client.routes.get("orders")
    assert forge(client, queue, FORGED, CLAIMED) == 0
