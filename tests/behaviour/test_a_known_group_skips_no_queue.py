"""Where a queue begins that has no offset: as told for a new group, at its first message else.

A topic gets queues while its group is stopped, or the queue falls to a member that was started
since: what was sent there before is not skipped, whatever consume_from says.
"""

import threading
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from orderly import Client, ClientConfig, ConsumerConfig, OrderlyConsumer
from orderly.client.broker import BrokerCalls
from orderly.client.dialogues import performer
from orderly.errors import RequestTimeout
from orderly.model import MessageQueue
from orderly.ordering.allocation import by_config
from orderly.ordering.broker_calls import Peek, Peeked, QueueEnds
from orderly.testing import FakeBroker
from tests.support.brokers import delete_topic, set_topic
from tests.support.consuming import Recorder, send_numbers, unique
from tests.support.waiting import await_visible, eventually, patient_client, patient_producer

KEYS = [f"order-{i}" for i in range(20)]
QUICK = {"route_interval": 0.2, "rebalance_interval": 0.2, "commit_interval": 0.2}
NEVER = {"route_interval": 3600.0, "rebalance_interval": 3600.0}  # the old queues are all it knows
OLD, NEW = range(4), range(4, 7)
LONG = 60  # seconds: a proxy tells its old route for a while
BEYOND = "2100-01-01T00:00:00Z"  # as of a program that begins new groups when it was started


@pytest.fixture(params=["queue", "key"])
def order(request):
    return request.param


@pytest.fixture(params=["last", BEYOND], ids=["last", "time"])
def late(request):
    return request.param


def some_of(topic, numbers):
    """An allocation that gives a member these queues, as far as there are any."""
    return by_config([MessageQueue(topic, "broker-a", number) for number in numbers])


def grown(client, namesrv, topic, *, first):
    """Give the topic three queues more, and send three messages of each key to all seven."""
    set_topic(client, topic, read=7, write=7)
    eventually(lambda: len(client.routes.refresh(topic).read_queues()) == 7)
    with patient_producer(namesrv) as producer:
        sent = send_numbers(producer, topic, KEYS, 3, first=first)
    assert {result.queue.queue_id for result in sent} == {*OLD, *NEW}


@pytest.fixture
def grow(client, operator_namesrv, topic, group, state_topics):
    def grow(*, first):
        grown(client, operator_namesrv, topic, first=first)
        state_topics(group, topic)

    return grow


@dataclass
class Handled:
    """What the members of a group were given."""

    seen: object

    def are(self, *numbers):
        """Wait until each key's messages were handled, and these alone, in their order."""
        eventually(lambda: all(numbers[-1] in self.seen.numbers(key) for key in KEYS), within=LONG)
        assert self.seen.by_key() == {key: list(numbers) for key in KEYS}


@pytest.fixture
def consumed(producer, topic, start_group, order):
    """The group has handled the messages 0 and 1 of each key, and is stopped."""
    former = start_group(order=order, **QUICK)
    send_numbers(producer, topic, KEYS, 2)
    Handled(former.seen).are(0, 1)
    former.close()


@pytest.mark.usefixtures("consumed")
def test_what_was_sent_to_new_queues_while_the_group_was_stopped(grow, order, late, start_group):
    grow(first=2)
    members = start_group(order=order, consume_from=late, queues=7, **QUICK)
    Handled(members.seen).are(2, 3, 4)


def test_what_was_sent_before_a_member_was_started_that_gets_the_new_queues(
    grow, order, late, producer, topic, start_member
):
    """The one that runs has only seen the old queues, and keeps them."""
    options = {"order": order, "allocate": some_of(topic, OLD), **NEVER}
    _, seen = start_member(consume_from="first", **options)
    send_numbers(producer, topic, KEYS, 2)
    Handled(seen).are(0, 1)
    grow(first=2)
    allocate = some_of(topic, NEW)
    start_member(consume_from=late, order=order, allocate=allocate, recorder=seen, **QUICK)
    Handled(seen).are(0, 1, 2, 3, 4)


@pytest.mark.usefixtures("consumed")
def test_while_nobody_knows_whether_the_group_is_new_the_queue_waits(
    grow, order, late, start_member, monkeypatch
):
    """A broker that may have the other offsets is silent; queues that have one go on."""
    grow(first=2)
    asked, answers, ask = [], threading.Event(), BrokerCalls.has_offsets

    def silent(self, group, queues):
        asked.append(queues)
        if not answers.is_set():
            raise RequestTimeout("made by the test")
        return ask(self, group, queues)

    monkeypatch.setattr(BrokerCalls, "has_offsets", silent)
    member, seen = start_member(order=order, consume_from=late, **QUICK)
    eventually(lambda: len(asked) > 2, within=LONG)  # at the start, and for queues in two rounds
    eventually(lambda: {queue.queue_id for queue in member.assignment} == {*OLD}, within=LONG)
    answers.set()
    Handled(seen).are(2, 3, 4)


