import json
import threading
import time

import pytest

from orderly.errors import LifecycleError
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import reply_to, request
from orderly.protocol.heartbeat import Subscription, decode_heartbeat
from tests.support.waiting import eventually

BEAT = RequestCode.HEART_BEAT
LEAVE = RequestCode.UNREGISTER_CLIENT
CHANGED = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


@pytest.fixture
def join():
    """Make a client a member; returns the list of announced changes."""

    def join(client, group="g", topics=("orders",), **options):
        changes = []
        subscriptions = tuple(Subscription.from_expression(topic, "*", 1) for topic in topics)
        client.heartbeat.register_consumer(
            group,
            subscriptions=lambda: subscriptions,
            on_members_changed=lambda: changes.append(threading.current_thread().name),
            **options,
        )
        return changes

    return join


def groups_in(command):
    return [data.group for data in decode_heartbeat(command.body).consumers]


def test_a_heartbeat_tells_who_is_a_member_of_what(client, broker, join):
    join(client, consume_from="first")
    client.heartbeat.register_producer("p")
    client.heartbeat.heartbeat_now()
    (beat,) = broker.requests(BEAT)
    body = json.loads(beat.body)
    assert body["clientID"] == client.client_id
    assert body["producerDataSet"] == [{"groupName": "p"}]
    (consumer,) = body["consumerDataSet"]
    assert consumer["groupName"] == "g"
    assert consumer["consumeFromWhere"] == "CONSUME_FROM_FIRST_OFFSET"
    assert [s["topic"] for s in consumer["subscriptionDataSet"]] == ["orders"]


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("last", "CONSUME_FROM_LAST_OFFSET"),
        ("first", "CONSUME_FROM_FIRST_OFFSET"),
        ("2026-01-02T03:04:05+00:00", "CONSUME_FROM_TIMESTAMP"),
    ],
)
def test_the_start_position_is_told(client, broker, join, setting, told):
    join(client, consume_from=setting)
    client.heartbeat.heartbeat_now()
    (beat,) = broker.requests(BEAT)
    assert decode_heartbeat(beat.body).consumers[0].consume_from == told


def test_nothing_registered_nothing_sent(client, broker):
    client.routes.get("orders")
    client.heartbeat.heartbeat_now()
    assert broker.received == []


def test_masters_and_slaves_of_all_known_and_subscribed_topics_hear_it(
    client, new_broker, cluster, join
):
    master, slave, known = new_broker(), new_broker(), new_broker()
    cluster.add("orders", **{"broker-a": {0: master.address, 1: slave.address}})
    cluster.add("other", **{"broker-b": {0: known.address}})
    client.routes.get("other")
    join(client)
    client.heartbeat.heartbeat_now()
    assert [len(b.requests(BEAT)) for b in (master, slave, known)] == [1, 1, 1]


