"""A base scan of two fake brokers: what it reads, what it asks, and what it leaves alone."""

from __future__ import annotations

import pytest

from orderly.client.pipeline import RequestLimits
from orderly.errors import NameServerUnavailable
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import NEVER, NOT_READ
from orderly.monitoring.collecting.assembly import BrokerPart
from orderly.monitoring.collecting.questions import BrokerSettings
from orderly.monitoring.collecting.scan import FORGET_AFTER, Collector, ScanMemory, ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.codes import ResponseCode
from orderly.testing.fake.faults import DropRequest, Fail, Fault
from tests.support.waiting import patient_client

SHORT = 6.0  # seconds: where a broker keeps silent, and the other must answer in time
PAIR = ("pay", "orders")


@pytest.fixture
def collector(client):
    def new(cold_safe=False, patience=10.0, **selection):
        settings = ScanSettings(60.0, RequestLimits(patience=patience), cold_safe)
        return Collector(client, Selection(**selection), settings)

    return new


def queues(topic, *ids, broker="broker-a"):
    return tuple(MessageQueue(topic, broker, i) for i in ids)


@pytest.fixture
def orders(world):
    """Group "pay" has read 3 of 5 messages in queue 0 of broker-a, nothing elsewhere."""
    world.topic("orders")
    world.group("pay")
    world.store("orders", 0, 5)
    world.commit(*PAIR, {0: 3, 1: 0})


# --- offsets ---------------------------------------------------------------------------------


def test_offsets_of_all_queues_of_all_brokers(orders, collector):
    scan = collector().scan()
    reading = scan.topics["orders"]
    assert reading.queues == queues("orders", 0, 1) + queues("orders", 0, 1, broker="broker-b")
    assert reading.minimum == (0, 0, 0, 0)
    assert reading.maximum == (5, 0, 0, 0)
    assert reading.stored_at == (1_700_000_000.0, 0.0, 0.0, 0.0)
    assert scan.committed == {PAIR: (3, 0, NEVER, NEVER)}
    assert scan.cluster == "DefaultCluster"
    assert [broker.error for broker in scan.brokers.values()] == [None, None]
    assert [broker.retention for broker in scan.brokers.values()] == [72 * 3600.0] * 2


def test_expired_messages_move_the_minimum(orders, world, collector):
    world.expire("orders", 0, 4)
    assert collector().scan().topics["orders"].minimum[0] == 4


def test_offsets_that_nobody_can_have_committed_count_as_none(orders, world, collector):
    world.commit(*PAIR, {-1: 7, 1: -2})
    assert collector().scan().committed == {PAIR: (3, NEVER, NEVER, NEVER)}


def test_a_group_without_any_offset_is_listed(orders, world, collector):
    world.group("idle")
    assert list(collector().scan().groups) == ["idle", "pay"]


def test_a_topic_without_any_group_is_not_asked_about(orders, world, collector):
    world.topic("lonely")
    counts = world.count()
    assert "lonely" not in collector().scan().topics
    assert counts[Code.GET_TOPIC_STATS_INFO] == 2  # "orders", of each broker


def test_a_topic_that_members_consume_is_seen_before_the_first_commit(orders, world, collector):
    world.topic("refunds")
    scan = collector().scan({"pay": ("refunds", "no-such-topic", "%RETRY%pay")})
    assert scan.committed["pay", "refunds"] == (NEVER,) * 4
    assert {topic for _, topic in scan.committed} == {"orders", "refunds"}


def test_a_topic_that_is_gone_takes_its_offsets_along(orders, world, collector):
    collect = collector()
    collect.scan()
    for broker in ("broker-a", "broker-b"):
        world.drop_topic("orders", broker)
    scan = collect.scan()
    assert scan.topics == {}
    assert scan.committed == {}


def test_a_topic_that_one_broker_does_not_have_has_no_queues_there(orders, world, collector):
    world.drop_topic("orders", "broker-b")
    assert collector().scan().topics["orders"].queues == queues("orders", 0, 1)


# --- queues that are not read, or not there --------------------------------------------------


