"""Copies that a broker stores: a late attempt of a send, and what a program sends again.

A producer's earlier or later attempt can come at any time, as long as it lies in a socket. So a
history need not wait until that happens to a simulated producer: some first attempts count as
lost, so that what is stored is a second one, and the others come as faults say.
"""

import random
from zlib import crc32

from orderly.protocol.moments import milliseconds_of
from orderly.protocol.properties import ATTEMPT, mark
from orderly.testing.fake.store import NewMessage
from tests.simulation.threads import EPOCH
from tests.simulation.truth import TOPIC

_RECENT = 8  # messages of a queue, of which most copies are made


def second_attempts(put, scenario, message, now):
    """Store a message; of a share it is the second attempt that comes first."""
    drawn = crc32(b"again %d %s" % (scenario.seed, message.body)) % 100
    if message.topic == TOPIC and drawn < 100 * scenario.sent_again:
        message.properties.setdefault(ATTEMPT, mark(2, milliseconds_of(message.born_time)))
    return put(message, now)


class Copier:
    """Stores copies.

    Args:
        world: has `kernel`, `cluster`, `truth`, `generations`, `happened`, `scenario` and `note`.
        stores: by broker, what stores a message as it is.
    """

    def __init__(self, world, stores):
        self._world = world
        self._stores = stores
        self._random = random.Random(f"copies {world.scenario.seed}")

    def late(self):
        """Another attempt of a send comes: the first one, if what is stored is a later one."""
        if (chosen := self._chosen()) is None:
            return
        queue, message = chosen
        properties, rng = dict(message.properties), self._random
        if properties.pop(ATTEMPT, None) is None or rng.random() < 0.3:
            properties[ATTEMPT] = mark(rng.choice([2, 3]), milliseconds_of(message.born_time))
        self._world.happened["late copy"] += 1
        self._store(queue, message, properties, message.born_time)

    def foreign(self):
        """A program sends what it got again, with all that is in it but its born time; maybe twice.

        Two of a batch, or of one millisecond, have one born time.
        """
        if (chosen := self._chosen()) is None:
            return
        queue, message = chosen
        self._world.happened["sent again by others"] += 1
        born = EPOCH + self._world.kernel.now
        for _ in range(self._random.choice([1, 1, 2])):
            self._store(queue, message, message.properties, born)

    def _chosen(self):
        """A queue and a message of it, mostly one of the last; maybe of a former topic."""
        truth, rng = self._world.truth, self._random
        logs = {queue: truth.messages(queue) for queue in truth.queues()}
        for past, messages in self._world.generations.past.items():
            for queue in logs:
                same = (queue.broker_name, queue.queue_id) == (past.broker_name, past.queue_id)
                if same and rng.random() < 0.3:
                    logs[queue] = messages
        logs = {queue: messages for queue, messages in logs.items() if messages}
        if not logs:
            return None
        queue = rng.choice(sorted(logs))
        recent = logs[queue][-_RECENT:] if rng.random() < 0.7 else logs[queue]
        return queue, rng.choice(recent)

    def _store(self, queue, message, properties, born_time):
        copy = NewMessage(
            topic=TOPIC,
            queue_id=queue.queue_id,
            body=message.raw_body,
            properties=properties,
            born_time=born_time,
            born_host=message.born_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
        )
        placed = self._stores[queue.broker_name](copy, EPOCH + self._world.kernel.now)
        told = "attempt " + properties.get(ATTEMPT, "1")
        self._world.note(f"{told} of", message.queue_offset, "is at", placed.queue_offset, queue)
