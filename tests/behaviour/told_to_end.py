"""A program whose consumers a signal tells to end, in one of several ways; prints what happens.

Usage: python -m tests.behaviour.told_to_end WAY NAMESRV TOPIC GROUP...
"""

import asyncio
import os
import signal
import sys
import threading
import time
from functools import partialmethod
from pathlib import Path

from orderly import Ack, ConsumerConfig
from orderly.client.broker import BrokerCalls
from tests.support.waiting import PATIENCE, patient_consumer

WAY, NAMESRV, TOPIC, *GROUPS = sys.argv[1:]
QUEUES = 4
CLOSE_TIMEOUT = 50.0

# What a busy machine answers late would be warned of, and nothing else shall be.
BrokerCalls.lock_queues = partialmethod(BrokerCalls.lock_queues, timeout=PATIENCE)
BrokerCalls.unlock_queues = partialmethod(BrokerCalls.unlock_queues, timeout=PATIENCE)


def say(*words):
    """On a line of its own, at once: from any thread, any process."""
    os.write(1, f"{' '.join(map(str, words))}\n".encode())


def handle(messages, _context):
    """Handle until the file that the body names is there."""
    for message in messages:
        say("begins", message.queue_offset, os.getpid())
        while not Path(message.body.decode()).exists():
            time.sleep(0.01)
        say("ended", message.queue_offset)
    return Ack()


def settings():
    executor = "process" if WAY == "processes" else "thread"
    return ConsumerConfig(
        consume_from="first",
        order="key",
        executor=executor,
        commit_interval=3600,
        close_timeout=CLOSE_TIMEOUT,
    )


def consumer(group):
    return patient_consumer(group, handle, namesrv=NAMESRV, config=settings()).subscribe(TOPIC)


def tell_when_held(consumers):
    """Print "ready" once every consumer has all queues, and "closing" when the first closes.

    Where a wait replaces the handlers of signals, it has begun by then.
    """
    hears = WAY not in {"own", "off", "loop"}

    def look():
        while not all(len(each.assignment) == QUEUES for each in consumers):
            time.sleep(0.01)
        while hears and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            time.sleep(0.01)
        say("ready")
        while consumers[0].state == "running":
            time.sleep(0.01)
        say("closing")

    threading.Thread(target=look, daemon=True).start()


def note(number, _frame=None):
    say("mine", signal.Signals(number).name)


def handlers():
    numbers = (signal.SIGTERM, signal.SIGINT)
    return [signal.getsignal(number) for number in numbers]


def wait(consumers):
    """In the main thread, in the first alone; or each in a thread of its own besides."""
    if WAY == "each":
        for each in consumers[1:]:
            threading.Thread(target=lambda each=each: say("waited", each.wait())).start()
    say("waited", consumers[0].wait(signals=WAY != "off"))


def with_wait(consumers):
    before = handlers()
    for each in consumers:
        each.start()
    tell_when_held(consumers)
    wait(consumers)
    say("put back", handlers() == before)


async def with_run(consumers):
    before = handlers()
    if WAY == "loop":
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: note(signal.SIGTERM))
        before = handlers()
    tell_when_held(consumers)
    tasks = [asyncio.create_task(each.run()) for each in consumers]
    if WAY == "loop":
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.05)
            if consumers[0].state == "running":
                assert handlers()[0] == before[0]
    await asyncio.gather(*tasks)
    say("put back", handlers() == before)


def main():
    consumers = [consumer(group) for group in GROUPS]
    if WAY == "own":
        signal.signal(signal.SIGTERM, note)
    if WAY in ("run", "loop"):
        asyncio.run(with_run(consumers))
    elif WAY == "bare run":
        tell_when_held(consumers)
        asyncio.run(consumers[0].run())
    else:
        with_wait(consumers)
    say("states", *[each.state for each in consumers])


if __name__ == "__main__":
    main()
