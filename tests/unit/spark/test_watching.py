"""What a stream sees while brokers (of a fake cluster) come and go."""

import pytest

from orderly import Client, ClientConfig
from orderly.errors import DataLost, NameServerUnavailable, OrderlyError
from orderly.model import MessageQueue
from orderly.spark.offsets.advancing import advanced, between
from orderly.spark.offsets.ranges import QueueRange
from orderly.spark.options.parsing import parse
from orderly.spark.watching import Watch
from orderly.testing import FakeBroker
from tests.support.fake_logs import delete, expire, fill, make_anew

QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(3)]


@pytest.fixture
def cluster():
    with FakeBroker(brokers=("broker-a", "broker-b")) as fake:
        fake.create_topic("orders", 2)
        fill(fake, "orders", {0: 10, 1: 5})
        fill(fake, "orders", {0: 3}, broker="broker-b")
        yield fake


@pytest.fixture
def stream(cluster):
    with Client(ClientConfig(namesrv=cluster.namesrv, request_timeout=0.3)) as client:
        yield Stream(client)


class Stream:
    """As Spark goes from batch to batch."""

    def __init__(self, client):
        self.client = client
        self.watch = self.restarted()
        self.at = self.watch.beginning()

    def restarted(self, **options):
        given = {"topic": "orders", "startingOffsets": "earliest"} | options
        if "topicPattern" in given:
            del given["topic"]
        self.watch = Watch(self.client, parse(given, "stream"))
        return self.watch

    def batch(self):
        """The next batch: what is read, by (broker, queue id)."""
        end = advanced(self.at, self.watch.look(self.at).spans, None)
        ranges = self.watch.still_there(between(self.at, end))
        self.at = end
        return {
            (each.queue.broker_name[-1], each.queue.queue_id): (each.start, each.end)
            for each in ranges
            if each.messages
        }


ALL = {("a", 0): (0, 10), ("a", 1): (0, 5), ("b", 0): (0, 3)}


def test_what_is_stored_and_what_comes(cluster, stream):
    assert stream.batch() == ALL
    assert stream.batch() == {}
    fill(cluster, "orders", {1: 2})
    assert stream.batch() == {("a", 1): (5, 7)}
    assert stream.watch.ends()[QUEUES[1]] == 7


def test_new_queues_are_read_from_their_first_message(cluster, stream):
    stream.batch()
    cluster.create_topic("orders", 3)
    assert stream.batch() == {}
    fill(cluster, "orders", {2: 4})
    assert stream.batch() == {("a", 2): (0, 4)}


def test_new_topics_of_a_pattern_are_taken_in(cluster, stream):
    stream.restarted(topicPattern="ord.*")
    stream.batch()
    cluster.create_topic("ordinary", 1)
    cluster.create_topic("payments", 1)
    fill(cluster, "ordinary", {0: 1})
    fill(cluster, "payments", {0: 1})
    assert stream.batch() == {("a", 0): (0, 1)}


def test_a_pattern_takes_no_topics_of_other_tenants(cluster):
    for topic in ("shop%orders", "mine%orders"):
        cluster.create_topic(topic, 1)
    config = ClientConfig(namesrv=cluster.namesrv, namespace="shop")
    with Client(config) as client:
        stream = Stream(client)
        watch = stream.restarted(topicPattern=".*")
        assert {queue.topic for queue in watch.beginning()} == {"shop%orders"}
        at = {QUEUES[0]: 0, MessageQueue("shop%orders", "broker-a", 0): 0}
        assert {queue.topic for queue in watch.look(at).spans} == {"shop%orders"}


def test_a_stream_goes_on_while_a_broker_is_away_and_misses_nothing(cluster, stream):
    cluster.kill_broker("broker-a")
    assert stream.batch() == {("b", 0): (0, 3)}
    assert stream.batch() == {}
    cluster.restart_broker("broker-a")
    assert stream.batch() == {key: ALL[key] for key in ALL if key[0] == "a"}


def test_a_broker_that_keeps_silent_is_told_once_and_told_back(cluster, stream, caplog):
    route_lists_it = stream.client.routes.refresh("orders")
    assert route_lists_it.broker("broker-a")
    cluster.pause_broker("broker-a")
    for _ in range(2):
        stream.batch()
    texts = [each.getMessage() for each in caplog.records]
    assert sum("spark.waiting_for" in text and "broker-a" in text for text in texts) == 1
    cluster.resume_broker("broker-a")
    assert ("a", 0) in stream.batch()
    assert any("spark.back" in each.getMessage() for each in caplog.records)


