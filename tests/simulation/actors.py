"""Those who act in a history: members of the group, and producers. What they run is real."""

import random
from dataclasses import dataclass
from functools import partial

from orderly import (
    Client,
    ClientConfig,
    ConsumerConfig,
    ConsumeResult,
    ConsumerHooks,
    Fail,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    Park,
)
from orderly.errors import OrderlyError
from tests.simulation.deaths import ends_processes
from tests.simulation.kernel import Process
from tests.simulation.network import NAMESRV
from tests.simulation.truth import GROUP, TOPIC, UNWANTED, WANTED

_STUCK = 0.4  # share of the keys that fail for a while, where some do


class Member:
    """A member of the group: a process with a consumer, which may die and come back.

    Args:
        world: has `kernel`, `network`, `scenario`, `witness` and `ending`.
        index: counts members from 0.
    """

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

    @property
    def running(self):
        """Whether the consumer is started, and is not closing."""
        return self.consumer is not None and not self.closed

    def begin(self):
        """Start the process, unless it runs, or the history ends."""
        if self.world.ending or (self.process is not None and not self.process.dead):
            return
        self.lives += 1
        self.process = Process(str(self))
        self.closed = False
        self.consumer = None
        self.world.kernel.spawn(self._main, "main", self.process)

    def kill(self, *, clean=False):
        """kill -9: sockets end, nothing else is done; clean: and nothing was left to do."""
        if self.process is None or self.process.dead:
            return
        world, process = self.world, self.process
        world.kernel.kill(process)
        world.network.cut_all(lambda link: link.process is process)
        world.witness.died(self, clean=clean)
        self.closed = True

    def leave(self, seconds):
        """Close the consumer, end the process, and come back after some seconds."""
        self.close()
        self.world.kernel.after(seconds, self.begin)

    def close(self):
        """Close the consumer and end the process."""
        if self.closed:
            return
        self.closed = True
        clean = True
        if self.consumer is not None:
            self.consumer.close()
            clean = not self.consumer._session.held()
            self.consumer._client.close()
        self.world.note(self, "closed", "" if clean else "beside a handler")
        self.kill(clean=clean)

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
        config = ConsumerConfig(**{"consume_from": "first"} | dict(self.world.scenario.settings))
        hooks = ConsumerHooks(
            assigned=partial(self._told, "taken"), lost=partial(self._told, "lost")
        )
        handler = _Handler(self._handle)
        consumer = OrderlyConsumer(GROUP, handler, client=client, config=config, hooks=hooks)
        try:
            consumer.subscribe(TOPIC, WANTED if self.world.scenario.unwanted else "*").start()
        except OrderlyError:
            client.close()
            raise
        self.consumer = consumer
        self.world.note(self, "started as", client.client_id)

    def _told(self, what, queues):
        self.world.note(self, what, *queues)
        getattr(self.world.witness, what)(self, queues)

    def _handle(self, messages, context):
        """Work through a batch; the first message that fails ends it."""
        witness, replayed = self.world.witness, context.replayed
        call = witness.handler_begins(self, messages, context)
        if context.dry_run:
            return self._try(call, messages[0])
        for place, message in enumerate(messages):
            delivery = witness.delivery(self, message, replayed=replayed)
            if not self._work(message, replayed=replayed):
                for later in messages[place + 1 :]:
                    context.not_tried(later)
                witness.handler_ends(call)
                return self._failure(message, context)
            context.done(message)
            witness.finished(call, message, delivery)
        witness.handler_ends(call)
        return ConsumeResult.SUCCESS

    def _try(self, call, message):
        """Say what would become of a message, and do nothing."""
        self.world.witness.tried(self, message)
        self.world.witness.handler_ends(call)
        return Park("made up") if self._is_poison(message) else ConsumeResult.SUCCESS

    def _work(self, message, *, replayed):
        """Take a while with a message, and say whether it is done."""
        world, place = self.world, (message.queue, message.queue_offset)
        scenario, nature = world.scenario, self._nature(message)
        slow, failing = nature.random() < scenario.slow, nature.random() < scenario.failing
        seconds = nature.choice([3.0, 25.0, 75.0]) if slow else scenario.handling
        failures = nature.randint(1, 4) if failing else 0
        calls = world.witness.calls[place]
        if seconds:
            in_full = calls == 1 or scenario.killers
            world.kernel.sleep(seconds if in_full else min(seconds, 0.01))
        if self._is_killer(message):
            world.witness.crashed(self, message, replayed=replayed)
            self._crash()
        bad = self._is_stuck(message) or self._is_poison(message)
        return calls > failures and not bad

    def _crash(self):
        """The process ends in the middle of a call, which does not come back."""
        kernel = self.world.kernel
        self.kill()
        kernel.after(kernel.random.choice([1.0, 10.0]), self.begin)
        kernel.park()

    def _is_killer(self, message):
        """Whether the message ends this process."""
        scenario = self.world.scenario
        return scenario.killers and not self._is_fixed and ends_processes(scenario, message)

    def _is_poison(self, message):
        """Whether the handler has the message parked; without a key it could not be."""
        scenario = self.world.scenario
        if not scenario.poison or self._is_fixed or message.sharding_key is None:
            return False
        rng = random.Random(f"{scenario.seed} poison {message.queue} {message.queue_offset}")
        return rng.random() < scenario.poison

    @property
    def _is_fixed(self):
        """Whether a better handler is deployed by now."""
        return self.world.kernel.now >= self.world.began + self.world.scenario.fixed

    def _nature(self, message):
        return random.Random(f"{self.world.scenario.seed} {message.queue} {message.queue_offset}")

    def _is_stuck(self, message):
        """Whether the message's key fails, whatever is done, until a certain time."""
        scenario = self.world.scenario
        if self.world.kernel.now >= self.world.began + scenario.stuck:
            return False
        return random.Random(f"{scenario.seed} stuck {message.sharding_key}").random() < _STUCK

    def _failure(self, message, context):
        """Fail in one of the ways in which a handler can."""
        way = self._nature(message).randrange(4)
        if self._is_poison(message):
            return Park("made up") if way < 2 else context.park(message, "made up")
        match way:
            case 0:
                return context.suspend(2.0)
            case 1:
                return Fail("made up")
            case 2:
                raise ValueError("made up")
        return ConsumeResult.SUSPEND


