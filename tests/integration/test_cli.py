"""The command on a real broker: what it prints is true, and looking changes nothing."""

import json
import time

import pytest

from orderly.cli.reader import GROUP as TAIL_GROUP
from orderly.client.broker import PullQuery
from orderly.model import MessageQueue
from orderly.protocol.heartbeat import Subscription
from tests.support.brokers import delete_topic
from tests.support.consuming import unique
from tests.support.waiting import eventually


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=2)


def queue(topic, number):
    return MessageQueue(topic, "broker-a", number)


def make_group(client, group, topic):
    """A pull makes the broker know the group; a commit does not."""
    everything = Subscription.from_expression(topic, "*", 1)
    client.brokers.pull_now(PullQuery(group, queue(topic, 0), 0, 1, everything, suspend=0))


def commit(client, group, topic, *offsets):
    make_group(client, group, topic)
    for number, offset in enumerate(offsets):
        client.brokers.update_offset(group, queue(topic, number), offset)


def tail(orderly, topic, count, *args):
    """The lines of `orderly tail`, once there are `count`: a message is acknowledged before its
    queue shows it."""
    lines = []

    def all_there():
        code, out, err = orderly("tail", topic, "--no-headers", *args)
        assert (code, err) == (0, "")
        lines[:] = out.splitlines()
        return len(lines) >= count

    eventually(all_there, every=0.05)
    return lines


def fill(orderly, client, topic, per_queue):
    """Send until both queues show `per_queue` messages."""
    keys = {}
    for n in range(50):
        keys.setdefault(send(orderly, topic, f"k{n}")["queue"], f"k{n}")
        if len(keys) == 2:
            break
    for key in keys.values():
        while send(orderly, topic, key)["offset"] < per_queue - 1:
            pass
    eventually(lambda: all(client.brokers.max_offset(queue(topic, n)) == per_queue for n in (0, 1)))


def send(orderly, topic, key):
    code, out, _ = orderly("send", topic, "x", "--key", key, "-o", "json")
    assert code == 0
    return json.loads(out)


def test_a_topic_is_created_listed_and_shown(orderly):
    name = unique("cli")
    code, out, _ = orderly("topic", "create", name, "--queues", "3")
    assert (code, name in out) == (0, True)
    code, out, _ = orderly("topic", "create", name, "--queues", "3")
    assert (code, out) == (0, f"{name} already exists with 3 queues\n")
    code, _, err = orderly("topic", "create", name, "--queues", "4")
    assert (code, "broker-a: 3; wanted: broker-a: 4" in err) == (3, True), err
    assert name in orderly("topic", "list")[1].splitlines()
    code, out, _ = orderly("topic", "show", name, "-o", "json")
    (broker,) = json.loads(out)["brokers"]
    assert (broker["broker"], broker["write_queues"], broker["permission"]) == ("broker-a", 3, "RW")


def test_a_topic_that_only_the_name_server_knows_is_created(orderly, client, topic):
    delete_topic(client, topic, routes=False)
    assert client.routes.get(topic).read_queues() != ()
    assert orderly("topic", "create", topic, "--queues", "3")[:2] == (
        0,
        f"created {topic} with 3 queues on each broker\n",
    )
    assert json.loads(orderly("topic", "show", topic, "-o", "json")[1])["layout"] == "broker-a:3"
    assert orderly("topic", "create", topic, "--queues", "3")[1].startswith(
        f"{topic} already exists"
    )


def test_what_an_earlier_tail_left_is_not_told(orderly, client, topic):
    make_group(client, "orderly-tail", topic)
    assert "orderly-tail" not in orderly("backlog", "check", "*")[1]
    assert "orderly-tail" not in orderly("backlog", "-o", "json")[1]


def test_only_users_topics_are_listed_unless_all_are_wanted(orderly, topic):
    mine = json.loads(orderly("topic", "list", "-o", "json")[1])
    assert topic in mine
    system = ("%RETRY%", "%DLQ%", "RMQ_SYS")
    assert [name for name in mine if name.upper().startswith(system)] == []
    everything = json.loads(orderly("topic", "list", "--all", "-o", "json")[1])
    assert {"BenchmarkTest", "broker-a"} <= set(everything) - set(mine)


def test_a_topic_that_does_not_exist_is_not_measured(orderly):
    for args in (["topic", "show"], ["tail"], ["backlog", "list", "g", "-t"]):
        code, out, err = orderly(*args, unique("missing"))
        assert (code, out) == (3, "")
        assert err.startswith("error: ")


def test_what_is_sent_by_key_comes_out_in_order(orderly, topic, tmp_path):
    path = tmp_path / "lines"
    path.write_text("".join(f"line {n}\n" for n in range(100)))
    code, out, err = orderly("send", topic, "--file", str(path), "--lines", "--key", "k")
    assert (code, err) == (0, "")
    assert len({line.split()[2] for line in out.splitlines()[1:]}) == 1, "one key, one queue"
    orderly("send", topic, "other", "--key", "other")
    assert (code, err) == (0, "")
    messages = [json.loads(line) for line in tail(orderly, topic, 100, "--key", "k", "-o", "json")]
    assert [message["body"] for message in messages] == [f"line {n}" for n in range(100)]
    assert [message["offset"] for message in messages] == sorted(m["offset"] for m in messages)