def test_a_broker_that_leaves_the_route_is_told_as_away_and_not_as_back(cluster, stream, caplog):
    def told(what):
        texts = [each.getMessage() for each in caplog.records]
        return sum(what in text and "broker-a" in text for text in texts)

    stream.batch()
    cluster.pause_broker("broker-a")
    stream.batch()
    cluster.kill_broker("broker-a")
    assert not stream.client.routes.refresh("orders").broker("broker-a")
    stream.batch()
    cluster.kill_broker("broker-b")  # now no name server knows the topic
    stream.batch()
    assert (told("spark.waiting_for"), told("spark.back")) == (1, 0)
    cluster.restart_broker("broker-b")
    cluster.restart_broker("broker-a")
    stream.batch()
    assert told("spark.back") == 1
    cluster.kill_broker("broker-a")
    stream.restarted().freeze()  # what is stored there is left for a later run
    stream.batch()
    assert told("spark.waiting_for") == 2


def test_nobody_in_sight_is_no_loss(cluster, stream):
    stream.batch()
    cluster.kill_broker("broker-a")
    cluster.kill_broker("broker-b")
    assert stream.batch() == {}
    cluster.stop()
    assert stream.batch() == {}


def test_the_beginning_and_the_frozen_end_need_everybody(cluster, stream):
    cluster.pause_broker("broker-a")
    with pytest.raises(OrderlyError):
        stream.restarted().beginning()
    with pytest.raises(OrderlyError):
        stream.watch.freeze()
    cluster.stop()
    with pytest.raises(NameServerUnavailable):
        stream.watch.freeze()


def test_what_comes_after_the_freeze_is_for_another_run(cluster, stream):
    stream.watch.freeze()
    fill(cluster, "orders", {0: 5})
    assert stream.batch() == ALL
    assert stream.batch() == {}
    stream.restarted().freeze()
    assert stream.batch() == {("a", 0): (10, 15)}


def test_the_latest_may_be_beyond_the_frozen_end(cluster, stream):
    stream.restarted(startingOffsets="latest").freeze()
    fill(cluster, "orders", {0: 5})  # between the two questions that Spark asks
    stream.at = stream.watch.beginning()
    assert stream.batch() == {}
    fill(cluster, "orders", {0: 2})
    stream.restarted().freeze()
    assert stream.batch() == {("a", 0): (15, 17)}
    stream.at[QUEUES[0]] = 20
    with pytest.raises(DataLost, match=r"\[17, 20\)"):
        stream.batch()


def test_what_expired_before_it_was_read_is_lost(cluster, stream):
    expire(cluster, "orders", 0, before=4)
    with pytest.raises(DataLost, match=r"4 messages .* orders/broker-a/0 \[0, 4\): expired"):
        stream.batch()
    stream.at = stream.restarted(failOnDataLoss="false").beginning() | {QUEUES[0]: 0}
    assert stream.batch() == ALL | {("a", 0): (4, 10)}


def test_a_topic_made_anew_is_lost_and_never_read_backwards(cluster, stream, caplog):
    stream.batch()
    make_anew(cluster, "orders", 2)
    fill(cluster, "orders", {0: 6})
    with pytest.raises(DataLost, match=r"orders/broker-a/0 \[6, 10\): the queue ends before"):
        stream.batch()
    stream.restarted(failOnDataLoss="false")
    before = dict(stream.at)
    assert stream.batch() == {}
    fill(cluster, "orders", {0: 1})
    assert stream.batch() == {}
    assert stream.at == before
    told = [each for each in caplog.records if "spark.data_lost" in each.getMessage()]
    assert len(told) == 3  # once for each queue, not with each batch
    fill(cluster, "orders", {0: 6})
    assert stream.batch() == {("a", 0): (10, 13)}


def test_queues_that_are_gone_are_lost_while_their_broker_is_up(cluster, stream):
    stream.batch()
    cluster.create_topic("orders", 1)
    with pytest.raises(DataLost, match=r"orders/broker-a/1 .* no longer there"):
        stream.batch()
    delete(cluster, "orders")
    with pytest.raises(DataLost, match=r"orders/broker-a/0 .* no longer there"):
        stream.batch()


def test_a_batch_that_is_run_again_is_judged_again(cluster, stream):
    ranges = [QueueRange(QUEUES[0], 2, 8)]
    assert stream.watch.still_there(ranges) == ranges
    cluster.kill_broker("broker-a")
    assert stream.watch.still_there(ranges) == ranges  # the tasks will see
    cluster.restart_broker("broker-a")
    expire(cluster, "orders", 0, before=5)
    with pytest.raises(DataLost, match=r"\[2, 5\)"):
        stream.watch.still_there(ranges)


def test_a_silent_broker_is_not_taken_for_one_without_queues(cluster, stream):
    stream.batch()
    cluster.create_topic("orders", 1)
    cluster.pause_broker("broker-a")
    with pytest.raises(DataLost) as lost:
        stream.batch()
    assert "orders/broker-b/1" in str(lost.value)
    assert "broker-a" not in str(lost.value)
