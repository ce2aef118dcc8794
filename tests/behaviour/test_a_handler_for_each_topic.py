"""One consumer, several topics, a handler each: each gets its own topic's messages, in order."""

import pytest

from orderly import Ack, AsyncListener, ConsumerConfig, Listener, Message
from orderly.errors import ConfigError
from orderly.testing import run_until_drained
from tests.support.waiting import eventually, patient_consumer
from tests.support.workers import clock_in, clock_in_twice

COUNT = 6


@pytest.fixture
def topics(orderly_topic):
    return orderly_topic(queues=2), orderly_topic(queues=2)


@pytest.fixture
def sent(producer, topics):
    for number in range(COUNT):
        for topic in topics:
            producer.send(Message(topic, f"{topic} {number}", f"k{number % 2}"))


@pytest.fixture
def make(orderly_namesrv, group):
    def make(handlers, **settings):
        config = ConsumerConfig(**{"consume_from": "first"} | settings)
        return patient_consumer(group, handlers, namesrv=orderly_namesrv, config=config)

    return make


class Noted:
    """Handlers that note what they get."""

    def __init__(self):
        self.seen = {}

    def plain(self, name):
        def handle(messages, context):
            self.seen.setdefault(name, []).extend(m.body.decode() for m in messages)
            return Ack()

        return handle

    def coroutine(self, name):
        async def handle(messages, context):
            return self.plain(name)(messages, context)

        return handle

    def listener(self, name):
        return Listener(lambda message, attempt: self.plain(name)([message], None))

    def async_listener(self, name):
        async def ship(message, attempt):
            return self.plain(name)([message], None)

        return AsyncListener(ship)

    def has_all_of(self, topics):
        wanted = {topic: {f"{topic} {number}" for number in range(COUNT)} for topic in topics}
        return {name: set(bodies) for name, bodies in self.seen.items()} == wanted


@pytest.mark.usefixtures("sent")
@pytest.mark.parametrize("order", ["queue", "key"])
@pytest.mark.parametrize("kind", ["plain", "coroutine", "listener", "async_listener"])
def test_each_gets_its_own(make, topics, kind, order):
    noted = Noted()
    run_until_drained(make({t: getattr(noted, kind)(t) for t in topics}, order=order))
    assert noted.has_all_of(topics)
    for bodies in noted.seen.values():
        for key in (0, 1):
            numbers = [int(b.split()[1]) for b in bodies]
            assert [n for n in numbers if n % 2 == key] == list(range(key, COUNT, 2))


def test_in_worker_processes(make, topics, producer, tmp_path):
    for topic in topics:
        producer.send(Message(topic, str(tmp_path / topic), "k"))
    handlers = dict(zip(topics, (clock_in, clock_in_twice), strict=True))
    run_until_drained(make(handlers, executor="process"), timeout=60)
    lines = [len((tmp_path / topic).read_text().splitlines()) for topic in topics]
    assert lines == [1, 2]


@pytest.mark.usefixtures("sent")
def test_a_subscription_says_which_messages_are_wanted(make, topics, producer):
    noted = Noted()
    producer.send(Message(topics[0], "tagged", "k", tags="new"))
    consumer = make({t: noted.plain(t) for t in topics}).subscribe(topics[0], "new")
    run_until_drained(consumer)
    assert noted.seen[topics[0]] == ["tagged"]
    assert len(noted.seen[topics[1]]) == COUNT


def test_one_that_fails_holds_up_its_own_topic_only(make, topics, sent):
    noted = Noted()

    def fails(messages, context):
        raise ValueError("no")

    with make({topics[0]: fails, topics[1]: noted.plain(topics[1])}):
        eventually(lambda: len(noted.seen.get(topics[1], ())) == COUNT, within=30)


def both(messages, context):
    return Ack()


async def coroutine(messages, context):
    return Ack()


@pytest.mark.parametrize(
    ("handlers", "said"),
    [
        ({}, "mapping of handlers is empty"),
        ({"a": both, "b": coroutine}, "all plain or all async"),
        ({"a": 5}, "the handler of a must be callable"),
        ({"a": Ack}, "the handler of a is called with"),
        ({5: both}, "names of type str"),
        ({"a b": both}, "topic name"),
        ({"a": Listener(both, on_poison="park_key")}, "order='key'"),
    ],
    ids=["none", "plain and async", "no function", "a class", "no name", "a bad name", "parks"],
)
def test_what_cannot_work_is_refused_when_it_is_made(make, handlers, said):
    with pytest.raises(ConfigError, match=said):
        make(handlers)


def test_a_topic_without_a_handler_is_refused(make):
    with pytest.raises(ConfigError, match="no handler for topic 'c', only for a, b"):
        make({"a": both, "b": both}).subscribe("c")
