"""One simulated history: real consumers and a real producer, a fake cluster, and what goes wrong.

What must hold is checked as it happens, against the cluster's own tables: the ground truth that
no client can see. `run(scenario)` returns the report of a history without a violation, and raises
`Violation` with the trace otherwise.
"""

import contextlib
import math
import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from unittest import mock

import orderly.client.client as client_module
from orderly import (
    Client,
    ClientConfig,
    ConsumerConfig,
    ConsumeResult,
    Message,
    MessageQueue,
    OrderlyConsumer,
    OrderlyProducer,
)
from orderly.errors import OrderlyError
from orderly.protocol.frame import reply_to
from orderly.protocol.headers import SendMessage, UpdateConsumerOffset, from_ext
from orderly.protocol.json_values import load_object
from orderly.protocol.properties import decode_properties
from orderly.protocol.stored_message import decode_messages
from orderly.testing.fake.cluster import NAME_SERVER, FakeCluster
from orderly.testing.fake.exchange import Outgoing
from orderly.testing.fake.locks import LEASE
from orderly.testing.oracle import Delivered, Sent, judge
from tests.simulation.kernel import Kernel, Process
from tests.simulation.network import NAMESRV, Connections, Network
from tests.simulation.scenario import COMMIT, LOCK, QUERY, QUIET, SEND, UNLOCK
from tests.simulation.threads import EPOCH, installed

TOPIC, GROUP = "orders", "shipping"
_CALM = {"kill", "close", "grow"}  # after these nothing is lost on the way
LIMIT = 900.0  # virtual seconds within which everything is consumed once the faults are over
_TRACE = 400


class Violation(AssertionError):
    """A promise was broken in a simulated history."""


@dataclass
class Running:
    """A handler at work."""

    member: object
    queue: MessageQueue
    started: float


@dataclass
class Report:
    """What happened in a history."""

    deliveries: int = 0
    duplicates: int = 0
    excused: int = 0
    seconds: float = 0.0
    trace: list = field(default_factory=list)


