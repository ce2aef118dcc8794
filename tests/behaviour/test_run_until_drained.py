"""`run_until_drained`: one call, and all that is stored is handled; on every broker."""

import asyncio
import threading

import pytest

from orderly import Ack, ConsumerConfig, Listener, Message, Suspend
from orderly.client.broker import BrokerCalls
from orderly.errors import ConfigError
from orderly.ordering.explain import Why
from orderly.testing import NotDrained, run_until_drained
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually, patient_consumer

KEYS = ["a", "b", "c"]
COUNT = 20
QUEUES = 4  # of `topic`
EARLIER, LATER = "a", "k"  # keys of queues 1 and 3


@pytest.fixture
def make(orderly_namesrv, topic, group):
    def make(handler, **settings):
        config = ConsumerConfig(**{"consume_from": "first"} | settings)
        consumer = patient_consumer(group, handler, namesrv=orderly_namesrv, config=config)
        return consumer.subscribe(topic)

    return make


@pytest.mark.parametrize("order", ["queue", "key"])
def test_all_is_handled_and_the_consumer_is_closed(make, order, producer, topic):
    send_numbers(producer, topic, KEYS, COUNT)
    seen = []

    def handle(messages, context):
        seen.extend((m.sharding_key, int(m.body)) for m in messages)
        return Ack()

    consumer = make(handle, order=order)
    run_until_drained(consumer)
    assert sorted(seen) == [(key, n) for key in KEYS for n in range(COUNT)]
    assert consumer.state == "closed"


def test_what_a_handler_sends_counts_too(make, producer, topic):
    seen = []

    def handle(messages, context):
        number = int(messages[0].body)
        seen.append(number)
        if number < 5:
            producer.send(Message(topic, str(number + 1), f"k{number}"))
        return Ack()

    producer.send(Message(topic, "0", "k"))
    run_until_drained(make(handle))
    assert sorted(seen) == [0, 1, 2, 3, 4, 5]


def test_what_a_handler_sends_while_the_ends_are_read_counts_too(
    make, producer, topic, monkeypatch
):
    """Its queue's end was read before, and the one it comes from is at its end afterwards."""
    looked, seen, read = threading.Event(), [], BrokerCalls.max_offset

    def handle(messages, context):
        if int(messages[0].body) == 0:
            looked.wait(20)
            producer.send(Message(topic, "1", EARLIER))
        elif messages[0].reconsume_times == 0:
            return Suspend(0.5)
        seen.append(int(messages[0].body))
        return Ack()

    def max_offset(brokers, queue):
        end = read(brokers, queue)
        if queue == last and threading.current_thread() is threading.main_thread():
            looked.set()
            eventually(lambda: any(q.offset for q in consumer.health().queues if q.queue == last))
        return end

    last = producer.send(Message(topic, "0", LATER)).queue
    monkeypatch.setattr(BrokerCalls, "max_offset", max_offset)
    consumer = make(handle)
    run_until_drained(consumer)
    assert seen == [0, 1]


def test_what_is_parked_or_a_dead_letter_is_dealt_with(make, producer, topic):
    def ship(message, attempt):
        if (message.sharding_key, int(message.body)) == ("a", 1):
            raise ValueError("bad")
        return Ack()

    send_numbers(producer, topic, KEYS, 3)
    listener = Listener(ship, on_error={ValueError: "park_key"})
    consumer = make(listener, order="key")
    with consumer:
        run_until_drained(consumer)
        assert [k.key for keys in consumer.parked().values() for k in keys] == ["a"]
        assert consumer.state == "running", "one that ran goes on"


def test_what_waits_is_named_when_the_time_is_over(make, producer, topic):
    send_numbers(producer, topic, ["a"], 3)
    with make(lambda messages, context: Suspend(20)) as consumer:
        eventually(lambda: Why.SUSPENDED in {e.why for e in consumer.explain()})
        with pytest.raises(NotDrained, match=r"left after 0.1 s: .*/broker-a/\d+: .*suspended"):
            run_until_drained(consumer, timeout=0.1)
        assert consumer.state == "running"


def test_one_that_was_started_here_is_closed_also_when_the_time_is_over(make, producer, topic):
    send_numbers(producer, topic, ["a"], 3)
    consumer = make(lambda messages, context: Suspend(20))
    with pytest.raises(NotDrained, match=r"left after 0.1 s: "):
        run_until_drained(consumer, timeout=0.1)
    assert consumer.state == "closed"


def test_in_an_asyncio_program(make, producer, topic):
    send_numbers(producer, topic, KEYS, 3)
    seen = []

    async def handle(messages, context):
        seen.append(messages[0].body)
        return Ack()

    asyncio.run(asyncio.to_thread(run_until_drained, make(handle)))
    assert len(seen) == 9


# --- a group that begins at the end ---------------------------------------------------------------


def never(messages, context):
    raise AssertionError("nothing is to be handled")


@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
def test_what_a_new_group_would_pass_over_is_not_drained(
    make, model, producer, topic, client, group, tmp_path
):
    send_numbers(producer, topic, KEYS, 2)
    own = {"instance": "i", "offsets_folder": str(tmp_path)} if model == "broadcasting" else {}
    consumer = make(never, consume_from="last", model=model, **own)
    with pytest.raises(ConfigError, match=r"pass over the 6 messages .*consume_from='first'"):
        run_until_drained(consumer)
    assert consumer.state == "closed"
    queues = client.routes.get(topic).read_queues()
    assert {client.brokers.query_offset(group, queue) for queue in queues} == {None}
    seen = []

    def handle(messages, context):
        seen.extend(messages)
        return Ack()

    run_until_drained(make(handle, model=model, **own))
    assert len(seen) == 6, "nothing was committed for the one that was refused"


@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
def test_a_group_that_is_known_goes_on_from_its_offsets(make, model, producer, topic, tmp_path):
    """consume_from says nothing to it."""
    own = {"instance": "i", "offsets_folder": str(tmp_path)} if model == "broadcasting" else {}
    seen = []

    def handle(messages, context):
        seen.extend(messages)
        return Ack()

    with make(handle, consume_from="last", model=model, **own) as first:
        eventually(lambda: len(first.assignment) == QUEUES)
    send_numbers(producer, topic, KEYS, 2)
    run_until_drained(make(handle, consume_from="last", model=model, **own))
    assert len(seen) == 6


def test_a_topic_without_messages_has_nothing_to_pass_over(make):
    run_until_drained(make(never, consume_from="last"))


def test_one_that_was_started_by_the_program_is_waited_for(make, producer, topic):
    """It may have begun before the messages were sent; that is the program's to know."""
    send_numbers(producer, topic, KEYS, 2)
    with make(never, consume_from="last") as consumer:
        run_until_drained(consumer)


def test_an_empty_topic_is_drained_at_once(make):
    run_until_drained(make(lambda messages, context: Ack()))


@pytest.mark.parametrize("wrong", [{"consumer": "text"}, {"timeout": 0}, {"timeout": "3"}])
def test_what_is_no_consumer_or_no_time_is_refused(make, wrong):
    with pytest.raises(ConfigError):
        run_until_drained(**{"consumer": make(lambda m, c: Ack())} | wrong)
