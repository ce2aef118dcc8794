"""The monitor: scans again and again, survives what fails, tells how it does, ends."""

import threading
from dataclasses import replace

import pytest

from orderly.client.pipeline import RequestLimits
from orderly.errors import LifecycleError
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.collecting.monitor import Monitor
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.protocol.codes import RequestCode as Code
from tests.support.waiting import eventually

PATIENT = ScanSettings(deadline=60.0, limits=RequestLimits(patience=10.0))
SOON = 0.02  # seconds between scans


@pytest.fixture
def orders(world):
    world.topic("orders")
    world.group("pay")
    world.store("orders", 0, 5)
    world.commit("pay", "orders", {0: 3})


@pytest.fixture
def monitor(client):
    monitors = []

    def new(details=None, interval=SOON, **options):
        collector = Collector(client, settings=PATIENT)
        monitors.append(Monitor(collector, Backlog(), details, interval=interval, **options))
        return monitors[-1]

    yield new
    for one in monitors:
        one.close()


def backlog_of(monitor):
    snapshot = monitor.latest()
    return snapshot and snapshot.groups["pay"].sums.backlog


def test_the_latest_snapshot_follows_the_cluster(orders, world, monitor):
    watching = monitor().start()
    eventually(lambda: backlog_of(watching) == 2)
    world.store("orders", 0, 4)
    eventually(lambda: backlog_of(watching) == 6)
    assert [point.backlog for point in watching.history("pay")][-1] == 6
    assert watching.history("pay", "orders")


def test_before_the_first_scan_there_is_no_snapshot(monitor):
    watching = monitor()
    assert watching.latest() is None
    assert not watching.status().running


def test_a_failure_keeps_the_last_snapshot_and_is_told(orders, fakes, monitor):
    watching = monitor(interval=3600.0)
    watching._round()
    fakes.stop()
    watching._round()
    status = watching.status()
    assert (status.scans, status.failures) == (1, 1)
    assert "name server" in status.last_error
    assert status.last_success > 0
    assert backlog_of(watching) == 2


def test_a_failure_of_any_kind_is_survived(orders, monitor):
    class Details:
        broken = True

        def add(self, scan, last, round_):
            if self.broken:
                raise ZeroDivisionError("a defect")
            return scan

    watching = monitor(Details()).start()
    assert eventually(lambda: watching.status().last_error) == "a defect"
    Details.broken = False
    eventually(watching.latest)
    assert eventually(lambda: watching.status().last_error is None)


def test_details_are_asked_after_each_scan_with_the_last_snapshot(orders, monitor):
    calls = []

    class Details:
        def add(self, scan, last, round_):
            calls.append((scan.at, last and last.at, set(round_.masters)))
            return replace(scan, cluster="detailed")

    watching = monitor(Details()).start()
    eventually(lambda: len(calls) >= 2)
    (first, none, brokers), (_, last, _), *_ = calls
    assert (none, last) == (None, first)
    assert brokers == {"broker-a", "broker-b"}
    assert watching.latest().cluster == "detailed"


def test_each_snapshot_is_told_once(orders, monitor):
    taken = []
    watching = monitor(taken=taken.append).start()
    eventually(lambda: len(taken) >= 3)
    assert len({id(snapshot) for snapshot in taken}) == len(taken)
    assert taken[0].groups["pay"].sums.backlog == 2
    watching.close()
    assert watching.status().scans == len(taken)


def test_close_ends_the_thread_and_may_be_repeated(orders, world, monitor):
    watching = monitor().start()
    eventually(watching.latest)
    watching.close()
    watching.close()
    assert not any(thread.name == "orderly-monitor" for thread in threading.enumerate())
    assert not watching.status().running
    counts = world.count()
    assert not counts
    with pytest.raises(LifecycleError):
        watching.start()


def test_monitoring_takes_part_in_nothing(orders, world, monitor):
    counts = world.count()
    with monitor() as watching:
        eventually(lambda: watching.status().scans >= 3)
    assert counts.keys() <= {
        Code.GET_BROKER_CLUSTER_INFO,
        Code.GET_ALL_CONSUMER_OFFSET,
        Code.GET_ALL_TOPIC_CONFIG,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        Code.GET_BROKER_CONFIG,
        Code.GET_TOPIC_STATS_INFO,
    }


def test_a_group_that_vanishes_is_gone_within_two_scans(orders, world, monitor):
    watching = monitor(interval=3600.0)
    world.commit("pay", "orders", {0: 3})
    watching._round()
    assert "pay" in watching.latest().groups
    world.forget_group("pay")
    watching._round()
    watching._round()
    assert "pay" not in watching.latest().groups


def test_a_broker_that_falls_silent_is_told_of_once_and_so_is_its_return(
    orders, client, fakes, monitor, caplog
):
    def told():
        return [
            record.getMessage().split("'")[1]
            for record in caplog.records
            if "event='broker." in record.getMessage()
        ]

    caplog.set_level("INFO", "orderly.monitoring")
    short = ScanSettings(deadline=60.0, limits=RequestLimits(patience=6.0))
    watching = Monitor(Collector(client, settings=short), Backlog())
    watching._round()
    fakes.pause_broker("broker-b")
    for _ in range(2):
        watching._round()
        assert told() == ["broker.not_measured"]
    fakes.resume_broker("broker-b")
    for _ in range(2):
        watching._round()
        assert told() == ["broker.not_measured", "broker.measured_again"]
