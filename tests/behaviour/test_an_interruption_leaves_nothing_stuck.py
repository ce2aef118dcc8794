"""Ctrl-C, or an alarm's exception, ends a call between any two of its steps, and nothing stands.

The next sends of this key and of others go on, from this thread and from others; `flush` and
`close` end; what a consumer holds goes on. A message whose send was interrupted is stored once or
not at all, and in order.
"""

import asyncio
import contextlib
import signal
import threading
from concurrent.futures import Future

import pytest

from orderly import ConsumerConfig, Message, OrderlyConsumer, OrderlyProducer, ProducerConfig
from orderly.client.broker import PullQuery, PullStatus
from orderly.consumer.runtime import State
from orderly.errors import PrecedingSendFailed, SendFailed
from orderly.producer.pending import PendingLimit
from orderly.protocol.heartbeat import Subscription
from tests.support.consuming import Recorder
from tests.support.interruptions import Alarm, at_each_step
from tests.support.waiting import await_visible, eventually, patient_client

LONG = 60.0  # seconds; a time in which all must have ended on a machine that stalls


@pytest.fixture
def every(pytestconfig):
    """At which steps a call is interrupted: at each one; with a real broker at some."""
    return 1 if pytestconfig.getoption("--orderly-broker") == "fake" else 29


def elsewhere(function, *arguments):
    """What a function returns on another thread."""
    outcome = Future()

    def run():
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome.result(LONG)


def bodies(client, queue):
    """All that is stored in a queue."""
    await_visible(client)
    offset, found, everything = 0, [], Subscription.from_expression(queue.topic, "*", 0)
    while True:
        query = PullQuery("onlooker", queue, offset, 32, everything, suspend=0)
        pulled = client.brokers.pull_now(query)
        if pulled.status is not PullStatus.FOUND:
            return found
        found += [message.body.decode() for message in pulled.messages]
        offset = pulled.next_offset


# --- producers ------------------------------------------------------------------------------------


class Shop:
    """A producer whose calls are interrupted, and what must be true afterwards.

    Args:
        namesrv: of the cluster.
        topic: has one queue, so that every message is in every other's way.
        client: an onlooker's.
        futures: of all messages that were taken over.
    """

    def __init__(self, namesrv, topic, client, futures):
        self.namesrv = namesrv
        self.topic = topic
        self.client = client
        self.queue = client.routes.get(topic).write_queues()[0]
        self.futures = futures
        self.stored = []  # what must be stored once, in this order
        self.producer = None

    def open(self, **settings):
        """Start a producer, and send one message, which opens its connections."""
        config = ProducerConfig(**{"send_timeout": LONG, "delivery_timeout": LONG} | settings)
        client = patient_client(self.namesrv)
        self.producer = OrderlyProducer(client=client, config=config).start()
        return self.producer

    def close(self):
        if self.producer is not None:
            self.producer.close(timeout=LONG)
            self.producer._client.close()

    def message(self, body, key="k"):
        return Message(self.topic, body.encode(), sharding_key=key)

    def send(self, body, key="k"):
        self.producer.send(self.message(body, key))
        self.stored.append(body)

    def goes_on(self, step, place):
        """Nothing stands, and nothing is left behind."""
        elsewhere(self.send, f"other {step}", "another key")
        self.send(f"same {step}")
        assert self.producer.flush(LONG), f"flush() did not end after an interruption at {place}"
        left = [future for future in self.futures if not future.done()]
        assert left == [], f"an interruption at {place} left a future that nobody ends"
        self.futures.clear()

    def judge(self):
        """Once each, in order; what was interrupted at most once, and before what came later."""
        found = bodies(self.client, self.queue)
        assert [body for body in found if body in set(self.stored)] == self.stored
        tried = [body for body in found if body.startswith("try ")]
        assert len(set(tried)) == len(tried), "stored twice"
        places = {body: place for place, body in enumerate(found)}
        late = [b for b in tried if places[b] > places.get(f"same {b.split()[1]}", len(found))]
        assert late == [], "stored behind a later one of its key"


