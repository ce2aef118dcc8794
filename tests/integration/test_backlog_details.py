"""What a real broker and its members, Java's and ours, tell of groups that are in trouble."""

import threading
import time

import pytest

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer, Park
from orderly.monitoring.backlog.members import is_ordered, keeps_order_by_key
from orderly.monitoring.backlog.reading import GroupReading
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.scan import Collector
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.locks import locks, silent
from orderly.namespace import DEAD_PREFIX
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.locks import lock_request
from orderly.protocol.members import queue_reports
from tests.support.java import ForeignMember, mqadmin
from tests.support.snapshots import ALWAYS, PATIENT
from tests.support.waiting import PATIENCE, eventually, patient_client

SECRET = "4711"  # a body


class Watch:
    """Scans again and again with details about one group."""

    def __init__(self, client, group, budgets=ALWAYS):
        self.group = group
        self.collector = Collector(client, Selection(groups=(group,)), PATIENT)
        self.details = Details(self.collector.pipeline, budgets, asked=(group,))

    def scan(self):
        return self.details.add(self.collector.scan(), None, self.collector.round)

    def reading(self):
        return self.scan().groups.get(self.group) or GroupReading(self.group)

    def until(self, condition, within=90.0):
        """The first reading that meets the condition."""

        def met():
            reading = self.reading()
            return reading if condition(reading) else None

        return eventually(met, within, every=0.2)


@pytest.fixture
def send(producer, topic):
    def send(*bodies, key="k"):
        for body in bodies:
            producer.send(Message(topic, str(body).encode(), sharding_key=key, tags="t"))

    return send


@pytest.fixture
def watch(client, group):
    return Watch(client, group)


@pytest.fixture
def consume(orderly_namesrv, group, topic, closing):
    """Start a member of ours; closed at the end."""

    def consume(handler, **config):
        settings = ConsumerConfig(consume_from="first", close_timeout=1.0, **config)
        own = closing(patient_client(orderly_namesrv))
        consumer = OrderlyConsumer(group, handler, client=own, config=settings)
        return closing(consumer.subscribe(topic))

    return consume


def info_of(reading, queue):
    """What the member that has the queue tells of it."""
    infos = (info.queues.get(queue) for info in reading.running.values())
    return next((info for info in infos if info is not None), None)


def news_of(reading, queue):
    told = (queue_reports(info).get(queue) for info in reading.running.values())
    return next((news for news in told if news is not None), None)


def start_at_first(client, group, queue):
    """Java commits nothing before its first success, so the queue would stay new."""
    client.groups.group_config(group, "broker-a")  # makes the group
    client.brokers.update_offset(group, queue, 0)


def test_a_java_member_whose_handler_does_not_return(
    java_command, orderly_namesrv, client, group, topic, queue, send, watch
):
    start_at_first(client, group, queue)
    send(1, 2, 3)
    with ForeignMember(java_command, orderly_namesrv, group, topic, "blocked") as member:
        reading = watch.until(lambda r: (info := info_of(r, queue)) and info.in_hand_count)
        info = info_of(reading, queue)
        assert (info.in_hand_count, info.in_hand_min, info.commit_offset) == (1, 0, 0)
        assert info.last_consume_time <= reading.running_at
        assert is_ordered(reading)
        assert keeps_order_by_key(reading) is None
        head = reading.heads[queue]
        assert (head.offset, head.key, head.tags, head.attempts) == (0, "k", "t", None)
        assert 0 < reading.delays[queue] < 60
        (lock,) = locks(watch.scan(), group)
        assert (lock.owner, lock.locked, lock.claimants) == (
            member.client_id,
            True,
            (member.client_id,),
        )
        assert lock.lock_age < 60, "Java renews it every 20 s"


