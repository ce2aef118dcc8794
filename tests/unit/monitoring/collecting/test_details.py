"""Details of a scan of two fake brokers: who is asked, within which budget, and what is kept."""

import threading
import time
from dataclasses import replace

import pytest

from orderly.client.peer_requests import GroupAnswers
from orderly.client.pipeline import RequestLimits
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import GroupReading
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import PROXY_TOPIC, Selection
from orderly.namespace import DEAD_PREFIX
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import QueueInfo, QueueReport, RunningInfo, report_texts
from orderly.testing.fake.faults import Fail, Fault
from tests.support.owners import HandOwner
from tests.support.waiting import eventually, patient_client, patient_producer

ASKED = {Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_CONSUMER_RUNNING_INFO,
         Code.QUERY_CONSUME_TIME_SPAN, Code.QUERY_CONSUME_QUEUE,
         Code.VIEW_MESSAGE_BY_ID}  # fmt: skip
QUEUE = MessageQueue("orders", "broker-a", 0)
ORDERED = {"PROP_CONSUMEORDERLY": "true"}
SHORT = 6.0  # seconds: where somebody keeps silent, and others must answer in time


class Watch:
    def __init__(self, client, asked=(), patience=10.0, **budgets):
        settings = ScanSettings(deadline=60.0, limits=RequestLimits(patience=patience))
        self.collector = Collector(client, Selection(), settings)
        self.details = Details(
            self.collector.pipeline, Budgets(**({"every": 0.0} | budgets)), asked
        )

    def scan(self):
        return self.details.add(self.collector.scan(), None, self.collector.round)

    def of(self, group="pay"):
        return self.scan().groups.get(group) or GroupReading(group)


@pytest.fixture
def pay(world):
    """Group "pay" has read 3 of 5 messages in queue 0 of broker-a."""
    world.topic("orders")
    world.group("pay")
    world.store("orders", 0, 5)
    world.commit("pay", "orders", {0: 3, 1: 0})


@pytest.fixture
def member(fakes):
    """Have a member of a group that tells a running info, or calls a function for it."""
    clients = []

    def member(info, group="pay"):
        everything = Subscription("orders", version=1)
        client = patient_client(fakes.namesrv).start()
        clients.append(client)
        client.heartbeat.register_consumer(
            group,
            subscriptions=lambda: (everything,),
            on_members_changed=lambda: None,
            answers=GroupAnswers(
                lambda _: info() if callable(info) else info,
                lambda _: None,
                lambda _: {},
                lambda _: None,
            ),
        )
        client.heartbeat.heartbeat_now()
        return client.client_id

    yield member
    for client in clients:
        client.close()


def info(properties=ORDERED, **report):
    told = report_texts([(QUEUE, QueueReport(**({"why": "SUSPENDED"} | report)))])
    return RunningInfo(properties, (), {QUEUE: QueueInfo(locked=True)}, user=told)


def test_members_are_merged_over_the_brokers_and_asked_what_they_do(pay, client, member):
    name, other = member(info()), member(info())
    reading = Watch(client).of()
    assert [c.client_id for c in reading.connections.connections] == sorted([name, other])
    assert reading.running.keys() == {name, other}
    assert 0 < reading.read_at <= reading.running_at


def test_a_group_without_members_was_asked_about(pay, client):
    reading = Watch(client).of()
    assert (reading.connections, reading.running, reading.errors) == (None, {}, {})
    assert reading.read_at > 0


@pytest.mark.parametrize(("ago", "known"), [(5, False), (3600, True)])
def test_where_a_proxy_is_nobody_is_said_to_be_away(pay, client, world, ago, known):
    world.topic(PROXY_TOPIC, 1)
    world.store(PROXY_TOPIC, 0, 1, at=time.time() - ago)
    reading = Watch(client).of()
    assert reading.connections is None
    assert (not reading.errors) == known


def test_who_is_online_needs_no_look_for_a_proxy(pay, client, world, member):
    member(info())
    world.topic(PROXY_TOPIC, 1)
    world.store(PROXY_TOPIC, 0, 1, at=time.time())
    reading = Watch(client).of()
    assert (reading.errors, len(reading.running)) == ({}, 1)


def test_a_broker_that_cannot_say_who_is_connected_is_named(pay, client, fakes, member):
    member(info())
    fakes.script(Fault(Code.GET_CONSUMER_CONNECTION_LIST, Fail(1, "not for you")))
    reading = Watch(client).of()
    ((broker, error),) = reading.errors.items()
    assert broker in ("broker-a", "broker-b")
    assert "not for you" in error
    assert len(reading.running) == 1, "the other one knows it"


def test_a_member_that_does_not_answer_is_left_out_and_costs_the_others_nothing(
    pay, client, world, member
):
    world.store("orders", 0, 1, "broker-b")
    world.commit("pay", "orders", {0: 0}, "broker-b")
    go = threading.Event()
    name = member(info())
    for _ in range(3):  # so many silent answers in a row would be a broker that is given up
        member(lambda: go.wait(60) and info())
    try:
        reading = Watch(client, patience=SHORT).of()
        assert reading.running.keys() == {name}
        assert {queue.broker_name for queue in reading.delays} == {"broker-a", "broker-b"}
        assert {queue.broker_name for queue in reading.heads} == {"broker-a", "broker-b"}
    finally:
        go.set()