@pytest.fixture
def shop(orderly_namesrv, orderly_topic, client, monkeypatch, closing):
    futures, enter = [], PendingLimit.enter

    def noted(self, future):
        futures.append(future)
        enter(self, future)

    monkeypatch.setattr(PendingLimit, "enter", noted)
    shop = Shop(orderly_namesrv, orderly_topic(queues=1), client, futures)
    return closing(contextlib.closing(shop))


def test_a_send(shop, every):
    producer = shop.open()
    shop.send("first")
    steps = at_each_step(
        lambda step: producer.send(shop.message(f"try {step}")), shop.goes_on, every
    )
    assert steps > 2000, "it went all the way to the reply"
    shop.judge()


def test_a_submit(shop, every):
    producer = shop.open()
    shop.send("first")
    at_each_step(lambda step: producer.submit(shop.message(f"try {step}")), shop.goes_on, every)
    shop.judge()


def test_a_submit_that_waits_for_others(shop, every):
    producer = shop.open(linger=0.005)
    shop.send("first")

    def several(step):
        for number in range(2):
            producer.submit(shop.message(f"try {step} {number}"))

    at_each_step(several, shop.goes_on, 3 * every)
    shop.judge()


def test_a_send_while_others_send(shop, every):
    producer = shop.open()
    shop.send("first")
    over = threading.Event()

    def chatter():
        while not over.is_set():
            producer.submit(shop.message("chatter", "chatter")).result(LONG)

    talking = [threading.Thread(target=chatter, daemon=True) for _ in range(2)]
    for thread in talking:
        thread.start()
    try:
        at_each_step(
            lambda step: producer.send(shop.message(f"try {step}")),
            lambda step, _: (elsewhere(shop.send, f"other {step}"), shop.send(f"same {step}")),
            3 * every,
        )
    finally:
        over.set()
    assert producer.flush(LONG)
    for thread in talking:
        thread.join(LONG)
        assert not thread.is_alive()
    shop.judge()


def test_an_asend(shop, every):
    producer = shop.open()
    shop.send("first")
    loop = asyncio.new_event_loop()

    def asend(step):
        loop.run_until_complete(producer.asend(shop.message(f"try {step}")))

    # An event loop logs any other exception that comes between its callbacks, and goes on.
    at_each_step(asend, shop.goes_on, 3 * every, kinds=[KeyboardInterrupt])
    loop.close()
    shop.judge()


def test_the_first_send_of_a_producer(shop, every):
    def opened(step):
        shop.open()
        return shop.message(f"try {step}")

    def check(step, place):
        shop.goes_on(step, place)
        shop.close()

    at_each_step(lambda it: shop.producer.send(it), check, 5 * every, prepare=opened)  # noqa: PLW0108 - a new one each time
    shop.judge()


def test_a_send_of_a_key_that_is_held(shop, every):
    producer = shop.open()
    shop.send("first")
    hold(shop)

    def held(step):
        future = producer.submit(shop.message(f"try {step}", "held"))
        assert isinstance(future.exception(LONG), PrecedingSendFailed)

    at_each_step(held, shop.goes_on, 3 * every)
    shop.judge()
    assert not [body for body in bodies(shop.client, shop.queue) if body.startswith("try")]


def hold(shop):
    """Have a message of a key fail, as one that finds no room."""
    room = shop.producer._dispatch.room
    limit, room._limit = room._limit, 0
    with pytest.raises(SendFailed, match="max_pending"):
        shop.producer.send(shop.message("no room", "held"), timeout=0.01)
    room._limit = limit


def test_who_waits_for_room(shop, every):
    producer = shop.open()
    shop.send("first")
    room = producer._dispatch.room

    def full(step):
        shop.futures.clear()
        room._limit = 1
        PendingLimit.enter(room, somebody := Future())
        shop.futures.clear()
        threading.Timer(0.002, room.leave, [somebody]).start()
        return shop.message(f"try {step}")

    def check(step, place):
        room._limit = 10_000
        shop.goes_on(step, place)

    at_each_step(producer.submit, check, 3 * every, prepare=full)
    shop.judge()