class _Handler:
    """A function that says that it can be tried without a trace."""

    dry_run = True

    def __init__(self, handle):
        self._handle = handle

    def __call__(self, messages, context):
        return self._handle(messages, context)


@dataclass
class Submitted:
    """A message given to a producer, and what became of it: a result or an error.

    `taken` is whether the producer took it over, or refused it on the spot.
    """

    number: int
    key: str | None
    at: float
    result: object = None
    error: object = None
    ended: float = 0.0
    taken: bool = True


class Sender:
    """A process with a producer, which sends bursts without waiting for answers.

    Args:
        world: has `kernel` and `scenario`.
        index: counts producers from 0.
    """

    def __init__(self, world, index):
        self.world = world
        self.index = index
        self.process = Process(f"producer {index}")
        self.submitted = []
        self.done = False

    def begin(self):
        """Start the process."""
        self.world.kernel.spawn(self._main, "producer", self.process)

    def _main(self):
        scenario, kernel = self.world.scenario, self.world.kernel
        rng = random.Random(f"sends {scenario.seed} {self.index}")
        bursts = -(-scenario.messages // scenario.burst)
        moments = sorted(rng.uniform(0.5, scenario.seconds) for _ in range(bursts))
        client = Client(ClientConfig(namesrv=NAMESRV))
        with OrderlyProducer(client=client) as producer:
            for number in range(scenario.messages):
                if number % scenario.burst == 0:
                    due = self.world.began + moments[number // scenario.burst]
                    kernel.sleep(max(0.0, due - kernel.now))
                key = f"k{self.index}.{rng.randrange(scenario.keys)}"
                keyless = scenario.keyless and rng.random() < scenario.keyless
                self._submit(producer, number, None if keyless else key, rng)
            producer.flush()
        client.close()
        self.done = True

    def _submit(self, producer, number, key, rng):
        tag = UNWANTED if rng.random() < self.world.scenario.unwanted else WANTED
        message = Message(TOPIC, str(number).encode(), sharding_key=key, tags=tag)
        entry = Submitted(number, key, self.world.kernel.now)
        self.submitted.append(entry)
        try:
            producer.submit(message, timeout=20).add_done_callback(lambda f: self._ended(entry, f))
        except OrderlyError as error:
            entry.error, entry.taken = error, False

    def _ended(self, entry, future):
        entry.error, entry.ended = future.exception(), self.world.kernel.now
        if entry.error is None:
            entry.result = future.result()
        else:
            self.world.note(f"producer {self.index}", "fails with", entry.number, entry.error)