def test_a_member_that_left_takes_what_it_told_along(pay, client, member):
    member(info())
    watch = Watch(client, members=0)
    assert watch.of().running == {}, "there is no budget to ask it"
    watch = Watch(client)
    (name,) = watch.of().running
    other = patient_client(client.config.namesrv)
    other.close()
    assert watch.of().running.keys() == {name}


def test_what_waits_has_an_age_and_a_head_with_what_its_owner_tells(pay, client, member):
    member(info(offset=3, attempts=4, reason="ValueError"))
    reading = Watch(client).of()
    head = reading.heads[QUEUE]
    assert (head.offset, head.attempts, head.fingerprint) == (3, 4, "ValueError")
    assert head.stored_at == 1_700_000_000.0
    assert reading.delays[QUEUE] > 0
    assert reading.delays_at > 0


def test_of_what_was_deleted_no_age_is_known_and_the_oldest_there_is_the_head(pay, client, world):
    world.expire("orders", 0, 4)
    reading = Watch(client).of()
    assert QUEUE not in reading.delays
    assert reading.heads[QUEUE].offset == 4


def test_what_is_told_of_another_message_is_not_said_of_the_head(pay, client, member):
    member(info(offset=2, attempts=4))
    assert Watch(client).of().heads[QUEUE].attempts is None


def test_a_head_is_read_once_and_anew_when_there_is_another(pay, client, world):
    watch = Watch(client)
    counts = world.count()
    assert [watch.of().heads[QUEUE].offset for _ in range(3)] == [3, 3, 3]
    assert counts[Code.VIEW_MESSAGE_BY_ID] == 1
    world.commit("pay", "orders", {0: 4})
    assert watch.of().heads[QUEUE].offset == 4
    world.commit("pay", "orders", {0: 5})
    reading = watch.of()
    assert (reading.heads, reading.delays) == ({}, {})


def test_a_group_is_asked_again_only_after_a_while(pay, client, world, member):
    member(info())
    watch = Watch(client, every=1000.0)
    first = watch.of()
    counts = world.count()
    second = watch.of()
    assert not ASKED & {code for code, count in counts.items() if count}
    assert (second.connections, second.running, second.delays) == (
        first.connections,
        first.running,
        first.delays,
    )
    assert (second.read_at, second.running_at) == (first.read_at, first.running_at)


def test_within_a_budget_each_group_has_its_turn(client, world):
    world.topic("orders")
    world.store("orders", 0, 5)
    for number in range(4):
        world.group(f"g{number}")
        world.commit(f"g{number}", "orders", {0: number})
    watch = Watch(client, groups=1, delays=1, heads=1, asked=["g2"])
    counts = world.count()
    asked = [{g for g, r in watch.scan().groups.items() if r.read_at} for _ in range(2)]
    assert asked == [{"g2"}, {"g2"}], "what was asked for comes first each time"
    assert counts[Code.QUERY_CONSUME_TIME_SPAN] == 2
    assert counts[Code.QUERY_CONSUME_QUEUE] == 2
    others = Watch(client, groups=1, every=1000.0)
    for _ in range(4):
        last = others.scan()
    assert all(reading.read_at for reading in last.groups.values())


def test_groups_in_step_are_asked_what_their_members_do_only_to_learn_whether_they_are_ordered(
    pay, client, world, member
):
    member(info({"PROP_CONSUMEORDERLY": "false"}))
    world.commit("pay", "orders", {0: 5})
    watch = Watch(client)
    counts = world.count()
    for _ in range(3):
        watch.scan()
    assert counts[Code.GET_CONSUMER_RUNNING_INFO] == 1
    world.commit("pay", "orders", {0: 4})
    watch.scan()
    assert counts[Code.GET_CONSUMER_RUNNING_INFO] == 2


def test_nothing_is_asked_of_a_broker_that_is_away(pay, client, fakes):
    watch = Watch(client)
    watch.scan()
    fakes.kill_broker("broker-b")
    scan = watch.scan()
    assert scan.groups["pay"].errors.keys() == {"broker-b"}
    assert scan.groups["pay"].heads.keys() == {QUEUE}
    assert scan.brokers["broker-b"].error is not None


def test_groups_that_are_gone_are_forgotten(pay, client, world):
    watch = Watch(client)
    assert "pay" in watch.scan().groups
    world.forget_group("pay")
    assert "pay" not in watch.scan().groups


def test_dead_letters_are_counted_and_the_oldest_is_asked_for_once(pay, client, world):
    world.topic(DEAD_PREFIX + "pay", read=1)
    world.store(DEAD_PREFIX + "pay", 0, 3)
    world.commit("pay", "orders", {0: 5})
    watch = Watch(client)
    counts = world.count()
    dead = [watch.of().dead for _ in range(2)]
    assert [(each.messages, each.oldest_at) for each in dead] == [(3, 1_700_000_000.0)] * 2
    assert counts[Code.QUERY_CONSUME_TIME_SPAN] == 1
    world.expire(DEAD_PREFIX + "pay", 0, 2)
    assert watch.of().dead.messages == 1
    assert counts[Code.QUERY_CONSUME_TIME_SPAN] == 2