def test_a_java_member_whose_handler_asks_again_and_again(
    java_command, orderly_namesrv, client, group, topic, queue, send, watch
):
    start_at_first(client, group, queue)
    send(1, 2, 3)
    with ForeignMember(java_command, orderly_namesrv, group, topic, "suspended") as member:
        eventually(lambda: len(member.deliveries) > 2, within=90)
        reading = watch.until(lambda r: (info := info_of(r, queue)) and not info.in_hand_count)
        info = info_of(reading, queue)
        assert (info.commit_offset, info.cached_min, info.cached_count) == (0, 0, 3)
        fresh = watch.until(
            lambda r: (i := info_of(r, queue)) and i.last_consume_time > info.last_consume_time
        )
        assert info_of(fresh, queue).commit_offset == 0
        assert news_of(fresh, queue) is None, "a foreign member tells nothing of the kind"


def test_a_member_that_is_refused_the_lock_does_not_list_the_queue(
    java_command, orderly_namesrv, client, group, topic, queue, send, watch
):
    start_at_first(client, group, queue)
    send(1)
    with patient_client(orderly_namesrv) as other:
        assert other.brokers.lock_queues(group, "broker-a", (queue,)) == {queue}
        with ForeignMember(java_command, orderly_namesrv, group, topic):
            reading = watch.until(lambda r: r.running)
            assert info_of(reading, queue) is None
            (lock,) = [lock for lock in locks(watch.scan(), group) if lock.queue == queue]
            assert (lock.owner, lock.locked, lock.claimants) == (None, False, ())
        other.brokers.unlock_queues(group, "broker-a", (queue,))


@pytest.mark.slow  # Java renews its locks every 20 s
@pytest.mark.nightly
def test_a_java_member_that_lost_the_lock_lists_the_queue_without_it(
    java_command, orderly_namesrv, client, group, topic, queue, send, watch
):
    start_at_first(client, group, queue)
    send(1)
    with ForeignMember(java_command, orderly_namesrv, group, topic) as member:
        watch.until(lambda r: (info := info_of(r, queue)) and info.locked)
        take_away(client, group, member.client_id, queue)
        with patient_client(orderly_namesrv) as other:
            assert other.brokers.lock_queues(group, "broker-a", (queue,)) == {queue}
            reading = watch.until(lambda r: (info := info_of(r, queue)) and not info.locked)
            (lock,) = [lock for lock in locks(watch.scan(), group) if lock.queue == queue]
            assert (lock.owner, lock.locked) == (member.client_id, False)
            assert lock.lock_age > 10
            assert silent(reading) == ()
            other.brokers.unlock_queues(group, "broker-a", (queue,))


def take_away(client, group, client_id, queue):
    """Unlock a queue in the name of its owner, as nobody should."""
    body = lock_request(group, client_id, [queue])
    connection = client.connections.get(client.routes.address(queue))
    assert connection.call(request(RequestCode.UNLOCK_BATCH_MQ, body=body), PATIENCE).code == 0


def test_nothing_is_claimed_of_a_member_that_hangs(
    java_command, orderly_namesrv, client, group, topic, queue, send, watch, consume
):
    start_at_first(client, group, queue)
    send(1)
    with ForeignMember(java_command, orderly_namesrv, group, topic, "blocked") as member:
        watch.until(lambda r: info_of(r, queue))
        with member.stopped():
            scan = watch.scan()
        reading = scan.groups[group]
        assert silent(reading) == (member.client_id,)
        assert reading.delays[queue] > 0, "the broker is well, and was asked on"
        assert [(lock.owner, lock.locked) for lock in locks(scan, group)] == [(None, None)]


def test_ours_tells_how_often_and_how_it_fails_and_no_body(
    orderly_namesrv, group, topic, queue, send, watch, consume
):
    def fails(messages, context):
        raise ValueError(f"no such account: {messages[0].body}")

    send(SECRET, 2)
    consume(fails, suspend=0.5)
    reading = watch.until(lambda r: (news := news_of(r, queue)) and news.attempts >= 3)
    news = news_of(reading, queue)
    assert (news.offset, news.key) == (0, "k")
    assert news.failing_for > 0
    assert "ValueError: no such account" in news.reason
    head = reading.heads[queue]
    assert (head.attempts, head.fingerprint) == (news.attempts, news.reason)
    (info,) = reading.running.values()
    assert SECRET not in "".join(info.user.values())
    (member,) = reading.running
    printed = mqadmin("consumerStatus", "-g", group, "-i", member, namesrv=orderly_namesrv)
    assert '"reason":"ValueError: no such account' in printed


