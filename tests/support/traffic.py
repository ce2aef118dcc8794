"""Traffic for fault tests: a writer that never stops, members, and the verdict on all of it.

Everything is recorded: acknowledged sends, deliveries, and the offsets the broker holds.
"""

import threading
import time

from orderly import (
    Client,
    ConsumeResult,
    Message,
    OrderlyConsumer,
    OrderlyProducer,
    ProducerConfig,
)
from orderly.consumer.hooks import ConsumerHooks
from orderly.errors import NameServerUnavailable, RouteError
from orderly.testing import Delivered, Sent, judge
from tests.support.commit_watch import CommitWatch
from tests.support.leases import client_config, consumer_config
from tests.support.member_process import MemberProcess
from tests.support.waiting import eventually

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
        writing: more settings of the writer.

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
        **writing,
    ):
        self.topic, self.group, self._lease, self._namesrv = topic, group, lease, namesrv
        self.events, self.consumers, self.processes, self._clients = [], [], [], []
        self.lost = []
        self._members, self._place = members, place
        self.writer = Writer(namesrv, topic, pause, place, **writing)
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

    def join(self):
        """Start another member in this process."""
        client = Client(client_config(self._lease, self._namesrv))
        self._clients.append(client)
        hooks = ConsumerHooks(lost=lambda queues: self.lost.extend(map(self._place, queues)))
        config = consumer_config(self._lease)
        consumer = OrderlyConsumer(
            self.group, self._handle, client=client, config=config, hooks=hooks
        )
        self.consumers.append(consumer.subscribe(self.topic).start())
        return consumer

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
        goal = len(self.deliveries()) + messages
        eventually(lambda: len(self.deliveries()) >= goal, within, every=0.05)

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

    def judged(self, without=()):
        """What the oracle says of all deliveries but those."""
        return judge(self.writer.sent, [e for e in self.deliveries() if e not in without])

    def wrong_commits(self):
        """Commits that went back, or past what was finished by then."""
        return [wrong for watch in self.commits for wrong in watch.violations(self.deliveries())]

    def deliveries(self):
        """All of them, in the order in which they began."""
        of_processes = [event for process in self.processes for event in list(process.events)]
        return sorted([*self.events, *of_processes], key=lambda event: event.started)

    def _end_watches(self):
        for watch in self.commits:
            watch.finish()

    def _handle(self, messages, context):
        started = time.monotonic()
        for m in messages:
            place = (m.sharding_key, m.message_id, self._place(m.queue), m.queue_offset)
            self.events.append(Delivered(*place, started=started, ended=time.monotonic()))
        return ConsumeResult.SUCCESS