class World:
    """The history of one scenario.

    Args:
        scenario: what is to happen.
        restless: how often a task lets others run at a lock.
    """

    def __init__(self, scenario, restless=0.05):
        self.scenario = scenario
        self.kernel = Kernel(scenario.seed, restless)
        addresses = {
            f"broker-{chr(97 + i)}": f"10.0.0.{2 + i}:10911" for i in range(scenario.brokers)
        }
        self.cluster = FakeCluster(addresses)
        servers = {address: name for name, address in addresses.items()} | {NAMESRV: NAME_SERVER}
        self.network = Network(self.kernel, self.cluster, servers)
        self.network.sending = self._leaves
        self.network.watch = self._arrived
        self.network.refused = self._refused
        self.network.answered = self._answered
        self.network.interfere = self._interfere
        self.cluster.create_topic(TOPIC, scenario.queues)
        self.began = self.kernel.now
        self.members = [Member(self, index) for index in range(scenario.members)]
        self.trace = deque(maxlen=_TRACE)
        self.running = []
        self.finished = defaultdict(set)
        self.finished_by = defaultdict(set)
        self.refused_at = {}
        self.calm = all(fault.kind in _CALM for fault in scenario.faults)
        self.latest = {}
        self.places = {}
        self.calls = Counter()
        self.delivered = []
        self.excused = 0
        self.restarted_at = dict.fromkeys(addresses, -1e9)
        self.troubles = []
        self.acknowledged = []
        self.sending_done = False

    # --- the history ---------------------------------------------------------------------------

    def play(self):
        """Run the history to its end."""
        for member in self.members:
            self.kernel.at(self.began + member.index * 0.3, member.begin)
        self.kernel.spawn(self._produce, "producer", Process("producer"))
        for fault in self.scenario.faults:
            self.kernel.at(self.began + fault.at, lambda fault=fault: self._strike(fault))
        self.kernel.at(self.began + QUIET + 100, lambda: None)
        try:
            self.kernel.run(self._all_done, QUIET + 100 + LIMIT)
            for member in self.members:
                if not member.closed:
                    self.kernel.spawn(member.close, "closing", member.process)
            self.kernel.run(lambda: all(m.process.dead for m in self.members), 120)
            self._judge()
        except AssertionError as error:
            raise Violation(self._account(error)) from error
        finally:
            self.kernel.stop()
        return self._report()

    def _produce(self):
        scenario, rng = self.scenario, random.Random(f"sends {self.scenario.seed}")
        client = Client(ClientConfig(namesrv=NAMESRV))
        with OrderlyProducer(client=client) as producer:
            for number in range(scenario.messages):
                if number % scenario.burst == 0:
                    bursts = scenario.messages / scenario.burst
                    self.kernel.sleep(rng.uniform(0, 2 * QUIET / bursts))
                key = f"k{rng.randrange(scenario.keys)}"
                with contextlib.suppress(OrderlyError):  # it may be stored all the same
                    message = Message(TOPIC, str(number).encode(), sharding_key=key)
                    result = producer.send(message, timeout=20)
                    self.acknowledged.append((number, result.queue, result.queue_offset))
        client.close()
        self.sending_done = True

    def _all_done(self):
        if not self.sending_done or self.kernel.now < self.began + QUIET + 100:
            return False
        return all(self._consumed(queue) for queue in self._queues())

    def _consumed(self, queue):
        state = self.cluster.brokers[queue.broker_name]
        end = state.store.log(TOPIC, queue.queue_id).max_offset
        stored = state.offsets.stored(GROUP, TOPIC, queue.queue_id)
        return len(self.finished[queue]) == end and (stored or 0) == end

    def _queues(self):
        for name, state in sorted(self.cluster.brokers.items()):
            for queue_id in range(state.topics.get(TOPIC).read_queues):
                yield MessageQueue(TOPIC, name, queue_id)

    # --- what the cluster sees -----------------------------------------------------------------

    def _arrived(self, link, command):
        """A request is at its server: compare it with the truth, before it is carried out."""
        member = next((m for m in self.members if m.process is link.process), None)
        if member is None or command.is_response:
            return
        broker = self.network.servers[link.address]
        if command.code == COMMIT:
            self._check_commit(broker, from_ext(UpdateConsumerOffset, command.ext))
        elif command.code == UNLOCK:
            self._check_unlock(member, queues_in(command.body, "mqSet"))
        elif command.code == SEND:
            self._note_dead_letter(command)

    def _leaves(self, link, command):
        """A member sends a commit: nobody else may own the queue at that moment."""
        member = next((m for m in self.members if m.process is link.process), None)
        if member is None or command.code != COMMIT:
            return
        header = from_ext(UpdateConsumerOffset, command.ext)
        queue = MessageQueue(header.topic, self.network.servers[link.address], header.queue_id)
        owner = self._owner(queue)
        fair = owner in (None, member.client_id) or self._could_not_know(member, queue)
        if not fair:
            self.kernel.fail(f"{member} commits {header.commit_offset} in {queue}, {owner}'s")

    def _check_commit(self, broker, header):
        if header.topic == TOPIC:
            queue = MessageQueue(TOPIC, broker, header.queue_id)
            self.note("commit", queue, header.commit_offset)
            missing = set(range(header.commit_offset)) - self.finished[queue]
            assert not missing, f"{queue}: {header.commit_offset} committed past {sorted(missing)}"

    def _answered(self, link, command, outgoing):
        """Remember which locks a member was refused: from then on it knows."""
        member = next((m for m in self.members if m.process is link.process), None)
        if member is None or command.code != LOCK or not outgoing:
            return
        asked = queues_in(command.body, "mqSet")
        granted = queues_in(outgoing[-1].command.body, "lockOKMQSet")
        for queue in asked:
            self.refused_at.pop((member.process, queue), None)
        for queue in asked - granted:
            self.refused_at[member.process, queue] = self.kernel.now

    def _refused(self, link, command):
        """A broker's own failure, in place of its answer."""
        for until, fault in self.troubles:
            mine = link.process is self.members[fault.member].process
            if mine and fault.kind == "blind start" and until > self.kernel.now:
                if command.code == QUERY:
                    return [Outgoing(link.number, reply_to(command, 1, remark="made up"))]
        return None

    def _check_unlock(self, member, queues):
        self.note("unlock", member, *queues)
        for queue in queues:
            if self.calm and self._owner(queue) == member.client_id:
                state = self.cluster.brokers[queue.broker_name]
                stored = state.offsets.stored(GROUP, queue.topic, queue.queue_id) or 0
                done = max(self.finished_by[member.process, queue], default=-1) + 1
                assert stored >= done, f"{member} unlocks {queue} at {stored}, {done} is done"
        for running in self.running:
            beside = running.member is member and running.queue in queues
            assert not beside, f"{member} unlocks {running.queue} beside its running handler"

    def _note_dead_letter(self, command):
        header = from_ext(SendMessage, command.ext)
        if header.topic.startswith("%RETRY%"):
            queue, offset = self.places[decode_properties(header.properties.encode())["UNIQ_KEY"]]
            self.note("dead letter", queue, offset)
            self.finished[queue].add(offset)
            self.latest[queue, offset].success = True

    # --- faults --------------------------------------------------------------------------------

    def _strike(self, fault):
        self.note("FAULT", fault)
        getattr(self, "_" + fault.kind.replace(" ", "_"))(fault)

    def _kill(self, fault):
        self.members[fault.member].kill()
        self.kernel.after(fault.seconds, self.members[fault.member].begin)

    def _close(self, fault):
        member = self.members[fault.member]
        if member.process is not None and not member.process.dead:
            self.kernel.spawn(lambda: member.leave(fault.seconds), "leaving", member.process)

    def _pause(self, fault):
        if self.members[fault.member].process is not None:
            self.kernel.pause(self.members[fault.member].process, fault.seconds)

    def _cut(self, fault):
        process = self.members[fault.member].process
        self.network.cut_all(lambda link: link.process is process)

    def _trouble(self, fault):
        self.troubles.append((self.kernel.now + fault.seconds, fault))

    _partition = _slow_network = _lose_answers = _lose_requests = _trouble

    def _interfere(self, link, code, reply):
        for until, fault in self.troubles:
            if until < self.kernel.now or link.process is not self.members[fault.member].process:
                continue
            if fault.kind in ("partition", "isolate"):
                return "drop"
            if fault.kind == "slow network":
                return self.kernel.random.uniform(0, min(5.0, fault.seconds))
            swallowed = "lose answers" if reply else "lose requests"
            if fault.kind == swallowed and code == fault.code:
                return "drop" if self.kernel.random.random() < 0.7 else None
        return None

    def _blind_start(self, fault):
        self.members[fault.member].kill()
        self.kernel.after(0.5, self.members[fault.member].begin)
        self._trouble(fault)

    def _isolate(self, fault):
        self._trouble(fault)
        self._cut(fault)

    def _broker_restart(self, fault):
        name = self.kernel.random.choice(sorted(self.cluster.brokers))
        if name in self.network.down:
            return
        self.network.stop_broker(name)
        self.restarted_at[name] = self.kernel.now + fault.seconds
        self.kernel.after(fault.seconds, lambda: self.network.start_broker(name))

    def _broker_freeze(self, fault):
        name = self.kernel.random.choice(sorted(self.cluster.brokers))
        self.network.freeze(name, fault.seconds)

    def _name_server_down(self, fault):
        self.network.down.add(NAME_SERVER)
        self.network.cut_all(lambda link: link.address == NAMESRV)
        self.kernel.after(fault.seconds, lambda: self.network.down.discard(NAME_SERVER))

    def _grow(self, fault):
        """More queues to read, as an operator grows a topic; senders keep to the old ones."""
        for name in sorted(self.cluster.brokers):
            state = self.cluster.brokers[name]
            old = state.topics.get(TOPIC)
            grown = type(old)(
                name=TOPIC,
                read_queues=old.read_queues + 1,
                write_queues=old.write_queues,
                order=True,
            )
            state.create_topic(grown)

    # --- handlers ------------------------------------------------------------------------------

    def handler_begins(self, member, queue):
        """Check who owns the lock. Returns the record of this call and whether it is excused."""
        owner = self._owner(queue)
        if owner != member.client_id and not self._could_not_know(member, queue):
            self.kernel.fail(f"{member} handles {queue}, whose lock belongs to {owner}")
        excused = owner not in (None, member.client_id)
        self.excused += excused
        record = Running(member, queue, self.kernel.now)
        self.running.append(record)
        return record, excused

    def handler_ends(self, record):
        """Forget a call."""
        if record in self.running:  # not those of a member that was killed
            self.running.remove(record)

    def delivery(self, member, message, excused):
        """Note that a message is being handled; returns the note, open until it is done."""
        queue, offset = message.queue, message.queue_offset
        self.places[message.message_id] = (queue, offset)
        self.note(member, "handles", queue, offset, "excused" if excused else "")
        delivery = Delivery(message.sharding_key, (queue, offset))
        self.delivered.append(delivery)
        self.latest[queue, offset] = delivery
        self.calls[queue, offset] += 1
        return delivery

    def work(self, message):
        """What a handler does with a message: takes a while, and says whether it is done."""
        queue, offset = message.queue, message.queue_offset
        scenario = self.scenario
        nature = random.Random(f"{scenario.seed} {queue} {offset}")
        slow, failing = nature.random() < scenario.slow, nature.random() < scenario.failing
        seconds = nature.choice([3.0, 25.0, 75.0]) if slow else scenario.seconds
        failures = nature.randint(1, 4) if failing else 0
        calls = self.calls[queue, offset]
        if seconds:
            self.kernel.sleep(seconds if calls == 1 else min(seconds, 0.01))
        return calls > failures

    def _owner(self, queue):
        locks = self.cluster.brokers[queue.broker_name].locks
        owner, since = locks.owner(GROUP, queue)
        return owner if EPOCH + self.kernel.now - since <= LEASE else None

    def _could_not_know(self, member, queue):
        """A broker that restarted forgot its locks; a process that just woke has not looked."""
        forgotten = self.kernel.now - self.restarted_at[queue.broker_name] < 31
        told = self.refused_at.get((member.process, queue), math.inf) < self.kernel.now - 10
        forgotten = forgotten and not told
        return forgotten or self.kernel.now == member.process.paused_until

    # --- the verdict ---------------------------------------------------------------------------

    def _judge(self):
        sent = [
            Sent(entry.sharding_key, (queue, entry.queue_offset), queue, entry.queue_offset)
            for queue in self._queues()
            for entry in self.log(queue)
        ]
        verdict = judge(sent, (Delivered(d.key, d.id, *d.id, d.success) for d in self.delivered))
        # Two owners that both believe in their lock (a forgotten lock table, a process that slept):
        # no client can keep an order then, but nothing may be lost.
        assert not verdict.lost if self.excused else verdict.ok, f"the oracle: {verdict.examples}"
        self._judge_sends()
        if not self.scenario.faults and not self.scenario.failing:
            assert verdict.duplicates == 0, f"{verdict.duplicates} duplicates without a fault"
        self.verdict = verdict

    def log(self, queue):
        """The messages of a queue, as stored."""
        log = self.cluster.brokers[queue.broker_name].store.log(TOPIC, queue.queue_id)
        data = b"".join(log.entry(offset).data for offset in range(log.max_offset))
        return decode_messages(data, queue.broker_name)

    def _judge_sends(self):
        """Acknowledged sends are in the log; a key's first copies are in the order of sending."""
        logs = {queue: self.log(queue) for queue in self._queues()}
        for number, queue, offset in self.acknowledged:
            stored = logs[queue][offset].body
            assert stored == str(number).encode(), f"{number} acknowledged, {stored} stored"
        for log in logs.values():
            firsts = defaultdict(dict)
            for message in log:
                firsts[message.sharding_key].setdefault(int(message.body))
            for key, numbers in firsts.items():
                assert list(numbers) == sorted(numbers), f"{key}: stored as {list(numbers)}"

    def note(self, *what):
        """Remember for the trace."""
        self.trace.append((self.kernel.now - self.began, what))

    def _account(self, error):
        lines = [f"{at:9.4f} {' '.join(map(str, what))}" for at, what in self.trace]
        return "\n".join([str(error), "--- trace", *lines])

    def _report(self):
        return Report(
            len(self.delivered),
            self.verdict.duplicates,
            self.excused,
            self.kernel.now - self.began,
            list(self.trace),
        )


