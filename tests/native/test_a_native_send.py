"""What is sent arrives whole, once, or says so; and nothing of it is left behind."""

import signal
import threading

import pytest

from orderly import Message
from orderly.errors import ConfigError, InvalidMessage, LifecycleError, NativeCallFailed, SendFailed
from orderly.native import NativeOrderlyProducer
from tests.support.waiting import eventually


def interrupt(thread):
    signal.pthread_kill(thread.ident, signal.SIGINT)


BINARY = bytes(range(256)) * 40 + b"\0\0"


def test_a_binary_body_and_all_properties_survive(world):
    topic, producer = world.topic(1), world.producer()
    sent = Message(
        topic, BINARY, sharding_key="a", tags="blue", keys=("k1", "k2"), properties={"colour": "ü"}
    )
    result = producer.send(sent)
    assert (result.status, len(result.message_id) > 0) == ("SEND_OK", True)
    [(body, properties)] = world.stored(topic, 1)[0]
    assert body == BINARY
    assert properties == {"__SHARDINGKEY": "a", "TAGS": "blue", "KEYS": "k1 k2", "colour": "ü"}


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", b"x" * (4 * 2**20 + 1)),
        Message("orders", b"x", sharding_key="a\0b"),
        "orders",
    ],
)
def test_what_c_would_cut_or_the_broker_drop_is_refused(stub, message):
    with (
        NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library) as producer,
        pytest.raises(InvalidMessage),
    ):
        producer.send(message)
    assert stub.calls.StubAlive() == 0


def test_a_topic_that_is_not_there_is_a_failed_send(world):
    producer = world.producer()
    with pytest.raises(SendFailed, match="not acknowledged") as caught:
        producer.send(Message("no-such-topic", b"x", sharding_key="a"))
    assert isinstance(caught.value.__cause__, NativeCallFailed)
    assert caught.value.__cause__.code == 13


def test_a_failed_send_is_not_repeated_on_another_queue(stub):
    topic = stub.topic(4)
    with NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library) as producer:
        stub.calls.StubFail(1, 0)
        with pytest.raises(SendFailed):
            producer.send(Message(topic, b"1", sharding_key="a"))
        assert stub.stored(topic) == {}
        producer.send(Message(topic, b"1", sharding_key="a"))
        stub.calls.StubFail(1, 1)  # stored, but on one disk only
        with pytest.raises(SendFailed, match="may have stored"):
            producer.send(Message(topic, b"2", sharding_key="a"))
    assert [[body for body, _ in found] for found in stub.stored(topic).values()] == [[b"1", b"2"]]


def test_the_stub_would_show_a_retry(stub):
    """Were retries asked for, the stub would repeat the send on the next queue, as the library."""
    topic = stub.topic(4)
    with (
        pytest.MonkeyPatch.context() as patched,
        NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library) as producer,
    ):
        patched.setattr("orderly.native.producer._NO_RETRIES", 1)
        stub.calls.StubFail(1, 0)
        producer.send(Message(topic, b"1", sharding_key="a"))
    assert list(stub.stored(topic)) == [(97 % 4 + 1) % 4]


def test_ctrl_c_neither_moves_the_message_nor_is_lost(stub):
    topic = stub.topic(4)
    with NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library) as producer:
        stub.calls.StubHold(1)
        patient = threading.Thread(
            target=lambda: (eventually(stub.calls.StubWaiting), interrupt(threading.main_thread()))
        )
        patient.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                producer.send(Message(topic, b"1", sharding_key="b"))
            patient.join()
        finally:
            stub.calls.StubHold(0)  # else a failure would wait in close, and nothing would end it
    assert list(stub.stored(topic)) == [98 % 4]  # close waited for it


def test_threads_send_side_by_side_each_key_in_its_order(world):
    topic, producer, keys = world.topic(4), world.producer(), [f"k{n}" for n in range(6)]

    def send(key):
        for number in range(20):
            producer.send(Message(topic, f"{key}/{number}".encode(), sharding_key=key))

    threads = [threading.Thread(target=send, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bodies = [body.decode() for found in world.stored(topic).values() for body, _ in found]
    for key in keys:
        mine = [body for body in bodies if body.startswith(f"{key}/")]
        assert mine == [f"{key}/{number}" for number in range(20)]


def test_it_runs_from_start_to_close_and_only_once(stub):
    producer = NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library)
    message = Message(stub.topic(), b"x")
    with pytest.raises(LifecycleError, match="not started"):
        producer.send(message)
    producer.start()
    with pytest.raises(LifecycleError, match="started only once"):
        producer.start()
    producer.send(message)
    producer.close()
    producer.close()
    with pytest.raises(LifecycleError, match="is closed"):
        producer.send(message)
    with pytest.raises(LifecycleError, match="started only once"):
        producer.start()


@pytest.mark.parametrize(
    "settings",
    [{"send_timeout": 0.0001}, {"send_timeout": 1e7}, {"max_message_size": 2**31}],
    ids=str,
)
def test_a_number_that_c_would_turn_into_another_is_refused(stub, settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library, **settings)


def test_a_send_after_the_main_threads_sender_ended_is_told_so(stub):
    """As at the exit of the process, where no thread pool takes work any more."""
    with NativeOrderlyProducer(namesrv=stub.namesrv, library=stub.library) as producer:
        producer._aside.shutdown()
        with pytest.raises(LifecycleError, match="process is ending"):
            producer.send(Message(stub.topic(), b"x"))


def test_one_that_cannot_start_says_why(stub):
    producer = NativeOrderlyProducer("cannot-start", namesrv=stub.namesrv, library=stub.library)
    with pytest.raises(NativeCallFailed, match="StartProducer: status 10: no such luck"):
        producer.start()
    producer.close()
