"""One member of a group, a process of its own, that says every 50 ms how far it is.

It begins paused. "go" on its standard input lets it consume, the input's end closes it. The parent
is `scale_group`; the one argument is a `Task` as JSON.
"""

import dataclasses
import itertools
import json
import logging
import os
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from orderly import Ack, ConsumerConfig, MessageQueue, OrderlyConsumer, Park, Suspend
from orderly.config import ParkLimits

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = 0.05  # seconds


@dataclass(frozen=True, slots=True)
class Task:
    """What a member does.

    Attributes:
        namesrv, group, topic: where, and as whom.
        broker: the broker's name.
        queues: of the topic.
        answer: of the handler: "done", "park", or "wait" (the key waits for a minute and more).
        config: of the consumer.
        parking: ParkLimits, if not the usual ones.
    """

    namesrv: str
    group: str
    topic: str
    broker: str
    queues: int
    answer: str = "done"
    config: dict = dataclasses.field(default_factory=dict)
    parking: dict = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sample:
    """A member at one moment.

    Attributes:
        time: seconds of a clock that all processes share.
        cpu: seconds of CPU this process has used.
        rss: bytes.
        handled: calls of the handler.
        owned: queues held before it began.
    """

    time: float
    cpu: float
    rss: int
    handled: int
    owned: int


class Calls:
    """Counts the calls of a handler, from any thread and without a lock."""

    def __init__(self):
        self._numbers = itertools.count(1)
        self._looks = 0

    def handler(self, outcome):
        """A handler that counts, and answers always the same."""
        numbers = self._numbers

        def handle(messages, context):
            next(numbers)
            return outcome

        return handle

    def number(self):
        """How many there were; one thread asks. A look takes a number, too."""
        self._looks += 1
        return next(self._numbers) - self._looks


def run(task):
    """Consume until the standard input ends."""
    outcome = {"done": Ack(), "park": Park("benchmark"), "wait": Suspend(60.0)}[task.answer]
    calls = Calls()
    config = ConsumerConfig(consume_from="first", parking=ParkLimits(**task.parking), **task.config)
    consumer = OrderlyConsumer(
        task.group, calls.handler(outcome), namesrv=task.namesrv, config=config
    ).subscribe(task.topic)
    consumer.pause(MessageQueue(task.topic, task.broker, n) for n in range(task.queues))
    going, ended = threading.Event(), threading.Event()
    owned = 0
    with consumer:
        threading.Thread(target=_obey, args=(consumer, going, ended), daemon=True).start()
        while not ended.wait(TICK):
            if not going.is_set():  # then it is time that is measured, and sorting queues takes it
                owned = len(consumer.assignment)
            _tell(Sample(time.monotonic(), time.process_time(), _rss(), calls.number(), owned))


def _obey(consumer, going, ended):
    for _ in sys.stdin:
        going.set()
        consumer.resume()
    ended.set()


def _tell(sample):
    print(json.dumps(dataclasses.asdict(sample)), flush=True)


def _rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


if __name__ == "__main__":
    logging.disable()  # each parked key is an error line
    run(Task(**json.loads(sys.argv[1])))