def test_tail_starts_where_it_is_told(orderly, topic):
    orderly("send", topic, "before", "--key", "k")
    time.sleep(0.05)  # the broker searches by whole milliseconds
    moment = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 1))
    assert tail(orderly, topic, 1)[0].endswith("before")
    assert orderly("tail", topic, "--from", "last")[1] == ""
    assert orderly("tail", topic, "--from", moment)[1] == ""
    assert orderly("tail", topic, "--from", "2001-01-01T00:00:00Z")[1].rstrip().endswith("before")


def test_tail_makes_and_joins_no_group_and_commits_nothing(orderly, client, topic):
    orderly("send", topic, "x", "--key", "k", "--repeat", "40")
    before = client.admin.groups()
    assert len(tail(orderly, topic, 40)) == 40
    assert client.admin.groups() == before
    assert client.admin.consumer_connections(TAIL_GROUP) is None
    for number in (0, 1):
        assert client.brokers.query_offset(TAIL_GROUP, queue(topic, number)) is None


@pytest.mark.parametrize(
    ("committed", "warn", "crit", "code", "word"),
    [
        ((5, 5), 0, 9, 0, "OK"),
        ((5, 3), 1, 9, 2, "OFFLINE"),
        ((0, 0), 1, 9, 2, "backlog 10 messages"),
        ((5,), 1, 9, 3, "NEW"),
        ((5, 6), 1, 9, 1, "AHEAD"),
        ((), 1, 9, 3, "no queue found"),
    ],
)
def test_check_judges_what_the_broker_holds(
    orderly, client, topic, group, committed, warn, crit, code, word
):
    fill(orderly, client, topic, 5)
    commit(client, group, topic, *committed)
    found, out, err = orderly("backlog", "check", group, "--warn", str(warn), "--crit", str(crit))
    assert (found, err) == (code, "")
    assert word in out
    assert out.count("\n") == 1


def test_ls_tells_a_committed_zero_from_never_committed(orderly, client, topic, group):
    fill(orderly, client, topic, 5)
    commit(client, group, topic, 0)
    code, out, _ = orderly("backlog", "list", group, "--topic", topic, "-o", "json")
    assert code == 0
    (found,) = json.loads(out)["groups"][0]["topics"]
    assert [row["committed"] for row in found["queues"]] == [0, None]
    assert [row["backlog"] for row in found["queues"]] == [5, None]
    assert [row["state"] for row in found["queues"]] == ["OFFLINE", "NEW"]
    totals = found["totals"]
    assert (totals["queues"], totals["unknown"], totals["backlog"]) == (2, 1, 5)


def test_looking_at_a_group_does_not_create_it(orderly, client, topic, group):
    before = client.admin.groups()
    orderly("backlog", "check", group, "-t", topic, "--crit", "1")
    orderly("backlog", "list", group, "-t", topic)
    orderly("backlog")
    assert client.admin.groups() == before
    assert client.admin.consumer_connections(group) is None


def test_a_broker_that_does_not_answer_is_not_measured(orderly, orderly_broker, topic):
    orderly_broker.pause_broker()
    try:
        started = time.monotonic()
        code, out, err = orderly("backlog", "check", "g", "--crit", "1")
        took = time.monotonic() - started
    finally:
        orderly_broker.resume_broker()
    assert (code, out.startswith("ORDERLY UNKNOWN - ")) == (3, True)
    assert err.startswith("error: ")
    assert took < 60, "it does not wait for the broker"


def test_a_namespace_is_meant_by_every_command_and_shown_in_full(orderly, client):
    namespace, name = unique("tenant"), unique("orders")
    real_group, real_topic = f"{namespace}%shipping", f"{namespace}%{name}"

    def in_namespace(*args):
        code, out, err = orderly(*args, "--namespace", namespace)
        assert code == 0, err
        return out

    assert real_topic in in_namespace("topic", "create", name, "--queues", "2")
    assert json.loads(in_namespace("topic", "list", "-o", "json")) == [real_topic]
    assert json.loads(in_namespace("topic", "show", name, "-o", "json"))["topic"] == real_topic
    sent = json.loads(in_namespace("send", name, "hello", "--key", "k", "-o", "json"))
    assert sent["topic"] == real_topic
    eventually(lambda: client.brokers.max_offset(queue(real_topic, sent["queue"])) == 1)
    assert json.loads(in_namespace("tail", name, "-o", "json"))["topic"] == real_topic
    commit(client, real_group, real_topic, 0, 0)
    (listed,) = json.loads(in_namespace("backlog", "-o", "json"))["groups"]
    assert (listed["group"], listed["totals"]["backlog"]) == (real_group, 1)
    check = ("backlog", "check", "shipping", "--namespace", namespace)
    assert real_group in orderly(*check)[1]
    in_namespace("offsets", "reset", "shipping", name, "--to-latest", "--yes")
    shown = json.loads(in_namespace("offsets", "show", "shipping", "-o", "json"))
    assert sum(row["committed"] for row in shown["queues"]) == 1
    assert {row["topic"] for row in shown["queues"]} == {real_topic}