def test_queues_that_only_producers_see_are_marked(world, collector):
    world.topic("orders", read=1, write=3, brokers=("broker-a",))
    world.store("orders", 2, 4)
    world.commit(*PAIR, {0: 0})
    reading = collector().scan().topics["orders"]
    assert reading.unread == frozenset(queues("orders", 1, 2))
    assert reading.maximum == (0, 0, 4)


def test_a_topic_nobody_may_read_is_marked_as_a_whole(world, collector):
    world.topic("orders", perm=2, brokers=("broker-a",))
    world.commit(*PAIR, {0: 0})
    assert collector().scan().topics["orders"].unread == frozenset(queues("orders", 0, 1))


def test_messages_in_a_removed_queue_are_seen(world, collector):
    world.topic("orders", read=4, brokers=("broker-a",))
    world.store("orders", 3, 6)
    world.commit(*PAIR, {0: 0, 3: 2})
    world.topic("orders", read=2, brokers=("broker-a",))
    scan = collector().scan()
    reading = scan.topics["orders"]
    assert reading.queues == queues("orders", 0, 1, 3)
    assert (reading.minimum[2], scan.committed[PAIR][2], reading.maximum[2]) == (0, 2, 6)
    assert reading.unread == frozenset(queues("orders", 3))


def test_an_offset_in_a_queue_that_never_was_makes_no_queue_at_the_broker(orders, world, collector):
    world.commit(*PAIR, {77: 5})
    counts = world.count()
    reading = collector(topics=("orders",)).scan().topics["orders"]
    assert [q for q in reading.queues if q.broker_name == "broker-a"] == [*queues("orders", 0, 1)]
    assert counts[Code.GET_MAX_OFFSET] == 1
    assert counts[Code.GET_MIN_OFFSET] == 0  # a broker would make the queue's files for it


# --- topics of a group's own -------------------------------------------------------------------


def test_retries_count_once_there_are_any(orders, world, collector):
    world.topic("%RETRY%pay", read=1)
    world.topic("%RETRY%pay_orders", read=1)
    assert set(collector().scan().committed) == {PAIR}
    world.store("%RETRY%pay", 0, 1)
    world.store("%RETRY%pay_orders", 0, 1)
    scan = collector().scan()
    assert scan.committed["pay", "%RETRY%pay"] == (NEVER, NEVER)
    assert ("pay", "%RETRY%pay_orders") in scan.committed


def test_dead_letters_are_read_and_are_nobodys_backlog(orders, world, collector):
    world.topic("%DLQ%pay", read=1)
    world.store("%DLQ%pay", 0, 3)
    world.commit("pay", "%DLQ%pay", {0: 1})
    scan = collector().scan()
    assert scan.topics["%DLQ%pay"].maximum == (3, 0)
    assert set(scan.committed) == {PAIR}


def test_state_and_park_topics_are_read_and_are_nobodys_backlog(orders, world, collector):
    own = (state_topic(*PAIR), park_topic(*PAIR))
    for topic in own:
        world.topic(topic)
        world.commit("pay", topic, {0: 1})
    scan = collector().scan()
    assert scan.topics.keys() == {"orders", *own}
    assert set(scan.committed) == {PAIR}


# --- selection ---------------------------------------------------------------------------------


def test_only_chosen_groups_and_their_topics_are_asked_about(orders, world, collector):
    world.topic("parcels")
    world.commit("ship", "parcels", {0: 1})
    counts = world.count()
    scan = collector(groups=("pay",)).scan()
    assert set(scan.committed) == {PAIR}
    assert list(scan.groups) == ["pay"]
    assert counts[Code.GET_TOPIC_STATS_INFO] == 2


def test_a_topic_chosen_by_name_leaves_out_the_others_of_its_groups(orders, world, collector):
    world.topic("parcels")
    world.commit("pay", "parcels", {0: 1})
    assert set(collector(topics=("parcels",)).scan().committed) == {("pay", "parcels")}


def test_a_named_group_and_topic_are_shown_though_never_committed(orders, world, collector):
    world.topic("refunds")
    scan = collector(groups=("pay",), topics=("refunds",)).scan()
    assert scan.committed == {("pay", "refunds"): (NEVER,) * 4}


def test_an_unknown_group_is_not_made_up(orders, collector):
    scan = collector(groups=("no-such-group",), topics=("orders",)).scan()
    assert scan.groups == {}
    assert scan.committed == {}


