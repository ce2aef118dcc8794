"""Somebody who may write to a group's state and park topics, and read them, and forges records.

It has no secret of the group, and appends: what it makes up, what it has read there before, and
what lies in other queues. It knows the formats as well as the library does.
"""

from dataclasses import replace

from orderly.errors import ProtocolError
from orderly.protocol.park_record import (
    Command,
    ParkDetails,
    Released,
    Result,
    Verb,
    control_message,
    park_message,
)
from orderly.protocol.state_record import (
    Acquire,
    Confirm,
    Entry,
    Trying,
    decode_record,
    encode_record,
)
from orderly.protocol.stored_message import decode_messages
from orderly.testing.fake.store import NewMessage
from tests.simulation.ledger import STATE
from tests.simulation.parked import PARK
from tests.simulation.scenario import FORGERIES
from tests.simulation.threads import EPOCH

_FAR = 1_000_000  # an offset beyond all that is sent


class Forger:
    """Each of `scenario.FORGERIES` is a method, which returns (topic, properties, body)s.

    A fourth, where there is one, holds other fields of the stored message.

    Args:
        world: has `kernel`, `cluster`, `truth`, `happened` and `note`.
    """

    def __init__(self, world):
        self._world = world
        self._truth = world.truth
        self._random = world.kernel.random

    def strike(self, code):
        """Append records of one kind to the records of a queue."""
        queues = list(self._truth.queues())
        if not queues or not all(s.topics.get(STATE) for s in self._world.cluster.brokers.values()):
            return
        queue, kind = self._random.choice(queues), FORGERIES[code]
        for topic, properties, body, *head in getattr(self, "_" + kind.replace(" ", "_"))(queue):
            forged = NewMessage(
                topic=topic,
                queue_id=queue.queue_id,
                body=body,
                properties=properties,
                born_time=EPOCH + self._world.kernel.now,
                born_host="10.0.6.6:6666",
                **(head[0] if head else {}),
            )
            store = self._world.cluster.brokers[queue.broker_name].store
            placed = store.put(forged, EPOCH + self._world.kernel.now)
            self._world.note("forger", f"appends a {kind} at", placed.queue_offset, "of", queue)
            self._world.happened["forged"] += 1

    # --- what there is -------------------------------------------------------------------------

    def _stored(self, topic, queue):
        log = self._world.cluster.brokers[queue.broker_name].store.log(topic, queue.queue_id)
        places = range(log.min_offset, log.max_offset)
        return [decode_messages(log.entry(at).data, queue.broker_name)[0] for at in places]

    def _entries(self, queue):
        """(message, entry) of the state, the newest last."""
        found = []
        for message in self._stored(STATE, queue):
            try:
                record = decode_record(message.raw_body)
            except ProtocolError:
                continue
            if isinstance(record, Entry):
                found.append((message, record))
        return found

    def _some_key(self, queue):
        offsets = range(self._truth.log(queue).max_offset)
        keys = {self._truth.key(queue, offset) for offset in offsets} - {None}
        return self._random.choice(sorted(keys) or ["k0.0"])

    def _copied(self, topic, messages, count=1):
        chosen = [self._random.choice(messages) for _ in range(count if messages else 0)]
        return [(topic, dict(message.properties), message.raw_body) for message in chosen]

    # --- genuine, and not meant for here and now -----------------------------------------------

    def _state_again(self, queue):
        return self._copied(STATE, self._stored(STATE, queue), 2)

    def _park_again(self, queue):
        """One as it is, and one with another head, which no seal covers."""
        head = {"flag": 99, "sys_flag": 0x701}
        first, *others = self._copied(PARK, self._stored(PARK, queue), 2) or [()]
        return [first, *((*each, head) for each in others)] if first else []

    def _another_queues(self, queue):
        """Records of other queues, and of the other topic of this one."""
        topic, other = self._random.sample([STATE, PARK], 2)
        places = [(topic, each) for each in self._truth.queues() if each != queue]
        newest = self._stored(*self._random.choice([(other, queue), *places, *places]))
        return [
            (topic, dict(message.properties), message.raw_body)
            for message in newest[-self._random.choice([1, 2, 3]) :]
        ]

    # --- made up -------------------------------------------------------------------------------

    def _changed_entry(self, queue):
        """The newest entry, changed to say that all is finished, and nothing parked."""
        entries = self._entries(queue)
        if not entries:
            return []
        message, entry = entries[-1]
        lie = replace(
            entry,
            number=entry.number + self._random.choice([0, 1, 100]),
            previous=message.queue_offset,
            runs=((entry.low + 1, _FAR),) if self._random.random() < 0.7 else (),
            chunk=0,
            chunks=self._random.choice([0, 1]),
            parked=(),
            released=tuple(parked.key for _, each in entries for parked in each.parked),
            commands=self._random.choice([entry.commands, _FAR]),
            closed=self._random.random() < 0.3,
        )
        if lie.chunks:
            lie = replace(lie, released=())
        return [(STATE, dict(message.properties), encode_record(lie))]

    def _takeover(self, queue):
        """Somebody takes the queue without its lock, or says so of a token to come."""
        log = self._world.cluster.brokers[queue.broker_name].store.log(STATE, queue.queue_id)
        token = self._random.choice([log.max_offset, log.max_offset, _FAR])
        records = [Acquire("forger"), Confirm("forger", token)]
        low = self._truth.stored(queue)
        lie = Entry(
            owner="forger",
            token=token,
            number=1,
            previous=log.max_offset + 1,
            epoch=9,
            low=low,
            previous_low=low,
            runs=((low + 1, _FAR),),
            chunks=1,
        )
        records += [lie] if self._random.random() < 0.7 else []
        records += [Trying("forger", token, low)] if self._random.random() < 0.3 else []
        return [(STATE, {"TAGS": "entry"}, encode_record(record)) for record in records]

    def _damage(self, queue):
        """Bytes that are no record, a damaged one, and one of a release to come."""
        topic = self._random.choice([STATE, PARK])
        found = self._copied(topic, self._stored(topic, queue)) or [(topic, {}, b"")]
        _, properties, body = found[0]
        at = self._random.randrange(len(body) + 1)
        bodies = [b"\xff\x00", body[:at] + b"?" + body[at + 1 :]]
        if topic == STATE:
            bodies.append(b"orderly-state 7 ")
        return [(topic, properties, self._random.choice(bodies))]

    def _parked_message(self, queue):
        """A message that was never sent, as one that is parked: handlers would be given it."""
        end = self._truth.log(queue).max_offset
        if not end:
            return []
        original = self._truth.message(queue, self._random.randrange(end))
        if original.sharding_key is None:
            return []
        details = ParkDetails(
            key=original.sharding_key,
            reason="forged",
            attempts=1,
            parked_at=EPOCH + self._world.kernel.now,
            token=_FAR,
        )
        offset = self._random.choice([original.queue_offset, _FAR])
        made = park_message(original.changed(queue_offset=offset), details)
        return [(PARK, made.properties, made.body)]

    def _line(self, queue):
        """A command, a result or a tombstone."""
        key, at_ms = self._some_key(queue), int((EPOCH + self._world.kernel.now) * 1000)
        verb = self._random.choice([Verb.DROP, Verb.DROP, Verb.RELEASE, Verb.ADD])
        ids = [f"command-{number}" for number in range(9)]
        record = self._random.choice(
            [
                Command("forged", verb, key, "forger", at_ms),
                Command("forged", Verb.DROP, key, "forger", at_ms),
                Result(self._random.choice(ids), done=True),
                Released(key, _FAR, _FAR),
            ]
        )
        made = control_message(record)
        return [(PARK, made.properties, made.body)]