def test_ours_tells_of_a_handler_that_does_not_return(queue, send, watch, consume):
    go = threading.Event()

    def waits(messages, context):
        go.wait(300)
        return ConsumeResult.SUCCESS

    send(1, 2)
    consume(waits, handler_timeout=1.0)
    try:
        reading = watch.until(lambda r: (news := news_of(r, queue)) and news.why == "HUNG")
        news = news_of(reading, queue)
        assert (news.offset, news.attempts, news.failing_for) == (0, 1, None)
        assert news.seconds >= 1.0
        assert info_of(reading, queue).in_hand_min == 0
    finally:
        go.set()


def test_what_is_finished_ahead_and_parked_is_known_of_a_group_by_key(
    group, queue, send, watch, consume
):
    go, stuck = threading.Event(), threading.Event()

    def handler(messages, context):
        key = messages[0].sharding_key
        if key == "slow":
            stuck.set()
            go.wait(300)
        return Park("bad record") if key == "bad" else ConsumeResult.SUCCESS

    began = time.time()
    send(1, key="slow")
    send(2, 3, key="bad")
    send(*range(4, 14), key="good")
    consumer = consume(handler, order="key", commit_interval=0.2)
    try:
        assert stuck.wait(60)
        watch.until(keeps_order_by_key)
        record = watch.until(
            lambda r: (rec := r.records.get(queue)) and rec.parked and rec.unfinished == 1
        ).records[queue]
        assert [(key.key, key.messages) for key in record.parked] == [("bad", 2)]
        assert began - 1 <= record.parked_since <= time.time()
        assert record.low == 0
        assert watch.scan().committed[group, queue.topic] == (0,), "the span is 13"
    finally:
        go.set()
    reading = watch.until(lambda r: (rec := r.records.get(queue)) and rec.unfinished == 0)
    record = reading.records[queue]
    assert [key.key for key in record.parked] == ["bad"], "parked is not backlog"
    consumer.close()
    assert watch.reading().records[queue] == record, "nobody needs to be online for that"


def test_dead_letters_and_the_brokers_clock(client, producer, group, topic, queue, send, watch):
    start_at_first(client, group, queue)
    dead = DEAD_PREFIX + group
    client.admin.create_topic(dead, queues=1)
    producer.send(Message(dead, b"1", sharding_key="k"))
    producer.send(Message(dead, b"2", sharding_key="k"))
    send(1)
    letters = watch.until(lambda r: r.dead and r.dead.messages == 2).dead
    assert letters.maximum == 2
    assert abs(letters.oldest_at - time.time()) < 30
    watch.until(lambda r: r.heads)
    offset = watch.scan().brokers["broker-a"].clock_offset
    assert abs(offset) < 30.0, "it runs on this machine; what an answer took is in it"


def test_questions_leave_no_trace(client, orderly_namesrv, group, topic, queue, send, watch):
    start_at_first(client, group, queue)
    send(1, 2, 3)
    watch.until(lambda r: r.heads)
    nobody = Watch(client, "nobody-knows-it")
    before = traces(client, group)
    for _ in range(3):
        reading = watch.reading()
        nobody.scan()
    assert reading.heads
    assert reading.delays
    assert reading.read_at > 0
    assert traces(client, group) == before
    with patient_client(orderly_namesrv) as other:
        assert other.brokers.lock_queues(group, "broker-a", (queue,)) == {queue}, "it is free"
        other.brokers.unlock_queues(group, "broker-a", (queue,))


def traces(client, group):
    """What a question might leave behind at the broker."""
    found = client.admin.consumer_connections(group)
    return client.admin.groups(), client.admin.topics(), found, client.admin.consume_stats(group)