@pytest.mark.parametrize("late", ["last"])
def test_a_new_groups_members_that_start_together_begin_as_told(
    order, late, producer, topic, client, start_member, monkeypatch
):
    """One commits its start before the other takes its queues; by then the group has an offset.

    What was sent before comes to neither of them, what is sent since to each.
    """
    send_numbers(producer, topic, KEYS, 2)
    await_visible(client)
    go_on, lock_queues = threading.Event(), BrokerCalls.lock_queues

    def held_up(self, group, broker_name, queues, *rest):
        if any(queue.topic == topic and queue.queue_id >= 2 for queue in queues):
            assert go_on.wait(60)
        return lock_queues(self, group, broker_name, queues, *rest)

    monkeypatch.setattr(BrokerCalls, "lock_queues", held_up)
    options = {"order": order, "consume_from": late}
    _, seen = start_member(allocate=some_of(topic, (2, 3)), **options)
    first, _ = start_member(allocate=some_of(topic, (0, 1)), recorder=seen, **options)
    eventually(lambda: len(first.assignment) == 2, within=20)
    send_numbers(producer, topic, KEYS, 2, first=2)
    go_on.set()
    Handled(seen).are(2, 3)


def test_where_queues_end_a_broker_tells_as_a_pull_shows_it(producer, topic, client):
    """Or a queue would be taken for one of a topic that was made anew."""
    queues = client.routes.get(topic).read_queues()
    send_numbers(producer, topic, KEYS[:3], 1)
    await_visible(client)
    perform = performer("anybody", client.brokers)
    ends = perform(QueueEnds(queues))
    assert sum(last.end for last in ends.values()) == 3
    for queue, last in ends.items():
        pulled = perform(Peek(queue, last.end - 1)) if last.end else Peeked(None, 0)
        assert last == pulled


def test_a_broadcasting_member_that_was_stopped(
    grow, late, producer, topic, start_member, tmp_path
):
    options = {"model": "broadcasting", "instance": "one", "offsets_folder": str(tmp_path)}
    former, seen = start_member(consume_from="first", **options, **QUICK)
    send_numbers(producer, topic, KEYS, 2)
    Handled(seen).are(0, 1)
    former.close()
    grow(first=2)
    _, again = start_member(consume_from=late, **options, **QUICK)
    Handled(again).are(2, 3, 4)


def test_by_key_the_records_of_other_queues_know_a_group_whose_offsets_were_deleted(
    producer, topic, client, operator_namesrv, late, start_group, state_topics, group
):
    """With their topic, which is made anew, with more queues, while nobody runs."""
    former = start_group(order="key", **QUICK)
    send_numbers(producer, topic, KEYS, 2)
    Handled(former.seen).are(0, 1)
    former.close()
    delete_topic(client, topic)
    client.admin.create_topic(topic, 4)
    grown(client, operator_namesrv, topic, first=2)
    state_topics(group, topic)
    members = start_group(order="key", consume_from=late, queues=7, **QUICK)
    Handled(members.seen).are(2, 3, 4)


# --- a broker that joins the topic while the one that knows the group is silent -------------------


def test_a_queue_at_a_new_broker_waits_for_the_brokers_that_may_know_the_group(
    order, late, closing, group
):
    brokers = closing(FakeBroker(brokers=("broker-a", "broker-b")))
    client, topic = closing(patient_client(brokers.namesrv)), unique("topic")
    client.admin.create_topic(topic, 4, broker="broker-a")
    seen = Recorder()

    def member(consume_from):
        config = ConsumerConfig(order=order, consume_from=consume_from, rebalance_interval=0.2)
        own = closing(Client(ClientConfig(namesrv=brokers.namesrv, request_timeout=1.0)))
        consumer = OrderlyConsumer(group, seen, client=own, config=config)
        return closing(consumer.subscribe(topic))

    with patient_producer(brokers.namesrv) as producer:
        send_numbers(producer, topic, KEYS, 2)
    former = member("first")
    Handled(seen).are(0, 1)
    former.close()
    set_topic(client, topic, read=4, write=4)  # at both
    eventually(lambda: len(client.routes.refresh(topic).read_queues()) == 8)
    with patient_producer(brokers.namesrv) as producer:
        sent = send_numbers(producer, topic, KEYS, 2, first=2)
    assert {result.queue.broker_name for result in sent} == {"broker-a", "broker-b"}
    brokers.pause_broker("broker-a")
    with capture_logs() as events:
        fresh = member(late)
        eventually(lambda: "queue.start_unknown" in {e["event"] for e in events}, within=LONG)
    assert fresh.assignment == ()
    brokers.resume_broker("broker-a")
    Handled(seen).are(0, 1, 2, 3)
