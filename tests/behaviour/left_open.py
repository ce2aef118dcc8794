"""A program that ends without closing what it has opened, in one of several ways.

Usage: python -m tests.behaviour.left_open WAY NAMESRV TOPIC GROUP QUEUES FILE
"""

import asyncio
import multiprocessing
import os
import sys
import threading
import time
from pathlib import Path

from orderly import Ack, Client, ConsumerConfig, Message, OrderlyConsumer, OrderlyProducer
from orderly.errors import OrderlyError

WAY, NAMESRV, TOPIC, GROUP, QUEUES, FILE = sys.argv[1:]
MESSAGES = 3000
FOR_EVER = 3600.0


def say(*words):
    """On a line of its own, at once: from any thread, any process."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def handle(messages, _context):
    """A message with the body "stay" is never done."""
    if messages[0].body == b"stay":
        say("stays")
        time.sleep(FOR_EVER)
    say("handled")
    return Ack()


async def handle_on_loop(messages, context):
    return handle(messages, context)


def consumer(handler=handle, executor="thread", client=None):
    config = ConsumerConfig(
        order="key", consume_from="first", commit_interval=FOR_EVER, executor=executor
    )
    known = {"client": client} if client else {"namesrv": NAMESRV}
    return OrderlyConsumer(GROUP, handler, config=config, **known).subscribe(TOPIC)


def started(**how):
    return until_settled(consumer(**how).start())


def until_settled(member):
    while len(member.assignment) < int(QUEUES):
        time.sleep(0.05)
    return member


def go_on():
    """Wait until the file is there."""
    while not Path(FILE).exists():
        time.sleep(0.01)


def sends():
    producer = OrderlyProducer(namesrv=NAMESRV).start()
    for number in range(MESSAGES):
        producer.submit(Message(TOPIC, b"%d" % number, sharding_key=f"k{number % 10}"))
    say("sent", MESSAGES)


def sends_after_a_word():
    producer = OrderlyProducer(namesrv=NAMESRV).start()
    producer.send(Message(TOPIC, b"first", sharding_key="k"))
    say("ready")
    go_on()
    for number in range(10):
        producer.submit(Message(TOPIC, b"%d" % number, sharding_key="k"))


def consumes(**how):
    started(**how)
    say("ready")
    go_on()


def consumes_on_a_loop():
    async def program():
        member = consumer(handle_on_loop)
        await member.__aenter__()
        await asyncio.to_thread(until_settled, member)
        say("ready")
        await asyncio.to_thread(go_on)

    asyncio.run(program())


def forks():
    """The child ends as a program does; the parent's consumer is not the child's to close."""
    member = started()
    say("ready")
    child = os.fork()
    if not child:
        sys.exit()
    os.waitpid(child, 0)
    say("child ended", member.state, len(member.assignment))
    go_on()
    os._exit(0)


def child():
    started()
    say("ready")


def is_a_child():
    """Of multiprocessing, which ends it without a word to `atexit`."""
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()


def closes():
    with consumer() as member, OrderlyProducer(namesrv=NAMESRV) as producer:
        until_settled(member)
        producer.send(Message(TOPIC, b"0", sharding_key="k"))
        say("ready")


def closes_the_client():
    """Under its consumer."""
    client = Client(namesrv=NAMESRV)
    started(client=client)
    client.close()
    say("ready")


def has_other_threads():
    """They send after the main thread has ended; the program is not at its end before."""
    producer = OrderlyProducer(namesrv=NAMESRV).start()

    def send():
        threading.main_thread().join()
        for number in range(3):
            time.sleep(0.1)
            try:
                producer.send(Message(TOPIC, b"%d" % number, sharding_key="k"))
            except OrderlyError as error:
                say("error", error)

    threading.Thread(target=send).start()
    say("ready")


WAYS = {
    "sends": sends,
    "sends after a word": sends_after_a_word,
    "thread": consumes,
    "process": lambda: consumes(executor="process"),
    "loop": consumes_on_a_loop,
    "forks": forks,
    "is a child": is_a_child,
    "closes": closes,
    "closes the client": closes_the_client,
    "has other threads": has_other_threads,
}

if __name__ == "__main__":
    WAYS[WAY]()
    say("main ends")
