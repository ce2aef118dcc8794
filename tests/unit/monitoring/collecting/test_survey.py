"""One survey for the command line: what it finds, what it says of what is not there."""

import time

import pytest

from orderly.client.pipeline import RequestLimits
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.collecting.budgets import Budgets
from orderly.monitoring.collecting.scan import ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.monitoring.collecting.survey import survey
from orderly.protocol.codes import RequestCode as Code
from orderly.protocol.heartbeat import Subscription
from tests.support.waiting import patient_client

ONE = Selection(groups=("pay",))
PATIENT = ScanSettings(60.0, RequestLimits(patience=10.0))


@pytest.fixture
def orders(world):
    world.topic("orders")
    world.group("pay")
    world.store("orders", 0, 5)
    world.commit("pay", "orders", {0: 3, 1: 0})
    world.commit("pay", "orders", {0: 0, 1: 0}, broker="broker-b")


def test_one_survey_measures_and_judges(orders, client):
    snapshot = survey(client, ONE, settings=PATIENT)
    assert snapshot.groups["pay"].sums.backlog == 2
    assert {row.state for row in snapshot.rows()} == {QueueState.OK}


def test_an_unknown_group_is_not_in_it(orders, client):
    snapshot = survey(client, Selection(groups=("typo",)), settings=PATIENT)
    assert snapshot.groups == {}
    assert not any(broker.error for broker in snapshot.brokers.values())


def test_one_broker_of_two_down_is_unknown_and_the_rest_measured(orders, fakes, client):
    fakes.pause_broker("broker-b")
    snapshot = survey(client, ONE, settings=ScanSettings(60.0, RequestLimits(patience=6.0)))
    states = {row.queue.broker_name: row.state for row in snapshot.rows()}
    assert states == {"broker-a": QueueState.OK, "broker-b": QueueState.UNKNOWN}
    assert snapshot.brokers["broker-b"].error


def test_one_group_costs_its_topic_and_a_few_requests(orders, world, client):
    for number in range(20):
        world.topic(f"other-{number}")
        world.commit("ship", f"other-{number}", {0: 0})
    counts = world.count()
    survey(client, ONE, settings=PATIENT, budgets=Budgets())
    assert counts[Code.GET_TOPIC_STATS_INFO] == 2
    assert counts[Code.GET_CONSUMER_CONNECTION_LIST] == 2
    assert sum(counts.values()) <= 20


def test_several_samples_are_so_far_apart_and_give_rates(orders, client):
    began = time.monotonic()
    snapshot = survey(client, ONE, settings=PATIENT, samples=3, interval=0.1)
    assert time.monotonic() - began >= 0.2
    assert snapshot.window > 0


def test_a_topic_consumed_and_never_committed_is_found_in_one_survey(orders, world, fakes, client):
    world.topic("refunds")
    with patient_client(fakes.namesrv) as member:
        for topic in ("orders", "refunds"):
            member.routes.get(topic)
        member.heartbeat.register_consumer(
            "refund",
            subscriptions=lambda: (Subscription("refunds"), Subscription("%RETRY%refund")),
            on_members_changed=list,
        )
        member.heartbeat.heartbeat_now()
        chosen = Selection(groups=("refund",))
        snapshot = survey(client, chosen, settings=PATIENT, budgets=Budgets())
    assert {(row.queue.topic, row.committed) for row in snapshot.rows()} == {("refunds", None)}
