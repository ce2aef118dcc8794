"""What offsets the broker held during a test, asked for behind the faults' back, and judged."""

import math
import threading
import time

from orderly import Client, MessageQueue
from orderly.errors import OrderlyError
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.headers import QueryConsumerOffset


class CommitWatch:
    """Asks the broker itself, not through a proxy, what offsets are committed, again and again."""

    def __init__(self, address, group, topic, queues):
        self.samples = []  # (when the answer was there, queue id, offset)
        self._address, self._group = address, group
        self._queues = [MessageQueue(topic, "broker-a", n) for n in range(queues)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="commit-watch", daemon=True)

    def start(self):
        self._thread.start()

    def finish(self):
        self._stop.set()
        self._thread.join()

    def violations(self, events):
        """Commits that went back, or past a message that no handler had finished by then."""
        finished = _finished_by(events)
        found, highest = [], {}
        for when, queue, offset in self.samples:
            if offset < highest.get(queue, 0):
                found.append(f"queue {queue}: {highest[queue]} -> {offset}")
            highest[queue] = offset
            done = finished.get(queue, ())
            if offset > len(done) or (offset and done[offset - 1] > when):
                found.append(f"queue {queue}: {offset} committed before it was finished")
        return found

    def _run(self):
        with Client(namesrv=self._address) as client:  # only its connections are used
            while not self._stop.wait(0.1):
                for queue in self._queues:
                    self._sample(client, queue)

    def _sample(self, client, queue):
        header = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False,
        )
        try:
            connection = client.connections.get(self._address)
            reply = connection.call(request(header.code, to_ext(header)), 1.0)
        except OrderlyError:  # the broker itself is down or hangs
            return
        if reply.code == 0:
            self.samples.append((time.monotonic(), queue.queue_id, int(reply.ext["offset"])))


def _finished_by(events):
    """By queue: [n] is when the last of its messages 0 … n had been finished for the first time."""
    ends = {}
    for event in events:
        of_queue = ends.setdefault(event.queue, {})
        of_queue[event.offset] = min(event.ended, of_queue.get(event.offset, math.inf))
    return {queue: _running_maximum(of_queue) for queue, of_queue in ends.items()}


def _running_maximum(by_offset):
    latest, found = 0.0, []
    for offset in range(max(by_offset) + 1):
        latest = max(latest, by_offset.get(offset, math.inf))
        found.append(latest)
    return found
