"""What options mean for the queues of a cluster, and for one queue."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from orderly import Client
from orderly.config import ClientConfig
from orderly.errors import ConfigError, DataLost, OrderlyError, RouteError, TopicNotFound
from orderly.model import MessageQueue
from orderly.spark import discovering
from orderly.spark.discovering import check_named, check_order, pin, planned, vanished, within
from orderly.spark.offsets import (
    CUT,
    EXPIRED,
    GONE,
    Edge,
    ExactPosition,
    Loss,
    OffsetSpan,
    QueueRange,
    dump_offsets,
    dump_queues,
)
from orderly.testing import FakeBroker
from tests.support.topics import delete, expire, fill
from tests.support.waiting import patient_client

T0 = 1_763_712_000  # when the first message of each queue was stored


@pytest.fixture
def ask(orderly_fake):
    """Queue 0 holds 2 to 10, queue 1 0 to 5, queue 2 nothing."""
    orderly_fake.create_topic("orders", 3)
    fill(orderly_fake, "orders", {0: 10, 1: 5}, at=T0)
    expire(orderly_fake, "orders", 0, before=2)

    def pinned(**options):
        selection = {} if "assign" in options else {"topic": "orders"}
        ranges = pin({"namesrv": orderly_fake.namesrv} | selection | options)
        return {each.queue.queue_id: (each.start, each.end) for each in ranges}

    return pinned


def offsets(**by_id):
    return dump_offsets(
        {MessageQueue("orders", "broker-a", int(q[1:])): at for q, at in by_id.items()}
    )


def commit(fake, offset, group="shipping", topic="orders"):
    with fake._running().changing() as cluster:
        cluster.brokers["broker-a"].offsets.commit(group, topic, 0, offset)


def test_all_that_is_there(ask):
    assert ask() == {0: (2, 10), 1: (0, 5), 2: (0, 0)}
    assert ask(startingOffsets="latest") == {0: (10, 10), 1: (5, 5), 2: (0, 0)}
    assert ask(endingOffsets="earliest") == {0: (2, 2), 1: (0, 0), 2: (0, 0)}


def test_offsets_by_queue_and_those_not_named(ask):
    assert ask(startingOffsets=offsets(q0=4, q1=-1)) == {0: (4, 10), 1: (5, 5), 2: (0, 0)}
    assert ask(endingOffsets=offsets(q0=4, q1=-2)) == {0: (2, 4), 1: (0, 0), 2: (0, 0)}


@pytest.mark.parametrize("moment", [str((T0 + 3) * 1000), "2025-11-21T08:00:02.001Z"])
def test_times_of_storing(ask, moment):
    assert ask(startingTimestamp=moment) == {0: (3, 10), 1: (3, 5), 2: (0, 0)}
    assert ask(endingTimestamp=moment) == {0: (2, 3), 1: (0, 3), 2: (0, 0)}


def test_times_before_and_after_everything(ask):
    early, late = str((T0 - 100) * 1000), str((T0 + 100) * 1000)
    assert ask(startingTimestamp=early, endingTimestamp=late) == ask()
    assert ask(startingTimestamp=late) == {0: (10, 10), 1: (5, 5), 2: (0, 0)}


def test_what_a_group_has_committed(ask, orderly_fake):
    with Client(namesrv=orderly_fake.namesrv) as client:
        queue = MessageQueue("orders", "broker-a", 0)
        commit(orderly_fake, 7)
        assert client.brokers.query_offset("shipping", queue) == 7
    assert ask(startingOffsets="group:shipping") == {0: (7, 10), 1: (0, 5), 2: (0, 0)}
    assert ask(endingOffsets="group:shipping") == {0: (2, 7), 1: (0, 0), 2: (0, 0)}


def test_a_group_that_nobody_knows_is_an_error_unless_it_may_be(ask, orderly_fake):
    for where in ("startingOffsets", "endingOffsets"):
        with pytest.raises(ConfigError, match="'shiping' has committed nothing in orders"):
            ask(**{where: "group:shiping"})
    assert ask(startingOffsets="group:new", unknownGroup="earliest") == ask()
    at_end = {0: (10, 10), 1: (5, 5), 2: (0, 0)}
    assert ask(startingOffsets="group:new", unknownGroup="LATEST") == at_end
    commit(orderly_fake, 7)  # where it has committed, the option says nothing
    found = ask(startingOffsets="group:shipping", unknownGroup="latest")
    assert found == {0: (7, 10), 1: (0, 5), 2: (0, 0)}


@pytest.mark.parametrize("unknown", ["error", "earliest", "latest"])
def test_a_queue_that_is_read_alone_is_of_a_known_group_if_another_one_is(
    ask, orderly_fake, unknown
):
    """It was added, say: what was sent to it before the group came there is not passed over."""
    commit(orderly_fake, 7)
    only = {"assign": '{"orders": {"broker-a": [1, 2]}}', "unknownGroup": unknown}
    assert ask(**only, startingOffsets="group:shipping") == {1: (0, 5), 2: (0, 0)}
    with pytest.raises(ConfigError, match="'new' has committed nothing in orders"):
        ask(**{**only, "unknownGroup": "error"}, startingOffsets="group:new")


def test_a_group_may_be_unknown_in_a_topic_without_messages_and_in_no_other(orderly_fake):
    for topic, count in {"orders": 10, "empty": 0, "other": 3}.items():
        orderly_fake.create_topic(topic, 1)
        fill(orderly_fake, topic, {0: count})
    commit(orderly_fake, 7)
    given = {"namesrv": orderly_fake.namesrv, "startingOffsets": "group:shipping"}
    found = pin(given | {"topics": "orders,empty"})
    assert {each.queue.topic: each.start for each in found} == {"orders": 7, "empty": 0}
    with pytest.raises(ConfigError, match="'shipping' has committed nothing in other:"):
        pin(given | {"topics": "orders,other"})


def test_a_group_that_reads_on_meanwhile_has_lost_nothing(ask, orderly_fake, monkeypatch):
    def looked(*asked, look=discovering.look_again):
        seen = look(*asked)
        if seen.spans[queue].high == 10:
            fill(orderly_fake, "orders", {0: 3})
            commit(orderly_fake, 13)
        return seen

    queue = MessageQueue("orders", "broker-a", 0)
    monkeypatch.setattr(discovering, "look_again", looked)
    assert ask(startingOffsets="group:shipping")[0] == (10, 10)
    commit(orderly_fake, 14)  # of another life of the topic
    with pytest.raises(DataLost, match=r"\[13, 14\)"):
        ask(startingOffsets="group:shipping")


def test_only_the_queues_assigned(ask):
    assert ask(assign='{"orders": {"broker-a": [1]}}') == {1: (0, 5)}


def test_several_topics_and_patterns(ask, orderly_fake):
    orderly_fake.create_topic("orders-eu", 1)
    orderly_fake.create_topic("%DLQ%orders", 1)
    both = pin({"namesrv": orderly_fake.namesrv, "topics": "orders,orders-eu"})
    assert [each.queue.topic for each in both] == ["orders"] * 3 + ["orders-eu"]
    assert pin({"namesrv": orderly_fake.namesrv, "topicPattern": "o.*"}) == both
    assert pin({"namesrv": orderly_fake.namesrv, "topicPattern": ".*"}) == both
    with pytest.raises(ConfigError, match="matches none of the 2 topics"):
        pin({"namesrv": orderly_fake.namesrv, "topicPattern": "order"})


LOST = {
    "expired": ({"startingOffsets": offsets(q0=0)}, r"orders/broker-a/0 \[0, 2\): expired", {}, 2),
    "beyond": ({"startingOffsets": offsets(q1=9)}, r"orders/broker-a/1 \[5, 9\)", {1: (5, 5)}, 4),
    "to beyond": ({"endingOffsets": offsets(q1=9)}, r"orders/broker-a/1 \[5, 9\)", {}, 4),
}


@pytest.mark.parametrize("case", LOST.values(), ids=LOST)
def test_offsets_outside_of_the_queue_are_an_error_or_a_warning_with_their_number(
    ask, case, caplog
):
    options, text, changed, count = case
    with pytest.raises(DataLost, match=f"{count} messages .* {text}"):
        ask(**options)
    assert ask(**options, failOnDataLoss="false") == ask() | changed
    (warning,) = [each.getMessage() for each in caplog.records]
    assert "spark.data_lost" in warning
    assert f"messages={count}" in warning


def test_a_pinned_queue_that_is_gone_is_lost(ask, orderly_fake):
    pinned = pin({"namesrv": orderly_fake.namesrv, "topic": "orders"})
    again = {
        "namesrv": orderly_fake.namesrv,
        "assign": '{"orders": {"broker-a": [0, 1, 2]}}',
        "startingOffsets": dump_offsets({each.queue: each.start for each in pinned}),
        "endingOffsets": dump_offsets({each.queue: each.end for each in pinned}),
    }
    assert pin(again) == pinned
    orderly_fake.create_topic("orders", 1)
    with pytest.raises(DataLost, match=r"5 messages .* orders/broker-a/1 \[0, 5\): the queue is"):
        pin(again)
    left = pin(again | {"failOnDataLoss": "false"})
    assert left == pinned[:1]


def test_a_pinned_queue_whose_broker_is_away_is_not_lost():
    with FakeBroker(brokers=("broker-a", "broker-b")) as fake:
        fake.create_topic("orders", 1)
        fill(fake, "orders", {0: 3})
        fill(fake, "orders", {0: 3}, broker="broker-b")
        pinned = pin({"namesrv": fake.namesrv, "topic": "orders"})
        again = {
            "namesrv": fake.namesrv,
            "assign": dump_queues(each.queue for each in pinned),
            "startingOffsets": dump_offsets({each.queue: each.start for each in pinned}),
            "endingOffsets": dump_offsets({each.queue: each.end for each in pinned}),
            "failOnDataLoss": "false",
        }
        fake.kill_broker("broker-b")
        with pytest.raises(RouteError, match=r"orders/broker-b/0 .* wait until it is back"):
            pin(again)
        fake.restart_broker("broker-b")
        assert pin(again) == pinned


@pytest.mark.parametrize("up_first", [True, False])
def test_a_queue_is_not_gone_if_its_broker_was_away_before_or_after(up_first, monkeypatch):
    """It went, or came, while the routes were read: they do not name it."""
    with FakeBroker(brokers=("broker-a", "broker-b")) as fake:
        fake.create_topic("orders", 1)
        of_a, of_b = (MessageQueue("orders", f"broker-{name}", 0) for name in "ab")
        lost = replace(of_a, queue_id=1)
        kill, restart = (
            partial(act, "broker-b") for act in (fake.kill_broker, fake.restart_broker)
        )

        def looked(*asked, look=discovering.look):
            if up_first:
                kill()
            seen = look(*asked)
            if not up_first:
                restart()
            return seen

        monkeypatch.setattr(discovering, "look", looked)
        if not up_first:
            kill()
        with patient_client(fake.namesrv) as client:
            seen = discovering.look_closely(client, ["orders"])
        assert (seen.gone(lost), seen.gone(of_a), seen.gone(of_b)) == (True, False, False)
        assert of_b not in seen.spans


def test_a_namespace_goes_before_topics_groups_and_offsets(orderly_fake):
    orderly_fake.create_topic("shop%orders", 2)
    fill(orderly_fake, "shop%orders", {0: 3})
    commit(orderly_fake, 1, group="shop%g", topic="shop%orders")
    config = ClientConfig(namesrv=orderly_fake.namesrv, namespace="shop")
    with Client(config) as client:
        for choice in (
            {"topic": "orders", "startingOffsets": offsets(q0=1)},
            {"topic": "orders", "startingOffsets": "group:g"},
            {"topicPattern": "ord..s"},
            {"assign": '{"orders": {"broker-a": [0]}}', "startingOffsets": offsets(q0=1)},
        ):
            first = pin(choice, client)[0]
            assert first.queue == MessageQueue("shop%orders", "broker-a", 0)
            assert (first.start, first.end) == (0 if "topicPattern" in choice else 1, 3)


def test_an_unknown_topic_and_brokers_that_are_away_are_errors(ask, orderly_fake):
    with pytest.raises(TopicNotFound, match="'nosuch'"):
        ask(topic="nosuch")
    orderly_fake.kill_broker()
    with pytest.raises(OrderlyError):
        ask()
    delete(orderly_fake, "orders")
    orderly_fake.restart_broker()
    with pytest.raises(TopicNotFound):
        ask()


# --- planning -------------------------------------------------------------------------------------


QUEUE, OTHER = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
SPAN = OffsetSpan(10, 50)


def exact(**offsets):
    return ExactPosition(
        {{"queue": QUEUE, "other": OTHER}[name]: at for name, at in offsets.items()}, Edge.EARLIEST
    )


CASES = {
    "inside": (20, 30, (20, 30), []),
    "to the end": (20, 50, (20, 50), []),
    "from an expired offset": (5, 50, (10, 50), [(5, 10, EXPIRED)]),
    "from beyond the end": (70, 50, (50, 50), [(50, 70, CUT)]),
    "from beyond to further beyond": (70, 90, (70, 70), [(70, 90, CUT)]),
    "to beyond the end": (20, 70, (20, 50), [(50, 70, CUT)]),
    "from the oldest to what expired": (10, 3, (3, 3), []),
    "backwards": (40, 20, (20, 20), []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_range_is_planned_within_its_queue(case):
    start, end, kept, lost = case
    found, losses = planned(QUEUE, start, end, SPAN)
    assert found == QueueRange(QUEUE, *kept)
    assert losses == [Loss(QUEUE, *each) for each in lost]


def test_what_a_broker_finds_for_a_time_is_moved_into_the_queue():
    assert [within(at, SPAN) for at in (0, 30, 99)] == [10, 30, 50]


def test_offsets_for_queues_that_are_not_read_are_refused():
    check_named(exact(queue=1), [QUEUE, OTHER], "startingOffsets")
    check_named(Edge.LATEST, [], "startingOffsets")
    with pytest.raises(ConfigError, match=r"startingOffsets names orders/a/1, .*: orders/a/0"):
        check_named(exact(queue=1, other=1), [QUEUE], "startingOffsets")


def test_a_queue_that_ends_before_it_begins_is_refused():
    check_order(exact(queue=5), exact(queue=5))
    check_order(exact(queue=5), exact(queue=-1, other=3))
    with pytest.raises(ConfigError, match="orders/a/0 would begin at 5 and end at 4"):
        check_order(exact(queue=5), exact(queue=4))


def test_an_assigned_queue_that_is_gone_is_a_loss_if_its_range_was_pinned():
    losses = vanished([QUEUE, OTHER], exact(queue=5, other=3), exact(queue=9, other=3), {})
    assert losses == [Loss(QUEUE, 5, 9, GONE)]


def test_an_assigned_queue_that_never_was_is_an_error():
    with pytest.raises(ConfigError, match=r"assign names orders/a/1, which does not exist"):
        vanished([QUEUE, OTHER], Edge.EARLIEST, Edge.LATEST, {QUEUE: SPAN})
