"""docker/compose.yaml brings up a cluster on which the demo runs, and which is watched.

The tests run in their order: the last ones stop servers.
"""

import json
import re

import pytest
import yaml

from tests.compose.project import DOCKER
from tests.support.waiting import eventually

DASHBOARDS = DOCKER / "monitoring" / "dashboards"
SERVERS = {
    "broker-a": {"0": "127.0.0.1:10911", "1": "127.0.0.1:10931"},
    "broker-b": {"0": "127.0.0.1:10921"},
}
WHO_IS_THERE = """
import json, sys
from orderly import Client
with Client(namesrv=sys.argv[1]) as client:
    brokers = client.admin.cluster().brokers
print(json.dumps({name: dict(broker.addresses) for name, broker in brokers.items()}))
"""
HOW_MANY_SERIES = """
import json, sys, urllib.parse, urllib.request
for expr in json.loads(sys.argv[1]):
    asked = "http://prometheus:9090/api/v1/query?query=" + urllib.parse.quote(expr)
    print(len(json.load(urllib.request.urlopen(asked, timeout=30))["data"]["result"]))
"""

pytestmark = pytest.mark.timeout(600)  # the first test builds the image and starts all of it


@pytest.fixture(scope="session")
def demo(compose):
    """The demo's report, as JSON."""
    done = compose.call("run", "--rm", "-T", "demo", "demo", "--count", "1000", "-o", "json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="session")
def topic(compose, demo):
    names = compose.orderly("topic", "list", "-o", "json").stdout
    (topic,) = {name for name in json.loads(names) if name.startswith("orderly-demo-")}
    return topic


@pytest.mark.parametrize("port", [9876, 9877])
def test_each_name_server_knows_both_brokers_and_the_slave(compose, port):
    def told():
        asked = ("python3", "-c", WHO_IS_THERE, f"127.0.0.1:{port}")
        return json.loads(compose.run_in("exporter", *asked).stdout)

    eventually(lambda: told() == SERVERS, within=60, every=1)


def test_the_demos_verdict_is_good_on_two_brokers(demo):
    assert demo["ok"]
    assert (demo["events"], demo["lost"], demo["out_of_order"], demo["backlog"]) == (1000, 0, 0, 0)
    assert {queue.partition("/")[0] for queue in demo["per_queue"]} == {"broker-a", "broker-b"}


def test_the_slave_has_the_messages_of_its_master(compose, topic):
    queue = f"ls $HOME/store/consumequeue/{topic}/0"
    eventually(lambda: compose.run_in("broker-a-slave", "sh", "-c", queue).returncode == 0, every=1)


def test_the_proxy_answers_for_both_brokers(compose, topic):
    done = compose.orderly("topic", "show", topic, "--namesrv", "127.0.0.1:8080")
    assert all(name in done.stdout for name in SERVERS)


def test_the_backlog_is_judged_good(compose, topic):
    done = compose.orderly("backlog", "check", topic)
    assert (done.returncode, done.stdout[:10]) == (0, "ORDERLY OK")


def test_prometheus_has_the_exporter_as_its_target(compose):
    def target():
        (found,) = compose.prometheus("targets")["activeTargets"]
        return found["health"] == "up"

    eventually(target, within=60, every=1)


def test_prometheus_has_every_rule_and_can_evaluate_it(compose):
    committed = yaml.safe_load((DOCKER / "monitoring" / "rules" / "orderly.yaml").read_text())
    names = [rule["alert"] for group in committed["groups"] for rule in group["rules"]]

    def rules():
        groups = compose.prometheus("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    assert sorted(rule["name"] for rule in rules()) == sorted(names)
    eventually(lambda: {rule["health"] for rule in rules()} == {"ok"}, within=60, every=1)


def test_prometheus_sees_both_brokers_and_the_demos_group(compose, topic):
    up = {("broker-a",): "1", ("broker-b",): "1"}
    eventually(lambda: compose.series("orderly_broker_up") == up, within=60, every=1)
    backlog = "orderly_group_backlog_messages"
    eventually(lambda: compose.series(backlog) == {(topic,): "0"}, within=60, every=1)


@pytest.mark.parametrize("board", sorted(DASHBOARDS.iterdir()), ids=lambda path: path.stem)
def test_the_dashboards_have_something_to_show(compose, topic, board):
    """Grafana is not here: its queries are asked as it would, with every variable on "All"."""
    panels = json.loads(board.read_text())["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    filled = json.dumps([re.sub(r"\$\w+", ".*", expr) for expr in asked])

    def series():
        done = compose.run_in("exporter", "python3", "-c", HOW_MANY_SERIES, filled)
        assert done.returncode == 0, done.stderr
        found = [int(line) for line in done.stdout.split()]
        assert len(found) == len(asked)
        return found

    eventually(lambda: any(series()), within=60, every=1)  # much is about trouble: there is none


def test_the_exporter_has_no_rights(compose):
    assert compose.run_in("exporter", "id", "-u").stdout.strip() == "10001"
    assert compose.run_in("exporter", "touch", "/tmp/file").returncode != 0
    bounds = compose.run_in("exporter", "grep", "CapBnd", "/proc/self/status").stdout
    assert int(bounds.split()[1], 16) == 0


# --- servers end


def test_one_name_server_is_enough(compose, topic):
    compose.do("stop", "--timeout", "5", "namesrv-a")
    assert compose.orderly("backlog", "check", topic).returncode == 0


def test_a_broker_that_is_away_becomes_an_alert(compose):
    compose.do("stop", "--timeout", "5", "broker-b")

    def alerts():
        told = compose.prometheus("alerts")["alerts"]
        return [(one["labels"]["alertname"], one["labels"].get("broker")) for one in told]

    eventually(lambda: ("OrderlyBrokerUnreachable", "broker-b") in alerts(), within=120, every=1)


def test_the_exporter_ends_cleanly(compose):
    compose.do("stop", "--timeout", "20", "exporter")
    assert compose.state("exporter")["State"]["ExitCode"] == 0
