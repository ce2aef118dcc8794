"""Offsets of a stream only ever grow, whatever a cluster does."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly import Client, ClientConfig
from orderly.errors import DataLost, NameServerUnavailable, OrderlyError
from orderly.model import MessageQueue
from orderly.spark.offsets import CUT, GONE, Loss, OffsetSpan, QueueRange
from orderly.spark.options import parse_read
from orderly.spark.watching import (
    StreamWatch,
    advanced,
    beginning,
    between,
    first_checkpoint,
    next_checkpoint,
    offsets_in,
    shares,
    stranded,
)
from orderly.testing import FakeBroker
from tests.support.topics import delete, expire, fill, make_anew

A, B, NEW = (MessageQueue("orders", "broker-a", n) for n in range(3))
NUMBERS = st.integers(0, 50)
OFFSETS = st.dictionaries(st.sampled_from([A, B, NEW]), NUMBERS)
SPANS = st.dictionaries(
    st.sampled_from([A, B, NEW]),
    st.builds(lambda low, size: OffsetSpan(low, low + size), NUMBERS, NUMBERS),
)
LIMITS = st.none() | st.integers(1, 60)
WAITING = st.dictionaries(st.integers(0, 20), st.integers(0, 10**6), min_size=1)


def nobody(queue):
    return False


def kept(table):
    """As Spark hands it back."""
    return json.loads(json.dumps(table))


@given(OFFSETS, SPANS, LIMITS)
def test_offsets_never_run_backwards_and_no_queue_is_forgotten(start, spans, limit):
    end = advanced(start, spans, limit)
    assert start.keys() <= end.keys()
    assert all(end[queue] >= at for queue, at in start.items())
    assert all(at <= spans[queue].high for queue, at in end.items() if at > start.get(queue, 0))


@given(OFFSETS, SPANS, st.integers(1, 60))
def test_a_limited_stream_arrives_where_an_unlimited_one_does(start, spans, limit):
    goal, at = advanced(start, spans, None), start
    for _ in range(200):
        step = advanced(at, spans, limit)
        if step == at:
            break
        at = step
    assert at == goal


def test_a_new_queue_begins_with_its_first_message_and_counts_when_it_has_one():
    assert advanced({A: 5}, {A: OffsetSpan(0, 5), NEW: OffsetSpan(0, 0)}, None) == {A: 5}
    end = advanced({A: 5}, {A: OffsetSpan(0, 7), NEW: OffsetSpan(0, 3)}, None)
    assert between({A: 5}, end) == [QueueRange(A, 5, 7), QueueRange(NEW, 0, 3)]


def test_what_expired_before_its_turn_is_part_of_the_range_so_that_it_is_missed():
    end = advanced({A: 5}, {A: OffsetSpan(20, 30)}, 4)
    assert between({A: 5}, end) == [QueueRange(A, 5, 24)]


def test_a_queue_that_is_cut_off_or_gone_stays_and_is_told():
    spans = {A: OffsetSpan(0, 3)}
    assert advanced({A: 5, B: 7}, spans, None) == {A: 5, B: 7}
    assert stranded({A: 5, B: 7}, spans, {B}.__contains__) == [
        Loss(A, 3, 5, CUT),
        Loss(B, 7, 7, GONE),
    ]
    assert stranded({A: 3, B: 7}, spans, nobody) == []


def test_nothing_new_is_the_same_checkpoint():
    for start in (first_checkpoint({A: 5}), next_checkpoint(first_checkpoint({A: 1}), {A: 5})):
        assert next_checkpoint(start, {A: 5}) == start


def test_the_first_batch_begins_where_it_did_though_its_start_is_asked_for_again():
    end = kept(next_checkpoint(first_checkpoint({A: 5}), {A: 9}))
    again = kept(first_checkpoint({A: 7, B: 1}))  # "latest", some time later
    assert beginning(again, end) == {A: 5}
    assert offsets_in(end) == {A: 9}


def test_later_batches_begin_where_the_one_before_ended():
    first = kept(next_checkpoint(first_checkpoint({A: 5}), {A: 9}))
    second = kept(next_checkpoint(first, {A: 12, B: 2}))
    assert beginning(first, second) == {A: 9}
    assert beginning(first, first) == {A: 9}  # nothing new: nothing is read again
    assert second == {"orders": {"broker-a": {"0": 12, "1": 2}}}


def test_an_empty_first_batch_does_not_move_the_beginning():
    start = kept(first_checkpoint({A: 5}))
    assert between(beginning(kept(first_checkpoint({A: 8})), start), offsets_in(start)) == []
    second = kept(next_checkpoint(start, {A: 9}))
    assert beginning(start, second) == {A: 5}


@given(WAITING, st.integers(1, 10**6))
def test_the_limit_is_used_and_kept(waiting, limit):
    filled = sum(count > 0 for count in waiting.values())
    given_ = shares(waiting, limit)
    assert sum(given_.values()) == min(max(limit, filled), sum(waiting.values()))
    assert all(0 <= given_[queue] <= count for queue, count in waiting.items())


@given(WAITING, st.integers(1, 10**6))
def test_no_queue_with_messages_is_left_out(waiting, limit):
    given_ = shares(waiting, limit)
    assert all(given_[queue] > 0 for queue, count in waiting.items() if count)


@given(WAITING, st.integers(1, 10**6))
def test_more_waiting_is_never_given_less(waiting, limit):
    given_ = shares(waiting, limit)
    ranked = sorted(waiting, key=lambda queue: waiting[queue])
    sizes = [given_[queue] for queue in ranked]
    assert all(low <= high + 1 for low, high in pairwise(sizes))


def test_shares_are_in_proportion():
    assert shares({"a": 1000, "b": 3000, "c": 0}, 100) == {"a": 25, "b": 75, "c": 0}


def test_a_queue_that_shrank_gives_nothing():
    assert shares({"a": -5, "b": 3}, 10) == {"a": 0, "b": 3}


# --- on a cluster ---------------------------------------------------------------------------------


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
        self.watch = StreamWatch(self.client, parse_read(given, "stream"))
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
