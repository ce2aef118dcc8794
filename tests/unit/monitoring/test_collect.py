"""Collecting offsets: which questions are asked, in which order, and what a silent broker does."""

from types import SimpleNamespace

import pytest

from orderly.errors import RequestTimeout, TopicNotFound
from orderly.model import (
    BrokerData,
    MessageQueue,
    Permission,
    QueueData,
    TopicRoute,
)
from orderly.monitoring.backlog.verdict import QueueState
from orderly.monitoring.collect import collect


class Cluster:
    """Stands for a client: offsets by queue, brokers that are silent, and the questions asked."""

    def __init__(self, brokers=("broker-a",), queues=2):
        self.queues = [MessageQueue("orders", b, i) for b in brokers for i in range(queues)]
        self.committed = {}
        self.spans = dict.fromkeys(self.queues, (0, 10))
        self.silent = set()
        self.asked = []
        self.routes = SimpleNamespace(get=self._route)
        self.admin = SimpleNamespace(
            consume_stats=self._consume_stats, topic_stats=self._topic_stats
        )
        self.brokers = SimpleNamespace(
            query_offset=self._query_offset,
            min_offset=lambda queue: self._span(queue)[0],
            max_offset=lambda queue: self._span(queue)[1],
        )

    def _route(self, topic):
        if topic != "orders":
            raise TopicNotFound("no such topic", code=17)
        names = sorted({queue.broker_name for queue in self.queues})
        count = len(self.queues) // len(names)
        both = Permission.READ | Permission.WRITE
        return TopicRoute(
            "orders",
            tuple(QueueData(name, count, count, both) for name in names),
            tuple(BrokerData(name, "c", {0: "127.0.0.1:1"}) for name in names),
        )

    def _answer(self, question, *brokers):
        self.asked.append(question)
        if self.silent & set(brokers):
            raise RequestTimeout("no reply", "127.0.0.1:1")

    def _consume_stats(self, group, topic):
        self._answer("consume stats", *(q.broker_name for q in self.queues))
        known = topic or self.committed
        return {
            queue: SimpleNamespace(consumer_offset=self.committed.get(queue, 0))
            for queue in (self.queues if known else ())
        }

    def _topic_stats(self, topic):
        self._answer("topic stats", *(q.broker_name for q in self.queues))
        return {
            queue: SimpleNamespace(min_offset=low, max_offset=high)
            for queue, (low, high) in self.spans.items()
        }

    def _query_offset(self, group, queue):
        self._answer(f"query {queue.broker_name}/{queue.queue_id}", queue.broker_name)
        return self.committed.get(queue)

    def _span(self, queue):
        self._answer(f"span {queue.broker_name}/{queue.queue_id}", queue.broker_name)
        return self.spans[queue]


def test_zero_in_the_stats_is_checked_and_never_committed_stays_unknown():
    cluster = Cluster()
    first, second = cluster.queues
    cluster.committed = {first: 0}
    rows = collect(cluster, "shipping", "orders")
    assert [(row.queue, row.committed, row.backlog) for row in rows] == [
        (first, 0, 10),
        (second, None, None),
    ]
    assert [row.state for row in rows] == [QueueState.OK, QueueState.NEW]


def test_an_offset_above_zero_needs_no_second_question():
    cluster = Cluster()
    cluster.committed = dict.fromkeys(cluster.queues, 4)
    rows = collect(cluster, "shipping")
    assert [row.backlog for row in rows] == [6, 6]
    assert cluster.asked == ["consume stats", "topic stats"]


def test_committed_offsets_are_read_before_the_maxima():
    cluster = Cluster()
    collect(cluster, "shipping", "orders")
    assert cluster.asked[-1] == "topic stats"


def test_a_group_that_nobody_knows_has_no_rows():
    assert collect(Cluster(), "nobody") == []


def test_a_silent_broker_is_unknown_and_the_others_are_measured():
    cluster = Cluster(brokers=("broker-a", "broker-b"))
    cluster.committed = dict.fromkeys(cluster.queues, 4)
    cluster.silent = {"broker-b"}
    rows = collect(cluster, "shipping", "orders")
    assert [row.state for row in rows] == [QueueState.OK] * 2 + [QueueState.UNKNOWN] * 2
    assert [row.backlog for row in rows] == [6, 6, None, None]


def test_a_silent_broker_costs_one_time_out_and_not_one_a_queue():
    cluster = Cluster(brokers=("broker-a", "broker-b"), queues=8)
    cluster.silent = {"broker-b"}
    collect(cluster, "shipping", "orders")
    assert len([q for q in cluster.asked if "broker-b" in q]) == 1


def test_without_a_topic_a_silent_broker_means_that_the_topics_are_not_known():
    cluster = Cluster()
    cluster.silent = {"broker-a"}
    with pytest.raises(RequestTimeout):
        collect(cluster, "shipping")


def test_an_unknown_topic_is_an_error_not_an_empty_list():
    with pytest.raises(TopicNotFound):
        collect(Cluster(), "shipping", "no-such-topic")
