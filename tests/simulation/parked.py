"""Which keys are parked, by the records that count, and what is in the park queues.

A message is *covered* while its key is parked on record, from its offset on or from one before, and
a copy of it is where that says: then the committed offset may pass it, and nobody handles it but a
release. Told by the ledger of state records, by the witness of what is stored in park queues.
"""

from collections import Counter, defaultdict
from dataclasses import replace

from orderly import MessageQueue
from orderly.errors import ProtocolError
from orderly.ordering.topic_names import park_topic
from orderly.protocol.park_record import Command, Parked, Released, Result, Verb, read_park
from orderly.protocol.stored_message import decode_messages
from tests.simulation.truth import GROUP, TOPIC, Broken

PARK = park_topic(GROUP, TOPIC)


def park_queue(queue):
    """Where messages of a queue are parked."""
    return MessageQueue(PARK, queue.broker_name, queue.queue_id)


class ParkedKeys:
    """Told by the ledger and the witness.

    Args:
        world: has `truth`, `witness` and `note`.

    Attributes:
        unheard: (queue, offset) of messages without a place in the order: those that were dropped
            before anybody had handled them, dead letters before or out of their turn, and what was
            passed over and comes after all.
    """

    def __init__(self, world):
        self._world = world
        self._truth = world.truth
        self._keys = defaultdict(dict)  # by queue: what is on record of each parked key
        self._latest = defaultdict(dict)  # the same, also of keys that are not parked any more
        self._parts = {}  # by queue and owner, of a state in several records
        self._copies = defaultdict(lambda: defaultdict(list))  # by queue and offset: positions
        self._commands = defaultdict(dict)  # by queue: position and command, by id
        self._tombstones = defaultdict(dict)  # by queue and offset: the position of the last one
        self._releases = Counter()  # by queue and key
        self._waited = defaultdict(list)  # by queue: offsets that waited before the last change
        self.unheard = set()
        self._truth.covered = self.covers

    # --- what is so ----------------------------------------------------------------------------

    def keys(self, queue):
        """The keys that are parked, by the record."""
        return sorted(self._keys[queue])

    def covers(self, queue, offset):
        """Whether a message waits in the park queue, on record."""
        parked = self._keys[queue].get(self._truth.key(queue, offset))
        if parked is None or offset < parked.next:
            return False
        first = max(parked.at, self._tombstones[queue].get(offset, 0))
        return any(position >= first for position in self._copies[queue].get(offset, ()))

    def copied(self, queue):
        """The offsets of which somebody has stored a copy."""
        return set(self._copies[queue])

    def has_copy(self, queue, offset):
        """Whether somebody has stored a copy of a message, on record or not."""
        return offset in self._copies[queue]

    def floors(self, queue):
        """By key, the lowest message that waits."""
        if not self._keys[queue]:
            return {}
        return {self._truth.key(queue, o): o for o in sorted(self._waiting(queue), reverse=True)}

    def _waiting(self, queue):
        return [offset for offset in self._copies[queue] if self.covers(queue, offset)]

    def releases(self, queue, key):
        """How often a key was to be released."""
        return self._releases[queue, key]

    def open_commands(self, queue):
        """(position, command) of those without a final result."""
        return list(self._commands[queue].values())

    # --- what is written -----------------------------------------------------------------------

    def recorded(self, queue, entry):
        """An entry that counts was stored; returns whether the parked keys changed."""
        before = self._keys[queue]
        after = self._after(queue, before, entry)
        if after is None or after == before:
            return False
        for parked in after.values():
            self._check_count(queue, parked, entry.generation)
        self._waited[queue] = self._waiting(queue)
        self._keys[queue] = after
        self._latest[queue] |= after
        return True

    def pass_over(self, process, queue, claimed):
        """Of what an owner claims, note what waits no more because an operator dropped its key.

        Also what only a former owner has finished, and not put on record: it has come again.
        """
        for offset in sorted(self._copies[queue].keys() & claimed):
            settled = self._truth.finished[queue] | self._truth.skipped[queue]
            parked = self._latest[queue].get(self._truth.key(queue, offset))
            if self.covers(queue, offset) or parked is None:
                continue
            again = offset in self._waited[queue]
            again = again and not self._world.witness.has_finished(process, (queue, offset))
            if (again or offset not in settled) and self._is_dropped(queue, parked):
                self._drop(queue, offset)
        self._waited[queue] = ()

    def _drop(self, queue, offset):
        """An operator says that a message is done with."""
        if offset not in self._truth.finished[queue]:
            self._truth.skipped[queue].add(offset)
        witness = self._world.witness
        delivery = witness.latest.get((queue, offset))
        if delivery is None:
            self.unheard.add((queue, offset))
        else:
            delivery.success = True
            # In its turn: its key goes on behind it.
            witness.events.append(replace(delivery, ended=len(witness.events)))

    def _after(self, queue, before, entry):
        """The keys after an entry; None: more parts of it follow."""
        told = {parked.key: parked for parked in entry.parked}
        if not entry.chunks:
            kept = {key: parked for key, parked in before.items() if key not in entry.released}
            return kept | told
        place = queue, entry.token
        self._parts[place] = told if entry.chunk == 0 else self._parts.get(place, {}) | told
        return self._parts.pop(place) if entry.complete else None

    def _is_dropped(self, queue, parked):
        """Whether an operator asked for that, after the key was parked."""
        return any(
            command.verb is Verb.DROP and command.key == parked.key and position >= parked.at
            for position, command in self.open_commands(queue)
        )

    def stored(self, member, broker, queue_id, position):
        """Something was stored in a park queue; `member` is None if it was not by a member."""
        queue = MessageQueue(TOPIC, broker, queue_id)
        log = self._truth.cluster.brokers[broker].store.log(PARK, queue_id)
        (stored,) = decode_messages(log.entry(position).data, broker)
        try:
            record = read_park(stored)
        except ProtocolError as error:
            raise Broken("record", f"what is sent to the park topic is none: {error}") from error
        who = member or "operator"
        match record:
            case Parked():
                self._world.happened["parked"] += 1
                self._world.note(who, "parks", record.offset, "of", queue, "at", position)
                self._copies[queue][record.offset].append(position)
                self._check_copy(queue, record)
                return record
            case Command():
                self._releases[queue, record.key] += record.verb is Verb.RELEASE
                self._commands[queue].setdefault(record.id, (position, record))
            case Released():
                for offset in self._copies[queue]:
                    if offset < record.below and self._truth.key(queue, offset) == record.key:
                        self._tombstones[queue][offset] = position
            case Result(reason=reason) if reason and "deleted" in reason:
                raise Broken("false alarm", f"{record}, and nothing was deleted")
            case Result() if record.done:
                _, command = self._commands[queue].pop(record.id, (None, None))
                if command is not None and command.verb is Verb.ADD and record.settled:
                    self._check_added(queue, command)
        self._world.note(who, "writes", record, "at", position, "of", queue)
        return None

    def _check_added(self, queue, command):
        """Who asks for a key to be parked is told so only when that is on record."""
        self._world.happened["added"] += 1
        if command.key not in self._latest[queue]:
            raise Broken("added", f"{command} is answered, and nothing is parked in {queue}")

    def _check_count(self, queue, parked, generation):
        """No more messages are on record than were parked: else a loss is told that is none."""
        copies = (o for o in self._copies[queue] if self._truth.key(queue, o) == parked.key)
        count = sum(offset >= parked.next for offset in copies)
        if parked.generation == generation and parked.messages > count:
            raise Broken("parked count", f"{parked} of {queue}, and {count} are parked")

    def _check_copy(self, queue, parked):
        """What is parked is what is in the queue, under its own key."""
        original = self._truth.message(queue, parked.offset)
        told = parked.original
        same = (told.raw_body, told.queue, told.message_id) == (
            original.raw_body,
            original.queue,
            original.message_id,
        )
        if not same or parked.key != original.sharding_key:
            raise Broken("parked copy", f"{parked} is not {original}")

    # --- what is handled -----------------------------------------------------------------------

    def check_live(self, member, queue, offset):
        """A message of the queue is handled: no earlier one of its key waits in the park queue."""
        floor = self.floors(queue).get(self._truth.key(queue, offset))
        if floor is None:
            return
        unfinished = (o for o in range(floor, offset) if self.covers(queue, o))
        for earlier in unfinished:
            same = self._truth.key(queue, earlier) == self._truth.key(queue, offset)
            if same and earlier not in self._truth.finished[queue]:
                text = f"{member}: {offset} of {queue}, while {earlier} of its key is parked"
                raise Broken("handled while parked", text)

    def check_replayed(self, member, queue, offset):
        """A parked message is handled: it is parked, on record."""
        if not self.covers(queue, offset):
            text = f"{member}: {offset} of {queue} is replayed, and not parked on record"
            raise Broken("replayed", text)
