"""Traffic for fault tests: a writer that never stops, members, and the verdict on all of it."""

import math
import threading
import time
from dataclasses import replace
from functools import partial
from zlib import crc32

from orderly import (
    Client,
    ConsumeResult,
    Message,
    MessageQueue,
    OrderlyConsumer,
    OrderlyProducer,
    ProducerConfig,
)
from orderly.consumer.hooks import ConsumerHooks
from orderly.errors import NameServerUnavailable, OrderlyError, RouteError
from orderly.monitoring.parked import ParkedMessages
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.offsets import QueryConsumerOffset
from orderly.testing import Delivered, Sent, judge
from tests.support.accounts import BAD, DEADLY
from tests.support.brokers import client_config, consumer_config, join
from tests.support.members import MemberProcess
from tests.support.waiting import eventually

# --- commit watch ---------------------------------------------------------------------------------
# What offsets the broker held during a test, asked for behind the faults' back, and judged.


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
        """Commits that went back, or past a message that a handler finished only later.

        What no handler ever got is a copy that was left out, or the oracle says that it is lost.
        """
        finished = _finished_by(events)
        found, highest = [], {}
        for when, queue, offset in self.samples:
            if offset < highest.get(queue, 0):
                found.append(f"queue {queue}: {highest[queue]} -> {offset}")
            highest[queue] = offset
            done = finished.get(queue, [math.inf])
            if offset and done[min(offset, len(done)) - 1] > when:
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
        latest = max(latest, by_offset.get(offset, latest))
        found.append(latest)
    return found


# --- traffic --------------------------------------------------------------------------------------
# Traffic for fault tests: a writer that never stops, members, and the verdict on all of it.
#
# Everything is recorded: acknowledged sends, deliveries, and the offsets the broker holds.


KEYS = [f"k{i}" for i in range(50)]


def by_id(queue):
    """How records name a queue where there is one broker."""
    return queue.queue_id