def queues_in(body, name):
    """The queues a lock or unlock names."""
    found = load_object(body).get(name) or ()
    return {MessageQueue(q["topic"], q["brokerName"], q["queueId"]) for q in found}


class Member:
    """A member of the group: a process with a consumer, which may die and come back."""

    def __init__(self, world, index):
        self.world = world
        self.index = index
        self.lives = 0
        self.process = None
        self.client_id = ""
        self.consumer = None
        self.closed = True

    def __str__(self):
        return f"member {self.index}.{self.lives}"

    def begin(self):
        """Start the process, unless it runs."""
        if self.process is not None and not self.process.dead:
            return
        self.lives += 1
        self.process = Process(str(self))
        self.closed = False
        self.world.kernel.spawn(self._main, "main", self.process)

    def kill(self):
        """kill -9: sockets end, nothing else is done."""
        if self.process is None or self.process.dead:
            return
        world, process = self.world, self.process
        world.kernel.kill(process)
        world.network.cut_all(lambda link: link.process is process)
        world.running = [r for r in world.running if r.member is not self]
        self.closed = True

    def _main(self):
        while not self.closed:
            try:
                self._start()
            except OrderlyError as error:
                self.world.note(self, "does not start:", type(error).__name__)
                self.world.kernel.sleep(2)
            else:
                return

    def _start(self):
        client = Client(ClientConfig(namesrv=NAMESRV))
        self.client_id = client.client_id
        config = ConsumerConfig(consume_from="first", **dict(self.world.scenario.settings))
        consumer = OrderlyConsumer(GROUP, self._handle, client=client, config=config)
        try:
            consumer.subscribe(TOPIC).start()
        except OrderlyError:
            client.close()
            raise
        self.consumer = consumer
        self.world.note(self, "started as", client.client_id)

    def leave(self, seconds):
        """Close the consumer, end the process, and come back after some seconds."""
        self.close()
        self.world.kernel.after(seconds, self.begin)

    def close(self):
        """Close the consumer and end the process."""
        if self.closed:
            return
        self.closed = True
        if self.consumer is not None:
            self.consumer.close()
            self.consumer._client.close()
        self.world.note(self, "closed")
        self.kill()

    def _handle(self, messages, context):
        """Work through a batch; the first message that fails ends it."""
        world, queue, excused = self.world, context.message_queue, False
        record, excused = world.handler_begins(self, queue)
        for place, message in enumerate(messages):
            delivery = world.delivery(self, message, excused)
            if not world.work(message):
                for later in messages[place + 1 :]:
                    context.not_tried(later)
                world.handler_ends(record)
                return ConsumeResult.SUSPEND
            delivery.success = True
            context.done(message)
            world.finished[queue].add(message.queue_offset)
            world.finished_by[self.process, queue].add(message.queue_offset)
        world.handler_ends(record)
        return ConsumeResult.SUCCESS


@dataclass
class Delivery:
    """One message in one call of a handler; as the oracle's Delivered, but still open."""

    key: str
    id: tuple
    success: bool = False


def run(scenario, restless=0.05):
    """Run one scenario; returns its Report.

    Raises:
        Violation: a promise was broken; the text has the trace.
    """
    world = World(scenario, restless)
    ids = iter(range(1, 1000))
    with (
        installed(world.kernel),
        mock.patch.object(client_module, "Connections", partial(Connections, world.network)),
        mock.patch.object(client_module, "_new_client_id", lambda _: f"10.0.1.1@1#{next(ids):08x}"),  # noqa: PT008 - a new one each,
    ):
        return world.play()