# --- requests ----------------------------------------------------------------------------------


def test_requests_are_topics_and_four_a_broker_however_many_groups(world, collector):
    for topic in ("orders", "parcels", "refunds"):
        world.topic(topic)
        for number in range(40):
            world.commit(f"group-{number}", topic, {0: 0})
    counts = world.count()
    scan = collector().scan()
    each = {
        Code.GET_ALL_CONSUMER_OFFSET: 2,
        Code.GET_ALL_TOPIC_CONFIG: 2,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: 2,
        Code.GET_BROKER_CONFIG: 2,
        Code.GET_TOPIC_STATS_INFO: 3 * 2,
        Code.GET_BROKER_CLUSTER_INFO: 1,
    }
    assert counts == each
    assert scan.requests == each
    assert [broker.requests for broker in scan.brokers.values()] == [7, 7]


def test_settings_are_asked_for_once_and_kept_for_a_while(orders, world, collector):
    collect = collector()
    collect.scan()
    counts = world.count()
    assert collect.scan().brokers["broker-a"].retention == 72 * 3600.0
    assert counts[Code.GET_BROKER_CONFIG] == 0


def test_what_brokers_and_topics_forbid_is_read(orders, world, collector):
    world.group("pay", consume_enabled=False)
    world.group("idle")
    world.setting("brokerPermission", "2", broker="broker-b")
    world.topic("secret", perm=2)
    world.commit("pay", "secret", {0: 1})
    scan = collector().scan()
    brokers = scan.brokers
    assert {name: broker.barred for name, broker in brokers.items()} == {
        "broker-a": {"pay"},
        "broker-b": {"pay"},
    }
    assert {name: broker.serves_reads for name, broker in brokers.items()} == {
        "broker-a": True,
        "broker-b": False,
    }
    assert scan.topics["orders"].closed == set()
    assert scan.topics["secret"].closed == {"broker-a", "broker-b"}


def test_a_client_that_runs_and_scans_sends_no_heartbeat(orders, world, fakes):
    counts = world.count()
    with patient_client(fakes.namesrv) as started:
        Collector(started).scan()
        started.heartbeat.heartbeat_now()
    assert counts[Code.HEART_BEAT] == 0


def test_committed_offsets_are_read_before_the_maxima(orders, world, fakes, collector):
    codes = []
    for code in (Code.GET_ALL_CONSUMER_OFFSET, Code.GET_TOPIC_STATS_INFO):
        fakes.script(Fault(code, Fail(0), None, lambda c: codes.append(c.code)))
    collector().scan()
    assert codes == [Code.GET_ALL_CONSUMER_OFFSET] * 2 + [Code.GET_TOPIC_STATS_INFO] * 2


def test_cold_safe_never_lets_a_broker_read_its_log(orders, world, collector):
    warm = collector().scan()
    collect = collector(cold_safe=True)
    counts = world.count()
    cold = collect.scan()
    assert counts[Code.GET_TOPIC_STATS_INFO] == 0
    assert (counts[Code.GET_MAX_OFFSET], counts[Code.GET_MIN_OFFSET]) == (4, 4)
    assert cold.committed == warm.committed
    assert cold.topics["orders"].maximum == warm.topics["orders"].maximum
    assert cold.topics["orders"].minimum == warm.topics["orders"].minimum
    assert cold.topics["orders"].stored_at == (0.0,) * 4


def test_cold_safe_asks_for_minima_only_now_and_then(orders, world, collector):
    world.expire("orders", 0, 2)
    collect = collector(cold_safe=True)
    collect.scan()
    counts = world.count()
    assert collect.scan().topics["orders"].minimum[0] == 2
    assert (counts[Code.GET_MAX_OFFSET], counts[Code.GET_MIN_OFFSET]) == (4, 0)


def test_cold_safe_asks_for_the_minima_of_queues_that_were_added(orders, world, collector):
    collect = collector(cold_safe=True)
    collect.scan()
    world.topic("orders", read=4)
    reading = collect.scan().topics["orders"]
    assert len(reading.queues) > 4
    assert NOT_READ not in reading.minimum


# --- brokers that do not answer ------------------------------------------------------------------