class Writer:
    """Sends numbered messages of KEYS in turn until told to stop; patient with a broken broker.

    Args:
        namesrv, topic: where to.
        pause: seconds between two messages.
        place: how its records name a queue.
        send_timeout: seconds until an attempt is given up and made again, stored or not.
    """

    def __init__(self, namesrv, topic, pause=0.001, place=by_id, send_timeout=3.0):
        self.sent = []
        self._place = place
        self._topic, self._pause = topic, pause
        config = ProducerConfig(
            retries=200, retry_backoff=0.1, delivery_timeout=120, send_timeout=send_timeout
        )
        self._producer = OrderlyProducer(namesrv=namesrv, config=config)
        self._stop = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self):
        self._thread.start()

    def stop(self):
        """Send no more."""
        self._stop.set()

    def finish(self):
        """Stop, and wait until every send was acknowledged; raises if one was not."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self):
        try:
            with self._producer as producer:
                futures = []
                while not self._stop.wait(self._pause):
                    key = KEYS[len(futures) % len(KEYS)]
                    message = Message(self._topic, b"%d" % len(futures), sharding_key=key)
                    try:
                        futures.append((key, producer.submit(message)))
                    except (RouteError, NameServerUnavailable):
                        # A master is down, or the machine is slow: nothing was taken over.
                        self._stop.wait(0.1)
                self.sent = [self._sent(key, future.result(120)) for key, future in futures]
        except Exception as error:
            self._failure = error

    def _sent(self, key, result):
        return Sent(key, result.message_id, self._place(result.queue), result.queue_offset)


class Traffic:
    """A writer and members, in this process or others, on a topic with 8 queues.

    Args:
        broker: the real one, whose commits are judged; None: none are.
        namesrv: where clients ask (the broker's own, or a proxy's).
        lease: of the broker, seconds.
        group, topic: names; the topic exists.
        members: how many in this process.
        pause: seconds between two messages sent.
        place: how records name a queue: by its id, where there is one broker.
        settings: of the members in this process: `order` is "queue" or "key".
        send_timeout: of the writer.

    Attributes:
        lost: places of queues whose lock was lost, as the members in this process were told.
    """

    def __init__(
        self,
        broker,
        namesrv,
        lease,
        group,
        topic,
        *,
        members=2,
        pause=0.001,
        place=by_id,
        send_timeout=3.0,
        **settings,
    ):
        self.topic, self.group, self._lease, self._namesrv = topic, group, lease, namesrv
        self.events, self.consumers, self.processes, self._clients = [], [], [], []
        self.lost = []
        self._members, self._place, self._settings = members, place, settings
        self.writer = Writer(namesrv, topic, pause, place, send_timeout)
        watched = [broker.broker_address] if broker is not None else []
        self.commits = [CommitWatch(address, group, topic, 8) for address in watched]

    def __enter__(self):
        for _ in range(self._members):
            self.join()
        self.writer.start()
        for watch in self.commits:
            watch.start()
        return self

    def __exit__(self, *_):
        self.writer.stop()
        self._end_watches()
        for part in (*self.consumers, *self._clients, *self.processes):
            part.close()

    def join(self, namesrv=""):
        """Start another member in this process; `namesrv`: if it asks elsewhere."""
        client = Client(client_config(self._lease, namesrv or self._namesrv))
        self._clients.append(client)
        hooks = ConsumerHooks(lost=lambda queues: self.lost.extend(map(self._place, queues)))
        config = consumer_config(self._lease, **self._settings)
        new = partial(
            OrderlyConsumer, self.group, self._handle, client=client, config=config, hooks=hooks
        )
        self.consumers.append(join(new, self.topic))
        return self.consumers[-1]

    def join_process(self, kind=MemberProcess, **settings):
        """Start another member in a process of its own; see `MemberProcess`."""
        process = kind(self._namesrv, self.group, self.topic, lease=self._lease, **settings)
        self.processes.append(process)
        return process

    def settled(self, members):
        """Whether these member processes share all queues, each with at least one."""
        held = [queue for member in members for queue in member.held]
        return sorted(held) == list(range(8)) and all(member.held for member in members)

    def goes_on(self, messages=1000, within=60):
        """Wait until so many more messages were delivered."""
        goal = self._count() + messages
        eventually(lambda: self._count() >= goal, within, every=0.05)

    def finish(self, within=60):
        """Stop writing and wait until all that was acknowledged was delivered."""
        self.writer.finish()
        sent = {record.id for record in self.writer.sent}
        try:
            eventually(lambda: sent <= {event.id for event in self.deliveries()}, within, every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.judged()}") from error
        self._end_watches()

    def verdict(self, within=60):
        """Finish; returns what the oracle says, and the commits that were wrong."""
        self.finish(within)
        return self.judged(), self.wrong_commits()

    def ends_well(self, within=60):
        """Finish; fails unless all was in order and each commit right. Returns the verdict."""
        verdict, wrong_commits = self.verdict(within)
        assert verdict.ok, verdict
        assert not wrong_commits
        return verdict

    def judged(self, without=()):
        """What the oracle says of all deliveries but those; by key a lane is its queue."""
        sent, events = self.writer.sent, [e for e in self.deliveries() if e not in without]
        if self._settings.get("order") == "key":
            sent, events = map(_by_lane, (sent, events))
        return judge(sent, events)

    def wrong_commits(self):
        """Commits that went back, or past what was finished by then."""
        return [wrong for watch in self.commits for wrong in watch.violations(self.deliveries())]

    def deliveries(self):
        """All of them, in the order in which they began."""
        of_processes = [event for process in self.processes for event in list(process.events)]
        return sorted([*self.events, *of_processes], key=lambda event: event.started)

    def _count(self):
        """How many deliveries there are: asked again and again, also of many."""
        return len(self.events) + sum(len(process.events) for process in self.processes)

    def _end_watches(self):
        for watch in self.commits:
            watch.finish()

    def _handle(self, messages, context):
        started = time.monotonic()
        for m in messages:
            place = (m.sharding_key, m.message_id, self._place(m.queue), m.queue_offset)
            self.events.append(Delivered(*place, started=started, ended=time.monotonic()))
        return ConsumeResult.SUCCESS


def _by_lane(records):
    return [replace(record, queue=(record.queue, record.key)) for record in records]


# --- trouble --------------------------------------------------------------------------------------
# Messages that are bad, or end the process, until the fix is deployed; an operator who releases.
#
# Both are for runs in which members are killed: what fails there is counted and tried again.


AHEAD = 100  # messages: so far behind what was tried is the next killer


class Trouble:
    """What `Accounts.trouble` asks.

    Args:
        share: of all messages, those that are bad.

    Attributes:
        cured: numbers below it are no trouble any more.
        newest: the highest number that was tried.
        killers: numbers that end the process, in the order in which they were laid.
    """

    def __init__(self, share):
        self.cured, self.newest, self.killers = 0, -1, []
        self._share = share

    def __call__(self, number):
        self.newest = max(self.newest, number)
        if number < self.cured:
            return None
        if number in self.killers:
            return DEADLY
        return BAD if crc32(b"%d" % number) < self._share * 2**32 else None

    @property
    def deadly(self):
        """Keys with a killer that is not cured."""
        return {KEYS[n % len(KEYS)] for n in self.killers if n >= self.cured}

    def lay_killer(self, keys):
        """Let a message of one of these keys, not sent or tried yet, end its process."""
        number = self.newest + AHEAD
        while KEYS[number % len(KEYS)] not in keys:
            number += 1
        self.killers.append(number)

    def cure(self, *, all_to_come=False):
        """Deploy the fix: for what was tried so far, or for good."""
        self.cured = math.inf if all_to_come else self.newest + 1


class Operator:
    """Deploys fixes and releases parked keys, with or without the fix, until told to stop.

    Args:
        namesrv, group, topic: whose keys.
        accounts: whose `trouble`, a Trouble, it cures.
        chance: a `random.Random` of its own.
        killers: how many messages that end their process it lays, one after the other.
        patience: seconds without a word of a queue's owner.

    Attributes:
        outcomes: of all commands that were answered.
        unanswered: how many were not: they stay, and are carried out later.
    """

    def __init__(self, namesrv, group, topic, accounts, chance, *, killers=0, patience=10.0):
        self.outcomes, self.unanswered = [], 0
        self._client = Client(namesrv=namesrv).start()
        self._parked = ParkedMessages(self._client, group, topic)
        self._accounts, self._trouble, self._chance = accounts, accounts.trouble, chance
        self._killers, self._patience = killers, patience
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)

    def start(self):
        self._thread.start()

    def finish(self, done, stalled):
        """Cure everything and release all keys until `done()`, or until `stalled()`."""
        self._end()
        self._trouble.cure(all_to_come=True)
        while ((keys := self.keys()) or not done()) and not stalled():
            for key in sorted(keys):
                self.release(key)
            time.sleep(0.2)

    def close(self):
        """Stop; idempotent."""
        self._end()
        self._client.close()

    def keys(self):
        """What is parked, as far as that can be read."""
        try:
            found = self._parked.keys()
        except OrderlyError:
            return set()
        return {key for _, key in found}

    def release(self, key):
        """Release a key and wait for what comes of it."""
        try:
            self.outcomes += self._parked.release(key, patience=self._patience)
        except OrderlyError:
            self.unanswered += 1

    def _end(self):
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        while not self._stop.wait(self._chance.uniform(0.2, 1.0)):
            parked = self.keys()
            found = self._trouble.deadly <= parked
            if found and self._chance.random() < 0.5:
                self._trouble.cure()
            if found and not self._trouble.deadly and len(self._trouble.killers) < self._killers:
                self._trouble.lay_killer(set(KEYS) - parked - self._accounts.frozen)
            if parked:
                self.release(self._chance.choice(sorted(parked)))
