"""Messages come in their queue's order, and only an Ack acknowledges one."""

import threading
import time

import pytest

from orderly import Ack, Message
from orderly.errors import ConfigError, LifecycleError, UnsupportedByDriver
from orderly.listening import Block, Retry, Skip
from orderly.native import Library, NativeConsumer, NativeOrderlyProducer, listener
from orderly.ordering.results import Park, Suspend

BINARY = bytes(range(256)) * 40


class Seen:
    """A listener's function that keeps what it was given."""

    def __init__(self, act=None):
        self.act = act or (lambda _message, _attempt: Ack())
        self.messages, self.attempts = [], []

    def __call__(self, message, attempt):
        self.messages.append(message)
        self.attempts.append((message.body, attempt.number))
        return self.act(message, attempt)

    @property
    def bodies(self):
        return [message.body for message in self.messages]


def failing(body, *raised):
    """Fail for one body: raise or answer what is given, one after another, then Ack."""
    left = list(raised)

    def act(message, _attempt):
        if message.body != body or not left:
            return Ack()
        outcome = left.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return act


def send(world, topic, *bodies, key="a", **fields):
    producer = world.producer()
    for body in bodies:
        producer.send(Message(topic, body, sharding_key=key, **fields))


def test_a_queue_comes_in_order_whole_and_with_what_is_known(world, soon):
    topic, seen = world.topic(2), Seen()
    sent = [b"%d" % n for n in range(30)]
    send(world, topic, *sent)
    send(world, topic, BINARY, key="b", tags="blue", keys=("k",), properties={"colour": "ü"})
    world.consume(topic, seen, properties=("colour",))
    soon(lambda: len(seen.messages) == 31)
    assert [body for body in seen.bodies if body != BINARY] == sent
    [binary] = [message for message in seen.messages if message.body == BINARY]
    assert (binary.topic, binary.queue.queue_id, binary.queue_offset) == (topic, 98 % 2, 0)
    assert (binary.queue.broker_name, binary.store_host) == ("", "")  # that call reads freed memory
    assert (binary.sharding_key, binary.tags, binary.keys) == ("b", "blue", ("k",))
    assert binary.properties["colour"] == "ü"
    assert binary.store_time >= binary.born_time > 1_600_000_000
    assert len({message.message_id for message in seen.messages}) == 31


