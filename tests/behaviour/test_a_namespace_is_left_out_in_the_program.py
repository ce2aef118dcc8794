"""Programs of a namespace use bare names; the broker, and members without it, see the full ones."""

from orderly import ConsumerConfig, OrderlyConsumer
from orderly.protocol.topics import MessageType
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.waiting import eventually, patient_client, patient_producer


def test_send_and_consume_by_bare_names(orderly_namesrv, group, client, closing, behind_proxy):
    name = unique("orders")
    kind = MessageType.MIXED if behind_proxy else None  # FIFO is for groups marked as ordered
    client.admin.create_topic(f"shop%{name}", 2, message_type=kind)
    shop = closing(patient_client(orderly_namesrv, namespace="shop"))
    producer = closing(patient_producer(client=shop))
    results = send_numbers(producer, name, ["a", "b"], 3)
    assert {result.queue.topic for result in results} == {f"shop%{name}"}

    topics = []

    class Named(Recorder):
        def __call__(self, messages, context):
            topics.append(messages[0].topic)
            return super().__call__(messages, context)

    seen = Named()
    config = ConsumerConfig(consume_from="first")
    closing(OrderlyConsumer(group, seen, client=shop, config=config).subscribe(name))
    eventually(lambda: len(seen.deliveries) == 6, within=20)
    assert seen.by_key() == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert set(topics) == {name}
    members = shop.admin.consumer_connections(f"shop%{group}")
    assert [member.client_id for member in members.connections] == [shop.client_id]
