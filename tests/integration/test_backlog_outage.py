"""Two real brokers, of which one hangs or dies: that part is unknown, the rest is fresh."""

import contextlib
from functools import partial
from types import SimpleNamespace

import pytest

from orderly.cli.root import run
from orderly.client.pipeline import RequestLimits
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.collecting import scan
from orderly.monitoring.collecting.monitor import Monitor
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.selection import Selection
from orderly.testing import EmbeddedBroker
from orderly.testing.ports import free_port
from tests.support.consuming import unique
from tests.support.snapshots import Surveyed, states_of
from tests.support.waiting import eventually, patient_client, patient_producer

pytestmark = pytest.mark.usefixtures("orderly_broker")  # whether there is a broker, and Java

# Quick to find the one that hangs; the other one may be slow.
QUICK = ScanSettings(deadline=30.0, limits=RequestLimits(patience=5.0))


@pytest.fixture(scope="module")
def two():
    """Two brokers of one cluster."""
    own = free_port()
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(EmbeddedBroker())
        both = {"namesrvAddr": f"127.0.0.1:{own};{first.namesrv}"}
        second = stack.enter_context(
            EmbeddedBroker(namesrv_port=own, broker_name="broker-b", broker_properties=both)
        )
        client = stack.enter_context(patient_client(first.namesrv))
        eventually(lambda: len(client.admin.cluster().brokers) == 2)
        yield SimpleNamespace(namesrv=first.namesrv, second=second, client=client)


@pytest.fixture(scope="module")
def surveyed(two):
    """A group that left 5 of the 10 messages of broker-a, and none of those of broker-b."""
    surveyed = Surveyed(two.client, unique("group"), unique("topic"))
    two.client.admin.create_topic(surveyed.topic, 1)
    for broker in ("broker-a", "broker-b"):
        two.client.groups.group_config(surveyed.group, broker)
    with patient_producer(client=two.client, layout="loose") as producer:
        for number in range(2):
            surveyed.send(producer, number, 10)
    two.client.brokers.update_offset(surveyed.group, surveyed.queue(0), 5)
    two.client.brokers.update_offset(surveyed.group, surveyed.queue(0, "broker-b"), 10)
    return surveyed


@pytest.fixture
def orderly(two, patient_commands, monkeypatch, capsys):
    monkeypatch.setattr(scan, "ScanSettings", partial(ScanSettings, limits=QUICK.limits))

    def call(*args):
        code = run([*args, "--namesrv", two.namesrv])
        return (code, capsys.readouterr().out)

    return call


def test_members_are_those_of_all_brokers_together(two, surveyed):
    group = Surveyed(two.client, unique("group"), surveyed.topic)
    for name, broker in (("one@1", "broker-a"), ("two@2", "broker-b")):
        group.join(name, broker)
        group.client.brokers.update_offset(group.group, group.queue(0, broker), 0)
    status = group.status()
    assert status.members == ("one@1", "two@2")
    assert not {"OFFLINE", "ORPHAN"} & set(states_of(status.rows())), "they did not tell more"
    assert status.idle is None


def test_a_broker_that_hangs_is_unknown_and_what_was_seen_counts(two, surveyed, orderly):
    check = "backlog", "check", surveyed.group, "--timeout", "20s"
    assert states_of(surveyed.rows()) == ["OFFLINE", "OK"]
    assert orderly(*check)[0] == 2
    two.second.pause_broker()
    try:
        snapshot = surveyed.snapshot(settings=QUICK)
        code, line = orderly(*check)
        assert (code, "broker-b did not answer" in line) == (3, True)
        assert orderly(*check, "--crit", "3")[0] == 2, "of the 5 on broker-a nothing is in doubt"
        assert orderly(*check, "--warn", "3")[0] == 3
        code, metrics = orderly("backlog", "list", "-o", "prometheus")
    finally:
        two.second.resume_broker()
    here, there = snapshot.groups[surveyed.group].rows()
    assert (here.committed, here.backlog, here.head_age > 0) == (5, 5, True)
    assert here.state.name != "OFFLINE", "a member may be known to broker-b alone"
    assert (there.state.name, there.committed, there.backlog) == ("UNKNOWN", None, None)
    assert (snapshot.groups[surveyed.group].sums.backlog, snapshot.scan_seconds < 20) == (5, True)
    assert 'orderly_broker_up{cluster="DefaultCluster",broker="broker-a"} 1' in metrics
    assert 'orderly_broker_up{cluster="DefaultCluster",broker="broker-b"} 0' in metrics
    eventually(lambda: orderly(*check)[0] == 2, 60, every=0.2)


def test_a_monitor_remembers_a_broker_that_died_until_it_is_back(two, surveyed):
    """A name server forgets it with its connection; who asks only once cannot know of it."""
    chosen = Selection(groups=(surveyed.group,))
    with Monitor(Collector(two.client, chosen, QUICK), Backlog(), interval=0.3) as monitor:

        def states():
            snapshot = monitor.latest()
            group = snapshot and snapshot.groups.get(surveyed.group)
            return group and states_of(group.rows())

        before = eventually(lambda: (found := states()) and "UNKNOWN" not in found and found)
        two.second.kill_broker()
        assert eventually(lambda: (found := states())[1] == "UNKNOWN" and found) == [
            before[0], "UNKNOWN",
        ]  # fmt: skip
        eventually(lambda: "broker-b" not in two.client.admin.cluster().brokers)
        eventually(lambda: "no longer listed" in str(monitor.latest().brokers["broker-b"].error))
        assert states()[1] == "UNKNOWN"
        assert len(surveyed.rows()) == 1
        two.second.restart_broker()
        eventually(lambda: states() == before, 60)
