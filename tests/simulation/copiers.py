"""Copies that a broker stores: a late attempt of a send, and what a program sends again.

A producer's earlier or later attempt can come at any time, as long as it lies in a socket. So a
history need not wait until that happens to a simulated producer: some first attempts count as
lost, so that what is stored is a second one, and the others come as faults say.
"""

import random
from collections import defaultdict
from zlib import crc32

from orderly.ordering.repeats import is_marked
from orderly.protocol.moments import milliseconds_of
from orderly.protocol.properties import ATTEMPT, mark
from orderly.testing.fake.store import NewMessage
from tests.simulation.threads import EPOCH
from tests.simulation.truth import TOPIC, number_of

OTHERS = "10.0.7.7:7777"  # where a program that sends messages again is
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

    Attributes:
        numbers_lost: (key, number) of messages that a broker has lost.
    """

    def __init__(self, world, stores):
        self._world = world
        self._stores = stores
        self._random = random.Random(f"copies {world.scenario.seed}")
        self._lost = defaultdict(list)  # by queue: its messages that a broker has lost
        self.numbers_lost = set()

    def lost(self, queue, messages):
        """A broker has lost messages: other attempts of them may still come."""
        self._lost[queue] += messages
        self.numbers_lost |= {(each.sharding_key, number_of(each)) for each in messages}

    def late(self):
        """Another attempt of a send comes: the first one, if what is stored is a later one."""
        if (chosen := self._chosen()) is None or chosen[1].born_host == OTHERS:
            return
        queue, message = chosen
        properties, rng = dict(message.properties), self._random
        properties.pop(ATTEMPT, None)
        if self._first_has_come(message) or rng.random() < 0.3:
            born = milliseconds_of(message.born_time)
            properties[ATTEMPT] = mark(rng.choice([2, 3]), born)
        self._world.happened["late copy"] += 1
        self._store(queue, message, properties, message.born_time, message.born_host)

    def _first_has_come(self, message):
        present = (self._world.truth.messages(queue) for queue in self._world.truth.queues())
        return any(
            each.message_id == message.message_id
            and each.born_host != OTHERS
            and not is_marked(each)
            for log in (*present, *self._world.generations.past.values(), *self._lost.values())
            for each in log
        )

    def foreign(self):
        """A program sends a message again that it got, with all that is in it but its born time."""
        if (chosen := self._chosen()) is None:
            return
        queue, message = chosen
        self._world.happened["sent again by others"] += 1
        self._store(queue, message, message.properties, EPOCH + self._world.kernel.now, OTHERS)

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
        if self._lost[queue] and rng.random() < 0.5:
            return queue, rng.choice(self._lost[queue])
        recent = logs[queue][-_RECENT:] if rng.random() < 0.7 else logs[queue]
        return queue, rng.choice(recent)

    def _store(self, queue, message, properties, born_time, born_host):
        copy = NewMessage(
            topic=TOPIC,
            queue_id=queue.queue_id,
            body=message.raw_body,
            properties=properties,
            born_time=born_time,
            born_host=born_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
        )
        placed = self._stores[queue.broker_name](copy, EPOCH + self._world.kernel.now)
        told = "attempt " + properties.get(ATTEMPT, "1")
        self._world.note(f"{told} of", message.queue_offset, "is at", placed.queue_offset, queue)