def test_the_scan_tells_what_all_that_cost(pay, client, world, member):
    member(info())
    counts = world.count()
    scan = Watch(client).scan()
    assert {code: scan.requests[code] for code in ASKED} == {code: counts[code] for code in ASKED}
    assert scan.brokers["broker-a"].requests >= 7


def test_a_clock_that_is_ahead_is_seen_in_the_scan_after_the_one_that_asked(pay, client, fakes):
    fakes.jump_clock(100.0)
    watch = Watch(client)
    watch.scan()
    scan = watch.scan()
    assert scan.brokers["broker-a"].clock_offset == pytest.approx(100.0, abs=30.0)
    assert scan.brokers["broker-b"].clock_offset is None, "nothing waits there"


def test_a_queue_that_moves_on_during_a_scan_does_not_put_the_clock_back(pay, client, fakes, world):
    watch = Watch(client)
    world.commit("pay", "orders", {0: 4})
    world.store("orders", 0, 1, at=1_700_001_000.0)
    fakes.jump_clock(150.0)
    watch.scan()
    base = watch.collector.scan()
    world.commit("pay", "orders", {0: 5})
    offsets = [watch.details.add(base, None, watch.collector.round), watch.scan(), watch.scan()]
    assert [scan.brokers["broker-a"].clock_offset for scan in offsets] == [
        pytest.approx(150.0, abs=30.0)
    ] * 3


def test_a_group_whose_members_keep_silent_is_not_asked_again_soon(pay, client, world, member):
    world.group("ship")
    world.commit("ship", "orders", {0: 1})
    go = threading.Event()
    for _ in range(6):
        member(lambda: go.wait(60) and info())
    watch = Watch(client, patience=SHORT, every=30.0)
    try:
        counts = world.count()
        assert watch.of().running == {}
        assert counts[Code.GET_CONSUMER_RUNNING_INFO] == 4, "each holds a thread of the broker"
        watch.details._roster._known["pay"] = replace(watch.of(), running_at=time.time() - 60.0)
        watch.of()
        assert counts[Code.GET_CONSUMER_RUNNING_INFO] == 4
    finally:
        go.set()


def test_members_that_could_not_be_asked_keep_what_they_told(pay, client, world, member):
    world.group("ship")
    world.commit("ship", "orders", {0: 1})
    name = member(info(), group="ship")
    watch = Watch(client, patience=SHORT)
    assert watch.of("ship").running.keys() == {name}
    go = threading.Event()
    for _ in range(6):
        member(lambda: go.wait(60) and info())
    try:
        watch.scan()
        watch.details._roster._known["ship"] = replace(watch.of("ship"), running_at=time.time())
        watch.scan()
        assert watch.of("ship").running.keys() == {name}
    finally:
        go.set()


@pytest.fixture
def owner(fakes, world):
    """Owns queue 0 of "keyed" by key; has parked three messages of key "a"."""
    world.group("ship")
    world.topic("keyed", read=1, brokers=["broker-a"])
    for topic in (state_topic("ship", "keyed"), park_topic("ship", "keyed")):
        world.topic(topic, read=1)
    with patient_client(fakes.namesrv) as client, patient_producer(client=client) as producer:
        owner = HandOwner(client, producer, "ship", "keyed").take()
        owner.park("a", b"one", b"two", b"three", reason="poison", attempts=2)
        owner.record()
        yield owner


def test_a_state_record_tells_what_is_parked_without_a_pull(owner, client, world):
    watch = Watch(client)
    counts = world.count()
    record = watch.of("ship").records[owner.queue]
    assert [(key.key, key.messages) for key in record.parked] == [("a", 3)]
    assert record.unfinished == 0, "what is parked is set aside"
    assert record.parked_since > 0
    asked = counts[Code.QUERY_CONSUME_QUEUE]
    assert watch.of("ship").records[owner.queue] == record
    assert counts[Code.QUERY_CONSUME_QUEUE] == asked, "nothing new was written"
    assert counts[Code.PULL_MESSAGE] == 0


def test_a_record_that_was_not_read_yet_is_not_known(owner, client):
    assert Watch(client, records=0).of("ship").records == {owner.queue: None}
    assert Watch(client, ["ship"], records=0).of("ship").records[owner.queue].parked


def test_a_record_that_cannot_be_read_is_not_known_until_it_can(owner, client, fakes):
    watch = Watch(client)
    fakes.script(Fault(Code.VIEW_MESSAGE_BY_ID, Fail(2, "busy"), times=None))
    assert watch.of("ship").records == {owner.queue: None}
    fakes.script()
    eventually(lambda: watch.of("ship").records[owner.queue])


def test_a_group_that_orders_by_queue_now_has_no_records(owner, client, world, member):
    world.topic("orders")
    member(info(ORDERED | {"order": "queue"}), "ship")
    assert Watch(client).of("ship").records == {}