@pytest.mark.parametrize("method", ["flush", "resume", "queues"])
def test_other_calls_of_a_producer(shop, every, method):
    producer = shop.open(linger=0.005)
    shop.send("first")
    arguments = {"flush": [], "resume": ["k"], "queues": [shop.topic]}[method]

    def submit(step):
        producer.submit(shop.message(f"stored {step}"))
        shop.stored.append(f"stored {step}")

    at_each_step(
        lambda _: getattr(producer, method)(*arguments), shop.goes_on, 3 * every, prepare=submit
    )
    producer.flush()
    shop.judge()


def test_closing_a_producer(shop, every):
    def submitted(step):
        shop.open(linger=1.0)
        shop.stored.append(f"stored {step}")
        return shop.producer.submit(shop.message(f"stored {step}"))

    futures = []

    def check(_step, place):
        shop.close()
        eventually(futures[-1].done)
        assert futures[-1].exception() is None, f"not stored after an interruption at {place}"

    def prepare(step):
        futures.append(submitted(step))

    at_each_step(lambda _: shop.close(), check, 3 * every, prepare=prepare)
    shop.judge()


def test_alarms_at_any_moment(shop, orderly_namesrv):
    """Real signals, which come where Python looks for them."""
    producer = shop.open()
    shop.send("first")
    armed = False

    def rang(_number, _frame):
        if armed:
            raise Alarm

    calls = {
        "send": lambda step: producer.send(shop.message(f"try {step}")),
        "submit": lambda step: producer.submit(shop.message(f"try {step}")),
        "flush": lambda _: producer.flush(),
    }
    before, alarms = signal.signal(signal.SIGALRM, rang), 0
    try:
        for step in range(600):
            call = list(calls.values())[step % len(calls)]
            signal.setitimer(signal.ITIMER_REAL, 0.00002 * (1 + step % 30))
            try:
                armed = True
                call(step)
                armed = False
            except Alarm:
                armed = False
                alarms += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            if step % 20 == 0:
                shop.goes_on(step, "any place")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    shop.goes_on("at the end", "any place")
    assert alarms > 50
    shop.judge()


# --- consumers ------------------------------------------------------------------------------------


class Member:
    """A consumer whose calls are interrupted, and what must be true afterwards."""

    def __init__(self, namesrv, group, topic, producer):
        self.topic = topic
        self.seen = Recorder()
        self.sent = 0
        self._producer = producer
        config = ConsumerConfig(order="key", consume_from="first", close_timeout=LONG)
        self.client = patient_client(namesrv)
        self.consumer = OrderlyConsumer(group, self.seen, client=self.client, config=config)
        self.consumer.subscribe(topic)

    def settle(self):
        eventually(lambda: self.consumer.assignment and self.consumer.health().ready)

    def looks_well(self, step, place):
        """No lock is held for ever: looking at every queue takes each one's."""
        health = elsewhere(self.consumer.health)
        assert health.live, f"not live after an interruption at {place}: {health.reasons}"
        elsewhere(self.consumer.explain)
        if step % 50 == 0:
            self.handles_more()

    def handles_more(self):
        number, self.sent = self.sent, self.sent + 1
        self._producer.send(Message(self.topic, f"{number}".encode(), sharding_key="k"))
        eventually(lambda: number in self.seen.numbers("k"))

    def close(self):
        self.consumer.close()
        eventually(lambda: self.consumer.state is State.CLOSED)  # it may be closing already
        self.client.close()


@pytest.fixture
def member(orderly_namesrv, orderly_topic, group, producer, closing):
    made = Member(orderly_namesrv, group, orderly_topic(queues=1), producer)
    return closing(contextlib.closing(made))


