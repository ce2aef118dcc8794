"""Those who act in a history: members of the group, and producers. What they run is real."""

import random
from dataclasses import dataclass
from functools import partial

from orderly import (
    Client,
    ClientConfig,
    ConsumerConfig,
    ConsumerHooks,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    ProducerConfig,
)
from orderly.errors import OrderlyError
from tests.simulation.handlers import Program
from tests.simulation.kernel import Process
from tests.simulation.network import NAMESRV
from tests.simulation.scenario import RETRIES
from tests.simulation.truth import GROUP, TOPIC, UNWANTED, WANTED


class Member:
    """A member of the group: a process with a consumer, which may die and come back.

    Args:
        world: has `kernel`, `network`, `scenario`, `truth`, `witness` and `ending`.
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
        secrets = self.world.scenario.secrets
        client = Client(ClientConfig(namesrv=NAMESRV, record_secrets=secrets))
        self.client_id = client.client_id
        scenario = self.world.scenario
        executor = "process" if scenario.engine == "process" else "thread"
        settings = {"consume_from": "first", "executor": executor} | dict(scenario.settings)
        config = ConsumerConfig(**settings)
        hooks = ConsumerHooks(
            assigned=partial(self._told, "taken"), lost=partial(self._told, "lost")
        )
        handler = Program(self).handler()
        consumer = OrderlyConsumer(GROUP, handler, client=client, config=config, hooks=hooks)
        try:
            consumer.subscribe(TOPIC, WANTED if scenario.unwanted else "*").start()
        except OrderlyError:
            client.close()
            raise
        self.consumer = consumer
        self.world.note(self, "started as", client.client_id)

    def _told(self, what, queues):
        self.world.note(self, what, *queues)
        getattr(self.world.witness, what)(self, queues)

    def crash(self):
        """The process ends in the middle of a call, which does not come back."""
        kernel = self.world.kernel
        self.kill()
        kernel.after(kernel.random.choice([1.0, 10.0]), self.begin)
        kernel.park()

    # --- what the program does with its consumer -----------------------------------------------

    def hold(self, seconds):
        """Pause all queues, held or not, and resume them later."""
        consumer, witness = self.consumer, self.world.witness
        if not self.running:
            return
        consumer.pause(self.world.truth.names())
        witness.paused(self)
        self.world.kernel.sleep(seconds)
        if self.running and self.consumer is consumer:
            witness.resumed(self)
            consumer.resume()

    def hold_a_key(self, seconds):
        """Pause a key, whether there is something of it here or not, and resume it later."""
        consumer, world = self.consumer, self.world
        if not self.running or dict(world.scenario.settings)["order"] != "key":
            return
        rng, scenario = world.kernel.random, world.scenario
        key = f"k{rng.randrange(scenario.producers)}.{rng.randrange(scenario.keys)}"
        if key in consumer.paused_keys:
            return
        consumer.pause_key(key)
        world.witness.key_paused(self, key)
        world.kernel.sleep(seconds)
        if self.running and self.consumer is consumer:
            world.witness.key_resumed(self, key)
            consumer.resume_key(key)

    def block(self, seconds):
        """Have the event loop of the handlers, if there is one by now, do nothing for a while."""
        loop = getattr(self.consumer._runtime.engine, "_loop", None) if self.running else None
        if loop is not None:
            loop.call_soon_threadsafe(self.world.kernel.sleep, seconds)

    def seek(self, code):
        """Go on from another offset of a queue; `code` as `Fault` tells it."""
        truth, world = self.world.truth, self.world
        held = self.consumer.assignment if self.running else ()
        if not held:
            return
        queue = world.kernel.random.choice(held)
        stored, end = truth.stored(queue), truth.log(queue).max_offset
        target = (
            stored * code // 100 if code <= 100 else stored + (end - stored) * (code - 100) // 100
        )
        try:
            self.consumer.seek(queue, target)
        except OrderlyError as error:
            world.note(self, "does not seek:", error)
        else:
            world.witness.sought(self, queue, target)


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
        config = ProducerConfig(retries=scenario.retries)
        with OrderlyProducer(client=client, config=config) as producer:
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

    @property
    def _patience(self):
        return 20 if self.world.scenario.retries == RETRIES else 120

    def _submit(self, producer, number, key, rng):
        tag = UNWANTED if rng.random() < self.world.scenario.unwanted else WANTED
        message = Message(TOPIC, str(number).encode(), sharding_key=key, tags=tag)
        entry = Submitted(number, key, self.world.kernel.now)
        self.submitted.append(entry)
        try:
            future = producer.submit(message, timeout=self._patience)
            future.add_done_callback(lambda f: self._ended(entry, f))
        except OrderlyError as error:
            entry.error, entry.taken = error, False

    def _ended(self, entry, future):
        entry.error, entry.ended = future.exception(), self.world.kernel.now
        if entry.error is None:
            entry.result = future.result()
        else:
            self.world.note(f"producer {self.index}", "fails with", entry.number, entry.error)