def test_a_broker_that_hangs_is_not_read_and_the_other_is_fresh(orders, world, fakes, collector):
    world.commit(*PAIR, {0: 1}, broker="broker-b")
    fakes.pause_broker("broker-b")
    scan = collector(patience=SHORT).scan()
    reading = scan.topics["orders"]
    assert scan.committed[PAIR] == (3, 0, NOT_READ, NOT_READ)
    assert reading.maximum == (5, 0, NOT_READ, NOT_READ)
    assert "did not answer" in scan.brokers["broker-b"].error
    assert scan.brokers["broker-a"].error is None
    assert scan.seconds < 20.0, "of the minute that a scan may take"


def test_a_broker_that_hangs_is_probed_by_one_request_a_scan(orders, world, fakes, collector):
    collect = collector(patience=SHORT)
    fakes.pause_broker("broker-b")
    collect.scan()
    assert collect.scan().brokers["broker-b"].requests == 1
    fakes.resume_broker("broker-b")
    assert collect.scan().brokers["broker-b"].error is None


def test_a_broker_that_is_gone_is_remembered(orders, world, fakes, collector):
    world.commit("ship", "orders", {0: 1}, broker="broker-b")
    collect = collector()
    before = collect.scan()
    fakes.kill_broker("broker-b")
    scan = collect.scan()
    assert "no longer listed" in scan.brokers["broker-b"].error
    assert scan.topics["orders"].queues == before.topics["orders"].queues
    assert scan.committed[PAIR] == (3, 0, NOT_READ, NOT_READ)
    assert scan.committed["ship", "orders"] == (NEVER, NEVER, NOT_READ, NOT_READ)
    fakes.restart_broker("broker-b")
    assert NOT_READ not in collect.scan().committed[PAIR]


def test_a_broker_that_falls_silent_after_the_first_answers_says_so(orders, fakes, collector):
    fakes.script(Fault(Code.GET_TOPIC_STATS_INFO, DropRequest(), None))
    scan = collector(patience=SHORT).scan()
    assert "did not answer" in scan.brokers["broker-a"].error
    assert scan.topics["orders"].maximum == (NOT_READ,) * 4
    assert scan.committed[PAIR] == (3, 0, NEVER, NEVER)


def test_statistics_of_one_topic_that_fail_leave_the_others(orders, world, fakes, collector):
    world.topic("parcels")
    world.commit("pay", "parcels", {0: 1})
    refusal = Fail(ResponseCode.SYSTEM_ERROR)
    fakes.script(
        Fault(Code.GET_TOPIC_STATS_INFO, refusal, None, lambda c: c.ext["topic"] == "parcels")
    )
    scan = collector().scan()
    assert scan.topics["parcels"].maximum == (NOT_READ,) * 4
    assert scan.topics["orders"].maximum == (5, 0, 0, 0)


def test_a_topic_deleted_during_the_scan_is_left_out(orders, world, fakes, collector):
    fakes.script(Fault(Code.GET_TOPIC_STATS_INFO, Fail(ResponseCode.TOPIC_NOT_EXIST), None))
    assert collector().scan().topics == {}


def test_without_a_name_server_nothing_is_known(fakes, client):
    fakes.stop()
    with pytest.raises(NameServerUnavailable):
        Collector(client).scan()


# --- without the right to read everything --------------------------------------------------------


@pytest.fixture
def refused(fakes):
    def refuse(*codes):
        no = Fail(ResponseCode.NO_PERMISSION, "no rights")
        fakes.script(*(Fault(code, no, times=None) for code in codes))

    return refuse


def test_without_the_right_to_all_offsets_each_chosen_group_is_asked(orders, refused, collector):
    refused(Code.GET_ALL_CONSUMER_OFFSET)
    scan = collector(groups=("pay",)).scan()
    assert scan.committed == {PAIR: (3, 0, NEVER, NEVER)}
    assert scan.brokers["broker-a"].error is None


def test_statistics_that_say_0_are_not_taken_for_an_offset(orders, world, refused, collector):
    world.topic("parcels")
    world.commit("pay", "parcels", {0: 2})
    refused(Code.GET_ALL_CONSUMER_OFFSET)
    scan = collector(groups=("pay",)).scan()
    assert scan.committed["pay", "parcels"] == (2, NEVER, NEVER, NEVER)
    assert scan.committed[PAIR] == (3, 0, NEVER, NEVER)