CALLS = {
    "explain": lambda consumer: consumer.explain(),
    "explain_keys": lambda consumer: consumer.explain_keys(),
    "health": lambda consumer: consumer.health(),
    "parked": lambda consumer: consumer.parked(),
    "assignment": lambda consumer: consumer.assignment,
    "pause": lambda consumer: consumer.pause(),
    "resume": lambda consumer: consumer.resume(),
    "pause_key": lambda consumer: consumer.pause_key("a"),
    "resume_key": lambda consumer: consumer.resume_key("a"),
    "wait": lambda consumer: consumer.wait(0.001),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_of_a_consumer(member, every, call):
    consumer = member.consumer.start()
    member.settle()

    def check(step, place):
        consumer.resume()
        member.looks_well(step, place)

    at_each_step(lambda _: CALLS[call](consumer), check, every)
    consumer.resume()
    member.handles_more()


def test_seeking_and_subscribing(member, every, orderly_topic):
    consumer = member.consumer.start()
    member.settle()
    other = orderly_topic(queues=1)
    (queue,) = consumer.assignment

    def seek(_):
        consumer.seek(queue, "first")

    def subscribe(_):
        consumer.subscribe(other)
        consumer.unsubscribe(other)

    def check(step, place):
        eventually(lambda: queue in consumer.assignment)
        member.looks_well(step, place)

    def settled(_):
        eventually(nothing_runs_aside)
        eventually(lambda: consumer.assignment)

    at_each_step(subscribe, check, 5 * every)
    at_each_step(seek, check, 5 * every, prepare=settled)
    eventually(lambda: queue in consumer.assignment)
    member.handles_more()


def test_starting_and_closing_a_consumer(orderly_namesrv, topic, group, producer, every):
    def made(_):
        return Member(orderly_namesrv, group, topic, producer)

    members = []

    def start(member):
        members.append(member)
        member.consumer.start()

    def check(_step, place):
        member = members.pop()
        # It had not begun, and can be started; or what it began is ended.
        eventually(nothing_runs_aside)
        state = member.consumer.state
        assert state in (State.CREATED, State.CLOSED), f"{state} after {place}"
        member.close()

    at_each_step(start, check, 3 * every, prepare=made)
    members.pop().close()

    def started(_):
        members.append(made(_))
        members[-1].consumer.start()
        members[-1].settle()

    def check_close(_step, _place):
        members.pop().close()

    at_each_step(lambda _: members[-1].consumer.close(), check_close, 3 * every, prepare=started)
    members.pop().close()
    last = made(0)
    last.consumer.start()
    last.settle()  # at once: nobody has kept the locks
    last.close()


def nothing_runs_aside():
    return not [
        t for t in threading.enumerate() if t.name in ("orderly-shielded", "orderly-undoing")
    ]


# --- requests -------------------------------------------------------------------------------------


REQUESTS = {
    "an offset": lambda client, queue: client.brokers.max_offset(queue),
    "a route": lambda client, queue: client.routes.refresh(queue.topic),
    "all topics": lambda client, queue: client.admin.topics(),
    "a topic's type": lambda client, queue: client.admin.topic_config(
        queue.topic, client.routes.get(queue.topic).brokers[0]
    ),
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_request(orderly_namesrv, topic, every, request_, closing):
    client = closing(patient_client(orderly_namesrv))
    queue = client.routes.get(topic).write_queues()[0]

    def check(_step, _place):
        assert elsewhere(client.brokers.max_offset, queue) == 0
        assert client.brokers.max_offset(queue) == 0

    at_each_step(lambda _: REQUESTS[request_](client, queue), check, 3 * every)


def test_the_first_request_of_a_client(orderly_namesrv, topic, every):
    clients = []

    def check(_step, _place):
        client = clients.pop()
        queue = client.routes.get(topic).write_queues()[0]
        assert elsewhere(client.brokers.max_offset, queue) == 0
        assert client.brokers.max_offset(queue) == 0
        client.close()

    def ask(client):
        client.brokers.max_offset(client.routes.get(topic).write_queues()[0])

    def made(_):
        clients.append(patient_client(orderly_namesrv))
        return clients[-1]

    at_each_step(ask, check, 3 * every, prepare=made)
    clients.pop().close()
