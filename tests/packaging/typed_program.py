"""A program as users write it, for `mypy --strict` against the installed wheel: never run.

`assert_type` is an error where a public name has another type than is promised here, also where it
has become `Any`. A line that ends in `# refused` is one mypy must complain about.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import assert_type

import orderly
from orderly import (
    Ack,
    Answer,
    Client,
    ClientConfig,
    ConsumeContext,
    ConsumerConfig,
    ConsumerHooks,
    Fail,
    LockLost,
    Message,
    MessageQueue,
    OrderlyConsumer,
    OrderlyError,
    OrderlyProducer,
    ProducerConfig,
    ReceivedMessage,
    Retry,
    SendResult,
    listener,
)
from orderly.consumer.probe import Probe
from orderly.errors import SendFailed
from orderly.monitoring.parked import ParkedMessages
from orderly.selectors import hash_mod
from orderly.testing import Delivered, FakeBroker, Sent, judge

NAMESRV = "localhost:9876"


def first(queues: Sequence[MessageQueue], message: Message, arg: object) -> MessageQueue:
    return queues[0]


def send() -> None:
    config = ProducerConfig(linger=0.01)
    with OrderlyProducer(namesrv=NAMESRV, config=config) as producer:
        message = Message("orders", b"paid", sharding_key="order-1001")
        assert_type(producer.send(message), SendResult)
        assert_type(producer.send(message, selector=first, arg=7).queue, MessageQueue)
        assert_type(producer.send(message, selector=hash_mod).queue_offset, int)
        future = producer.submit(message)
        sent: Future[SendResult] = future
        assert_type(future.result(timeout=3), SendResult)
        sent.cancel()
        assert_type(producer.queues("orders"), tuple[MessageQueue, ...])
        try:
            producer.send(message, timeout=3)
        except SendFailed as error:
            known: OrderlyError = error
            producer.resume("order-1001")
            raise known from None
        Message("orders", 7, sharding_key="order-1001")  # refused
        producer.send(b"paid")  # refused
        producer.send(message, 3)  # refused


async def send_async(producer: OrderlyProducer) -> SendResult:
    result = await producer.asend(Message("orders", b"paid", sharding_key="order-1001"))
    return assert_type(result, SendResult)


def handle(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> Answer:
    for message in messages:
        assert_type(message.body, bytes)
        assert_type(message.sharding_key, str | None)
        assert_type(message.queue_offset, int)
    try:
        context.extend()
    except LockLost:
        return Fail("not ours any more")
    return Ack()


@listener(on_poison="park_key", retry=Retry(), decode="json", on_error={KeyError: "park_key"})
def ship(order: dict[str, str], attempt: orderly.Attempt) -> Ack | Fail:
    assert_type(attempt.number, int)
    return Ack() if "address" in order else Fail("no address")


def consume() -> None:
    hooks = ConsumerHooks(assigned=lambda queues: print(len(queues)))
    config = ConsumerConfig(consume_from="first", order="key", concurrency=8)
    consumer = OrderlyConsumer("shipping", handle, namesrv=NAMESRV, config=config, hooks=hooks)
    with consumer.subscribe("orders", tags="paid || shipped") as running:
        assert_type(running, OrderlyConsumer)
        assert_type(running.wait(timeout=60), bool)
        assert_type(running.assignment, tuple[MessageQueue, ...])
        assert_type(running.seek(running.assignment[0], datetime.now().astimezone()), int)
        running.pause(running.assignment[:1])
        assert_type([str(why) for why in running.explain()], list[str])
        Probe(8080, running.health).start()
    OrderlyConsumer("shipping", ship, namesrv=NAMESRV)
    OrderlyConsumer("shipping", first, namesrv=NAMESRV)  # refused
    ConsumerConfig(concurency=8)  # refused


async def consume_async() -> None:
    async with OrderlyConsumer("shipping", ship, namesrv=NAMESRV).subscribe("orders"):
        await asyncio.Event().wait()


def operate() -> None:
    config = ClientConfig(namesrv=NAMESRV)
    with Client(config=config) as client:
        assert_type(client.admin.topics(), tuple[str, ...])
        parked = ParkedMessages(client, "shipping")
        parked.release("order-1001")


def test_my_service(orderly_fake: FakeBroker) -> None:
    orderly_fake.create_topic("orders", queues=4)
    assert_type(orderly_fake.namesrv, str)
    sent, delivered = list[Sent](), list[Delivered]()
    assert_type(judge(sent, delivered).ok, bool)