@pytest.mark.parametrize(
    "outcome",
    [
        ValueError("no"),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        None,
        0,
        Suspend(),
        Block("later"),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
def test_what_is_not_an_ack_comes_again_before_the_next(stub, soon, outcome):
    topic, seen = stub.topic(1), Seen(failing(b"1", outcome, outcome))
    send(stub, topic, b"0", b"1", b"2")
    stub.consume(topic, seen, suspend=0.02, max_suspend=0.02)
    soon(lambda: b"2" in seen.bodies)
    assert seen.bodies == [b"0", b"1", b"1", b"1", b"2"]


def test_a_raise_is_no_ack_and_the_queue_waits(world, soon):
    topic, seen = world.topic(1), Seen(failing(b"1", ValueError("no"), SystemExit()))
    send(world, topic, b"0", b"1", b"2", b"3")
    world.consume(topic, seen)
    soon(lambda: b"3" in seen.bodies)
    assert seen.attempts == [(b"0", 1), (b"1", 1), (b"1", 2), (b"1", 3), (b"2", 1), (b"3", 1)]


def test_a_poisoned_message_is_skipped_and_the_next_goes_on(world, soon):
    def act(message, _attempt):
        if message.body == b"bad":
            raise ValueError
        return Ack()

    topic, seen = world.topic(1), Seen(act)
    send(world, topic, b"0", b"bad", b"1")
    world.consume(topic, seen, on_error={ValueError: "skip"})
    soon(lambda: b"1" in seen.bodies)
    assert seen.bodies[0] == b"0"
    assert set(seen.bodies[1:-1]) == {b"bad"}


@pytest.mark.parametrize("answer", [Park("aside"), Suspend(5)], ids=["park", "suspend"])
def test_what_the_driver_cannot_do_blocks_and_says_so(stub, soon, caplog, answer):
    topic, seen = stub.topic(1), Seen(failing(b"1", answer, answer))
    send(stub, topic, b"1", b"2")
    stub.consume(topic, seen, on_poison="skip", suspend=0.02, max_suspend=0.02)
    soon(lambda: b"2" in seen.bodies)
    assert seen.bodies == [b"1", b"1", b"1", b"2"]
    assert "use orderly.OrderlyConsumer" in caplog.text


def test_a_wait_that_is_longer_than_the_librarys_is_kept(stub, soon):
    stub.calls.StubRetryAfter(0.001)
    topic, seen = stub.topic(1), Seen(failing(b"1", *[ValueError("no")] * 2))
    send(stub, topic, b"1", b"2")
    retry, began = Retry(wait=lambda _state: 0.3), time.monotonic()
    stub.consume(topic, seen, retry=retry)
    soon(lambda: b"2" in seen.bodies)
    assert seen.attempts == [(b"1", 1), (b"1", 2), (b"1", 3), (b"2", 1)]
    assert time.monotonic() - began > 0.6, "it was turned away in between"


def test_close_waits_for_a_handler_and_a_handler_cannot_close(stub, soon):
    inside, go, told = threading.Event(), threading.Event(), []

    def act(_message, _attempt):
        try:
            consumer.close()
        except LifecycleError as error:
            told.append(str(error))
        inside.set()
        go.wait(30)
        told.append("handled")
        return Ack()

    topic = stub.topic(1)
    consumer = stub.consume(topic, act)
    send(stub, topic, b"1")
    assert inside.wait(30)
    closer = threading.Thread(target=consumer.close)
    closer.start()
    assert stub.calls.StubRunning() == 2
    go.set()
    closer.join(30)
    assert told[0].startswith("the listener's function cannot close")
    assert told[1:] == ["handled"]
    assert stub.calls.StubRunning() == 1


def test_two_consumers_of_one_process_and_one_listener(stub, soon):
    topic, seen = stub.topic(1), Seen()
    send(stub, topic, b"1")
    stub.consume(topic, seen), stub.consume(topic, seen)
    soon(lambda: len(seen.bodies) == 2)


@pytest.mark.parametrize(
    "call", ["pause", "seek", "suspend", "commit", "rollback", "parked", "backlog"]
)
def test_what_is_missing_names_who_has_it(stub, call):
    made = listener(lambda _message, _attempt: Skip("x"), library=stub.library)
    consumer = NativeConsumer("shipping", made, namesrv=stub.namesrv, library=stub.library)
    with pytest.raises(UnsupportedByDriver, match=r"orderly\.OrderlyConsumer"):
        getattr(consumer, call)()


def test_it_is_subscribed_before_it_starts(stub):
    made = listener(lambda _message, _attempt: Ack(), library=stub.library)
    consumer = NativeConsumer("shipping", made, namesrv=stub.namesrv, library=stub.library)
    with pytest.raises(ConfigError, match="subscribe to a topic"):
        consumer.start()
    with consumer.subscribe("orders"), pytest.raises(LifecycleError, match="before start"):
        consumer.subscribe("others")
    with pytest.raises(ConfigError, match=r"orderly\.native\.listener"):
        NativeConsumer("shipping", lambda *_: Ack(), namesrv=stub.namesrv, library=stub.library)


@pytest.mark.parametrize("tags", ["||", "a || *", "a\0b", 5, None])
def test_tags_that_c_would_cut_or_die_of_are_refused(stub, tags):
    made = listener(lambda _message, _attempt: Ack(), library=stub.library)
    consumer = NativeConsumer("shipping", made, namesrv=stub.namesrv)
    with pytest.raises(ConfigError, match="tag"):
        consumer.subscribe("orders", tags)


def test_its_library_is_the_listeners(stub, monkeypatch):
    monkeypatch.setenv("ORDERLY_LIBROCKETMQ", "/no/such/file.so")
    made = listener(lambda _message, _attempt: Ack(), library=stub.library)
    with NativeConsumer("shipping", made, namesrv=stub.namesrv).subscribe("orders"):
        assert stub.calls.StubRunning() == 1
    other = Library(stub.library.path)
    other.path = "/another.so"
    with pytest.raises(ConfigError, match=r"/another\.so: give both the same library"):
        NativeConsumer("shipping", made, namesrv=stub.namesrv, library=other)


def test_ctrl_c_during_a_start_leaves_nothing_running(stub, monkeypatch):
    def start(name, *arguments):
        do(name, *arguments)
        if name.startswith("Start"):
            raise KeyboardInterrupt

    do = stub.library.do
    made = listener(lambda _message, _attempt: Ack(), library=stub.library)
    consumer = NativeConsumer("shipping", made, namesrv=stub.namesrv).subscribe("orders")
    producer = NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library)
    monkeypatch.setattr(stub.library, "do", start)
    for each in consumer, producer:
        with pytest.raises(KeyboardInterrupt):
            each.start()
        assert stub.calls.StubRunning() == 0