def test_heartbeats_and_all_else_share_one_connection(client, broker, join):
    broker.on(RequestCode.GET_MAX_OFFSET, ext={"offset": "1"})
    join(client)
    threads = [
        threading.Thread(target=client.heartbeat.heartbeat_now, daemon=True) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    queue = client.routes.get("orders").read_queues()[0]
    client.brokers.max_offset(queue)
    for thread in threads:
        thread.join(30)
    assert len(broker.requests(BEAT)) >= 8
    assert broker.accepted == 1
    assert {number for number, _ in broker.received} == {1}


def test_heartbeats_are_repeated(new_client, broker, join):
    client = new_client(heartbeat_interval=0.01).start()
    join(client)
    broker.wait_for(BEAT, 3)


def test_a_failing_broker_does_not_keep_the_others_from_hearing(
    client, new_broker, cluster, join, caplog
):
    dead, refusing, well = new_broker(), new_broker(), new_broker()
    dead.close()
    refusing.on(BEAT, code=16, remark="no")
    cluster.add(
        "orders",
        **{"broker-a": {0: dead.address, 1: refusing.address, 2: well.address}},
    )
    join(client)
    client.heartbeat.heartbeat_now()
    client.heartbeat.heartbeat_now()
    assert len(well.requests(BEAT)) == 2
    warned = [r.getMessage() for r in caplog.records if "heartbeat.failed" in r.getMessage()]
    assert len(warned) == 2  # once for each broker, not at every round


def test_it_tells_of_a_refusal_only_if_no_broker_took_it(client, new_broker, cluster, join):
    first, second = new_broker(), new_broker()
    cluster.add("orders", **{"broker-a": {0: first.address}, "broker-b": {0: second.address}})
    assert client.heartbeat.heartbeat_now() is None  # there is no member yet
    join(client)
    first.on(BEAT, code=16, remark="check signature failed.")
    assert client.heartbeat.heartbeat_now() is None
    second.on(BEAT, code=16, remark="check signature failed.")
    assert "check secret_key" in str(client.heartbeat.heartbeat_now())
    second.on(BEAT, code=2)  # busy is no refusal
    assert client.heartbeat.heartbeat_now() is None


def test_a_topic_without_a_route_is_reported_and_the_retry_topic_is_not(
    client, broker, join, caplog
):
    join(client, topics=("orders", "%RETRY%g", "nosuch"))
    client.heartbeat.heartbeat_now()
    assert len(broker.requests(BEAT)) == 1
    assert "nosuch" in caplog.text
    assert "%RETRY%g" not in caplog.text


def test_a_lost_connection_is_joined_again_soon(new_client, broker, join):
    client = new_client().start()
    join(client)
    client.heartbeat.heartbeat_now()
    broker.cut()
    broker.wait_for(BEAT, 2)
    assert broker.accepted == 2


def test_a_new_connection_opened_by_something_else_is_followed_by_a_heartbeat(client, broker, join):
    join(client)
    client.routes.get("orders")
    client.connections.get(broker.address)
    broker.wait_for(BEAT)


def test_a_round_that_connects_itself_makes_no_further_round(client, broker, join, monkeypatch):
    woken = []
    monkeypatch.setattr(client.heartbeat._timer, "wake", lambda: woken.append("at once"))
    monkeypatch.setattr(client.heartbeat._timer, "wake_within", woken.append)
    join(client)
    client.heartbeat.heartbeat_now()
    assert woken == []


def test_a_failed_heartbeat_is_repeated_soon(client, broker, join, monkeypatch):
    monkeypatch.setattr("orderly.client.heartbeat._RETRY_AFTER", 0.01)

    def not_yet(command):
        broker.on(BEAT)
        return reply_to(command, 1, remark="booting")

    broker.on(BEAT, not_yet)
    join(client)
    client.heartbeat.heartbeat_now()
    broker.wait_for(BEAT, 2)


# --- joining and leaving -----------------------------------------------------------------------


def test_the_same_group_twice_in_one_client_is_refused(client, join):
    join(client)
    client.heartbeat.register_producer("p")
    with pytest.raises(LifecycleError, match="'g'"):
        join(client)
    with pytest.raises(LifecycleError, match="'p'"):
        client.heartbeat.register_producer("p")
    client.heartbeat.register_producer("g")  # a producer group has a name space of its own


def test_leaving_is_told_to_brokers_with_a_connection_and_ends_heartbeats(client, broker, join):
    join(client)
    join(client, group="stays")
    client.heartbeat.heartbeat_now()
    client.heartbeat.unregister_consumer("g")
    (left,) = broker.requests(LEAVE)
    assert left.ext == {"clientID": client.client_id, "consumerGroup": "g"}
    client.heartbeat.heartbeat_now()
    assert groups_in(broker.requests(BEAT)[-1]) == ["stays"]
    join(client)  # and it may come back


def test_a_producer_leaves_too(client, broker):
    client.routes.get("orders")
    client.heartbeat.register_producer("p")
    client.heartbeat.heartbeat_now()
    client.heartbeat.unregister_producer("p")
    (left,) = broker.requests(LEAVE)
    assert left.ext == {"clientID": client.client_id, "producerGroup": "p"}


def test_leaving_connects_nowhere_and_leaving_twice_is_harmless(client, broker, join):
    client.routes.get("orders")
    join(client)
    client.heartbeat.unregister_consumer("g")
    client.heartbeat.unregister_consumer("g")
    client.heartbeat.unregister_producer("never joined")
    assert broker.accepted == 0


def test_brokers_that_no_route_names_any_more_are_left_too(client, new_broker, cluster, join):
    """One where a topic was, or a proxy before: it would list this member for two minutes."""
    former, present = new_broker(), new_broker()
    cluster.add("orders", **{"broker-a": {0: former.address}})
    join(client)
    client.heartbeat.register_producer("p")
    client.heartbeat.heartbeat_now()
    cluster.add("orders", **{"broker-a": {0: present.address}})
    client.routes.refresh("orders")
    client.heartbeat.unregister_consumer("g")
    client.heartbeat.unregister_producer("p")
    left = [command.ext for command in former.requests(LEAVE)]
    assert [(ext.get("consumerGroup"), ext.get("producerGroup")) for ext in left] == [
        ("g", None), (None, "p"),
    ]  # fmt: skip


def test_a_broker_that_refuses_to_let_go_is_logged(client, broker, join, caplog):
    broker.on(LEAVE, code=1, remark="no")
    join(client)
    client.heartbeat.heartbeat_now()
    client.heartbeat.unregister_consumer("g")
    assert "member.not_unregistered" in caplog.text


@pytest.fixture
def brokers_that_hang(cluster, new_broker):
    """Ten that answer nothing any more once they are told to hang."""
    brokers, hang = [new_broker() for _ in range(10)], threading.Event()
    for number, broker in enumerate(brokers):
        for code in (BEAT, LEAVE):
            broker.on(code, lambda request: None if hang.is_set() else reply_to(request))
        cluster.add(f"topic-{number}", **{f"broker-{number}": {0: broker.address}})
    return brokers, hang


def test_brokers_that_hang_are_waited_for_together(new_client, brokers_that_hang, join, caplog):
    brokers, hang = brokers_that_hang
    client = new_client(request_timeout=2.0)
    for number in range(len(brokers)):
        client.routes.get(f"topic-{number}")
    join(client)
    client.heartbeat.heartbeat_now()
    hang.set()
    began = time.monotonic()
    client.heartbeat.heartbeat_now()
    client.heartbeat.unregister_consumer("g")
    assert time.monotonic() - began < 2.0 * len(brokers)
    for broker in brokers:
        assert [len(broker.requests(code)) for code in (BEAT, LEAVE)] == [2, 1]
    assert caplog.text.count("member.not_unregistered") == len(brokers)


def test_no_heartbeat_overtakes_the_end_of_a_membership(client, broker, join):
    """A heartbeat composed before the end but sent after it would bring the member back."""
    composing, go_on = threading.Event(), threading.Event()

    def slow_subscriptions():
        composing.set()
        assert go_on.wait(30)
        return (Subscription.from_expression("orders", "*", 1),)

    join(client, group="g")
    client.heartbeat.heartbeat_now()
    client.heartbeat.register_consumer(
        "slow", subscriptions=slow_subscriptions, on_members_changed=lambda: None
    )
    beating = threading.Thread(target=client.heartbeat.heartbeat_now, daemon=True)
    beating.start()
    assert composing.wait(30)
    leaving = threading.Thread(
        target=client.heartbeat.unregister_consumer, args=("g",), daemon=True
    )
    leaving.start()
    leaving.join(0.05)  # time for the mistake, if there is one; it must not end yet
    go_on.set()
    beating.join(30)
    leaving.join(30)
    codes = [command.code for _, command in broker.received]
    assert codes == [BEAT, BEAT, LEAVE]


# --- the brokers' requests ---------------------------------------------------------------------


def changed(group):
    return request(CHANGED, {"consumerGroup": group}, oneway=True)


def test_a_change_of_members_reaches_its_group_off_the_reader_thread(client, broker, join):
    changes, others = join(client), join(client, group="other")
    client.heartbeat.heartbeat_now()
    broker.push(changed("g"))
    (thread,) = eventually(lambda: changes)
    assert not thread.startswith("orderly-read")
    assert others == []


def test_however_many_notices_come_few_of_a_group_wait(client, broker, join):
    changes, going_on = join(client), threading.Event()
    client.schedule.after(0, lambda: going_on.wait(30))  # it is busy
    for number in range(1000):
        client._members_changed("g")
        client._members_changed(f"stranger-{number}")
    assert len(client.schedule._timers) <= 17
    going_on.set()
    eventually(lambda: len(changes) == 16)
    client._members_changed("g")
    eventually(lambda: len(changes) == 17)


def test_a_change_in_a_group_nobody_knows_is_ignored(client, broker, join):
    changes = join(client)
    client.heartbeat.heartbeat_now()
    broker.push(changed("stranger"))
    broker.push(changed("g"))
    assert eventually(lambda: changes)


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.CHECK_TRANSACTION_STATE,
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
        4711,
    ],
)
def test_any_other_request_is_refused_at_once_with_a_reason(client, broker, join, code):
    join(client)
    client.heartbeat.heartbeat_now()
    broker.push(request(code))
    refusal = eventually(lambda: [c for _, c in broker.received if c.is_response])[0]
    assert refusal.code == 3
    assert "orderly" in refusal.remark


def test_a_oneway_request_is_not_answered(client, broker, join):
    join(client)
    client.heartbeat.heartbeat_now()
    broker.push(request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, oneway=True))
    broker.push(request(RequestCode.GET_CONSUMER_RUNNING_INFO))
    eventually(lambda: [c for _, c in broker.received if c.is_response])
    assert len([c for _, c in broker.received if c.is_response]) == 1
