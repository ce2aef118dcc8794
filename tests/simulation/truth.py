"""What is really so: the cluster's own tables, and what has been finished; no client can see it."""

from collections import defaultdict
from dataclasses import replace

from orderly import MessageQueue
from orderly.protocol.java_string import java_string_hash
from orderly.protocol.properties import INNER_NUM
from orderly.protocol.send import decode_batch, encode_batch
from orderly.protocol.stored_message import SysFlag, decode_messages
from orderly.testing.fake.state import LOCK_LEASE
from tests.simulation.threads import EPOCH

TOPIC, GROUP = "orders", "shipping"
BROKE_DOWN = "broke down"  # the kind of a violation: background work raised
WANTED, UNWANTED = "paid", "open"  # tags; the group subscribes to the first
_WANTED_CODE = java_string_hash(WANTED)


_MEMBERS = 300  # of a forged batch: it claims more offsets than any queue gets


def forged(message):
    """A message as a hostile sender's: it says that it is a batch, and claims offsets of others."""
    return replace(
        message,
        body=encode_batch([(message.body, f"TAGS\x01{WANTED}\x02", 0)] * _MEMBERS),
        properties={**message.properties, INNER_NUM: str(_MEMBERS)},
        sys_flag=SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP,
    )


def number_of(message):
    """Which one its producer sent; its body says so, a forged batch's in each member's."""
    body = message.raw_body
    return int(body if body.isdigit() else decode_batch(body)[0].body)


def _read(data, queue, offset):
    (message,) = decode_messages(data, queue.broker_name, end=offset + 1)
    return message


class Broken(AssertionError):
    """A promise was broken; `kind` says which, in a word or two."""

    def __init__(self, kind, text):
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class Truth:
    """Reads the cluster.

    Attributes:
        finished: by queue, the offsets that a handler is done with, or that are dead letters.
        skipped: by queue, the offsets that an operator passed over, or dropped.
        start: by queue, where the group began; what is below was never for it.
        passed: whether a message need not be handled; set by `repeats.Repeats`.
        covered: whether a message waits in the park queue; set by `parked.ParkedKeys`.
        unsure: queues whose offset was reset while other things went wrong, until somebody commits:
            a broker tells one pull only, which may be a former owner's or get lost; the offset then
            stays as it is.
    """

    def __init__(self, kernel, cluster):
        self._kernel = kernel
        self.cluster = cluster
        self.finished = defaultdict(set)
        self.skipped = defaultdict(set)
        self.start = defaultdict(int)
        self.unsure = set()
        self.covered = self.passed = lambda queue, offset: False
        self._messages = {}
        self._deleted = []

    def queues(self):
        """All queues of the topic."""
        for name, state in sorted(self.cluster.brokers.items()):
            config = state.topics.get(TOPIC)
            for queue_id in range(config.read_queues if config else 0):
                yield MessageQueue(TOPIC, name, queue_id)

    def names(self):
        """All queues of the topic, also while it is deleted."""
        return list(self.queues()) or self._deleted

    @property
    def exists(self):
        """Whether the topic is there."""
        return any(state.topics.get(TOPIC) for state in self.cluster.brokers.values())

    def archive(self, former, messages):
        """The topic is deleted: what is known of its queues has a name of the past from now on.

        Args:
            former: that name, by queue.
            messages: of each, by that name.
        """
        self._deleted = list(former)
        self._messages = {place: m for place, m in self._messages.items() if place[0] not in former}
        for queue, past in former.items():
            for message in messages[past]:
                self._messages[past, message.queue_offset] = message
            for table in (self.finished, self.skipped):
                table[past] = table.pop(queue, set())
            self.start[past] = self.start.pop(queue, 0)
        self.unsure -= former.keys()

    def forget(self, queue, end):
        """A queue has lost its messages from an offset on."""
        kept = {p: m for p, m in self._messages.items() if p[0] != queue or p[1] < end}
        self._messages = kept

    def owner(self, queue):
        """The client whose lock of the queue is in force, or None."""
        locks = self.cluster.brokers[queue.broker_name].locks
        owner, since = locks.owner(GROUP, queue)
        return owner if EPOCH + self._kernel.now - since <= LOCK_LEASE else None

    def lease(self, queue):
        """The client that was granted the queue last, and until when that is in force."""
        locks = self.cluster.brokers[queue.broker_name].locks
        owner, since = locks.owner(GROUP, queue)
        return owner, since - EPOCH + LOCK_LEASE

    def log(self, queue):
        """The queue's log."""
        return self.cluster.brokers[queue.broker_name].store.log(TOPIC, queue.queue_id)

    def stored(self, queue):
        """The group's committed offset; 0 if there is none."""
        offsets = self.cluster.brokers[queue.broker_name].offsets
        return offsets.stored(GROUP, TOPIC, queue.queue_id) or 0

    def has_stored(self, queue):
        """Whether the broker has an offset of the group."""
        offsets = self.cluster.brokers[queue.broker_name].offsets
        return offsets.stored(GROUP, TOPIC, queue.queue_id) is not None

    def reset_waits(self, queue):
        """Whether the offset was reset, and no pull was told so yet: commits are ignored."""
        offsets = self.cluster.brokers[queue.broker_name].offsets
        return (GROUP, TOPIC, queue.queue_id) in offsets._resets

    def wanted(self, queue, offset):
        """Whether the group subscribes to the message."""
        if queue.topic != TOPIC:
            return self._messages[queue, offset].tags == WANTED
        return self.log(queue).entry(offset).tag_code == _WANTED_CODE

    def message(self, queue, offset):
        """A message, as stored."""
        place = queue, offset
        if place not in self._messages:
            data = self.log(queue).entry(offset).data
            self._messages[place] = _read(data, queue, offset)
        return self._messages[place]

    def key(self, queue, offset):
        """The key of a message."""
        return self.message(queue, offset).sharding_key

    def unsettled(self, queue, end):
        """The offsets below `end` that are neither finished nor parked, and must be."""
        return [o for o in self.unfinished(queue, end) if not self.covered(queue, o)]

    def unfinished(self, queue, end):
        """The offsets below `end` that must be finished and are not."""
        rest = set(range(self.start[queue], end)) - self.finished[queue] - self.skipped[queue]
        rest = sorted(offset for offset in rest if self.wanted(queue, offset))
        return [offset for offset in rest if not self.passed(queue, offset)]

    def consumed(self, queue):
        """Whether all of the queue is finished, and committed."""
        end = self.log(queue).max_offset
        committed = self.stored(queue) == end or queue in self.unsure
        return committed and not self.unfinished(queue, end)

    def messages(self, queue):
        """The queue's messages, as stored."""
        log = self.log(queue)
        return [_read(log.entry(offset).data, queue, offset) for offset in range(log.max_offset)]