def test_a_0_that_could_not_be_checked_is_not_taken_for_one_that_never_committed(
    orders, refused, collector
):
    refused(Code.GET_ALL_CONSUMER_OFFSET, Code.QUERY_CONSUMER_OFFSET)
    scan = collector(groups=("pay",)).scan()
    assert scan.committed == {PAIR: (3, NOT_READ, NEVER, NEVER)}


def test_a_user_who_may_only_read_its_group_and_topic_gets_an_answer(orders, refused, collector):
    refused(
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_BROKER_CONFIG,
    )
    scan = collector(groups=("pay",)).scan()
    assert scan.committed == {PAIR: (3, 0, NEVER, NEVER)}
    assert scan.topics["orders"].maximum == (5, 0, 0, 0)
    assert scan.brokers["broker-a"].retention is None


def test_a_user_without_any_right_learns_why(orders, refused, collector):
    refused(Code.GET_ALL_CONSUMER_OFFSET, Code.GET_CONSUME_STATS)
    scan = collector(groups=("pay",)).scan()
    assert "no rights" in scan.brokers["broker-a"].error
    assert set(scan.committed.get(PAIR, ())) <= {NOT_READ}


def test_a_group_that_is_refused_is_not_taken_for_one_that_never_committed(
    orders, world, fakes, refused, collector
):
    world.commit("ship", "orders", {0: 1})
    world.group("ship")
    refused(Code.GET_ALL_CONSUMER_OFFSET)
    no = Fail(ResponseCode.NO_PERMISSION)
    of_ship = Fault(Code.GET_CONSUME_STATS, no, None, lambda c: "ship" in c.ext.values())
    fakes.script(of_ship)
    scan = collector(groups=("pay", "ship"), topics=("orders",)).scan()
    assert scan.committed[PAIR] == (3, 0, NEVER, NEVER)
    assert scan.committed["ship", "orders"] == (NOT_READ,) * 4


PART = BrokerPart(
    "a", committed={("pay", "orders"): {0: 1}}, pairs=(("pay", "orders"),), configs={}
)


def test_a_remembered_part_has_no_offsets():
    memory = ScanMemory()
    memory.learn(PART, 0.0)
    assert memory.recall("a").committed is None
    assert memory.recall("a").pairs == PART.pairs
    assert memory.recall("b") == BrokerPart("b")


def test_a_broker_is_missed_until_it_counts_as_removed():
    memory = ScanMemory()
    memory.learn(PART, 0.0)
    assert memory.missed({"a"}, 10.0) == {}
    assert memory.missed((), 10.0) == {"a": 10.0}
    assert memory.missed((), FORGET_AFTER + 1.0) == {}
    assert memory.recall("a") == BrokerPart("a")


def test_minima_and_settings_grow_old():
    memory = ScanMemory()
    memory.keep_minima("orders", "a", {0: 5}, 100.0)
    memory.keep_settings("a", BrokerSettings(60.0), 100.0)
    assert memory.minima("orders", "a", 110.0) == {0: 5}
    assert memory.minima("orders", "a", 10_000.0) is None
    assert not memory.settings_due("a", 110.0)
    assert memory.settings_due("a", 10_000.0)
    assert memory.settings("a") == BrokerSettings(60.0)


def test_a_broker_that_does_not_tell_its_settings_is_not_asked_at_every_scan():
    memory = ScanMemory()
    assert memory.settings_due("a", 0.0)
    memory.keep_settings("a", None, 0.0)
    assert not memory.settings_due("a", 1.0)
    assert memory.settings("a") == BrokerSettings(retention=None, serves_reads=True)
    memory.keep_settings("a", BrokerSettings(60.0, serves_reads=False), 2.0)
    memory.keep_settings("a", None, 3.0)
    assert memory.settings("a") == BrokerSettings(60.0, serves_reads=False), "as it was known"


def test_minima_of_vanished_topics_are_dropped():
    memory = ScanMemory()
    memory.keep_minima("orders", "a", {0: 5}, 0.0)
    memory.forget_topics({"parcels"})
    assert memory.minima("orders", "a", 0.0) is None
