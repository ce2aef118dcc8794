"""`orderly topic grow` on a fake broker: what it refuses, waits for, undoes; and `create`."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly import Ack, ConsumerConfig, Message, OrderlyConsumer, OrderlyProducer, Park
from orderly.cli.root import run
from orderly.client.broker import PullQuery
from orderly.client.routes import Routes
from orderly.errors import NameServerUnavailable
from orderly.model import MessageQueue
from orderly.monitoring import topic_growth
from orderly.monitoring.collecting.selection import PROXY_TOPIC
from orderly.ordering import topic_names
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import (
    ConsumerData,
    Heartbeat,
    MessageModel,
    Subscription,
    encode_heartbeat,
)
from orderly.testing.fake.broker import FakeBroker
from tests.support.waiting import eventually, patient_client, patient_producer

QUICK = ("--observe", "0.1s", "--idle", "0.2s", "--timeout", "30s", "--yes")
IMPATIENT = ("--observe", "0.1s", "--idle", "0.2s", "--timeout", "0.1s", "--yes")
FROM_FIRST = ConsumerConfig(consume_from="first", commit_interval=0.1)
BY_KEY = ConsumerConfig(consume_from="first", commit_interval=0.1, order="key")


@pytest.fixture(scope="module")
def fake():
    with FakeBroker(brokers=("broker-a", "broker-b")) as broker:
        yield broker


@pytest.fixture(scope="module")
def client(fake):
    with patient_client(fake.namesrv) as client:
        yield client


@pytest.fixture
def topic(fake, request):
    name = request.node.name[:100].replace("[", "-").replace("]", "")
    fake.create_topic(name, queues=2)
    return name


@pytest.fixture
def grow(fake, topic, capsys):
    """Run `orderly topic grow`; returns (exit code, stdout, stderr)."""

    def call(queues, *options):
        code = run(
            ["topic", "grow", topic, "--queues", str(queues), "--namesrv", fake.namesrv, *options]
        )
        return (code, *capsys.readouterr())

    return call


def fill(fake, topic, count=20):
    with patient_producer(fake.namesrv) as producer:
        for n in range(count):
            producer.send(Message(topic, b"%d" % n, sharding_key=f"k{n % 10}"))


def begin(client, group, topic):
    """A group that has committed in one queue of four, and is not there any more."""
    client.groups.group_config(group, "broker-a")  # makes it
    client.brokers.update_offset(group, MessageQueue(topic, "broker-a", 0), 0)


def join(client, group, topic, model):
    """A member as a stock client is one: it has committed nothing before its first success."""
    client.groups.group_config(group, "broker-a")  # makes it
    data = ConsumerData(group, (Subscription(topic, "*", version=1),), message_model=model)
    beat = request(RequestCode.HEART_BEAT, body=encode_heartbeat(Heartbeat("m1", (), (data,))))
    address = client.routes.get(topic).broker("broker-a").master
    client.connections.get(address).call(beat, 30)


def settings(client, topic):
    """Read and write queues and permission of the topic, by broker."""
    brokers = client.routes.refresh(topic).brokers
    configs = [client.admin.topic_config(topic, broker) for broker in brokers]
    return {(config.read_queues, config.write_queues, config.perm) for config in configs}


def test_it_waits_for_the_group_and_tells_the_new_pin(fake, client, topic, grow):
    fill(fake, topic)
    seen = []
    release = threading.Event()

    def handle(messages, _context):
        assert release.wait(60)
        seen.extend(messages)
        return Ack()

    def go_on_when_closed():
        eventually(lambda: settings(client, topic) == {(2, 2, 4)}, within=60)
        release.set()

    consumer = OrderlyConsumer(f"g-{topic}"[:100], handle, client=client, config=FROM_FIRST)
    with consumer.subscribe(topic):
        threading.Thread(target=go_on_when_closed, daemon=True).start()
        code, out, err = grow(4, *QUICK)
    assert (code, len(seen)) == (0, 20), err
    assert out.splitlines()[-1] == "layout=broker-a:4;broker-b:4"
    assert f"not finished: g-{topic}"[:60] in err
    assert settings(client, topic) == {(4, 4, 6)}


def test_a_dry_run_changes_nothing(fake, client, topic, grow):
    fill(fake, topic)
    begin(client, "half", topic)
    code, out, _ = grow(4, "--dry-run", "-o", "json")
    found = json.loads(out)
    assert code == 0
    assert (found["changed"], found["layout"]) == (False, "broker-a:4;broker-b:4")
    assert [each["group"] for each in found["behind"]] == ["half"]
    assert [row["writable"] for row in found["brokers"]] == [True, True]
    assert "orderly-producer" not in found["producers"], "it was closed"
    with OrderlyProducer("idle", namesrv=fake.namesrv) as producer:
        producer.send(Message(topic, b"x", sharding_key="k"))
        eventually(lambda: "idle (1)" in grow(4, "--dry-run")[2])
    assert settings(client, topic) == {(2, 2, 6)}


def test_a_topic_that_has_its_queues_needs_nothing(client, topic, grow):
    code, out, err = grow(2, "--yes")
    assert (code, out, "nothing to do" in err) == (0, "", True)
    code, out, _ = grow(2, "--yes", "-o", "json")
    assert json.loads(out)["changed"] is False


def test_what_a_group_never_read_is_not_finished_unless_it_is_left_out(fake, client, topic, grow):
    fill(fake, topic)
    begin(client, "gone", topic)
    code, _, err = grow(4, *IMPATIENT)
    assert code == 3
    assert "not drained within 0.1 s: gone: an unknown number of messages" in err
    assert settings(client, topic) == {(2, 2, 6)}
    assert grow(4, *QUICK, "--ignore-group", "gone")[0] == 0


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (MessageModel.CLUSTERING, "committed nothing yet"),
        (MessageModel.BROADCASTING, "keep their offsets themselves"),
    ],
    ids=["new", "broadcasting"],
)
def test_members_whose_progress_no_broker_knows_are_waited_for(
    fake, client, topic, grow, model, why
):
    group = f"j-{topic}"[:90]
    join(client, group, topic, model)
    assert json.loads(grow(4, "--dry-run", "-o", "json")[1])["behind"] == [], "it is empty"
    fill(fake, topic)
    code, _, err = grow(4, *IMPATIENT)
    assert (code, why in err) == (3, True), err
    assert settings(client, topic) == {(2, 2, 6)}
    assert grow(4, *QUICK, "--ignore-group", group)[0] == 0


def test_name_servers_that_are_silent_in_the_end_do_not_hide_that_it_is_done(
    client, topic, grow, monkeypatch
):
    refresh, asked = Routes.refresh, []

    def silent(routes, name):
        asked.append(name)
        if len(asked) in (2, 3):  # the first is for the plan
            raise NameServerUnavailable("no name server answers")
        return refresh(routes, name)

    monkeypatch.setattr(Routes, "refresh", silent)
    assert grow(4, *QUICK)[0] == 0
    assert len(asked) == 4
    assert settings(client, topic) == {(4, 4, 6)}


def test_a_topic_that_was_closed_before_is_said_to_be_closed_again(fake, client, topic, grow):
    fill(fake, topic)
    begin(client, "left", topic)
    for broker in client.routes.refresh(topic).brokers:
        config = client.admin.topic_config(topic, broker)
        client.admin.put_topic(replace(config, perm=4), broker)
    code, _, err = grow(4, *IMPATIENT)
    assert (code, "closed for writing on broker broker-a, broker-b before" in err) == (3, True), err
    assert settings(client, topic) == {(2, 2, 4)}


def test_a_topic_that_is_written_to_is_left_alone(fake, client, topic, grow, monkeypatch):
    with patient_producer(fake.namesrv) as producer:

        def write(seconds):
            """What happens while it watches."""
            assert seconds == 1.0
            producer.send(Message(topic, b"x", sharding_key="k"))

        clock = SimpleNamespace(sleep=write, monotonic=time.monotonic)
        monkeypatch.setattr(topic_growth, "time", clock)
        code, _, err = grow(4, "--observe", "1s", "--yes")
    assert code == 3
    assert "the topic still gets messages" in err
    assert settings(client, topic) == {(2, 2, 6)}


def test_parked_keys_are_waited_for(fake, client, topic, grow):
    """Their later messages would be handled in another queue, before what is parked."""
    fill(fake, topic, 10)
    group = f"p-{topic}"[:90]

    def handle(messages, context):
        return Park("not now") if context.key == "k3" else Ack()

    consumer = OrderlyConsumer(group, handle, client=client, config=BY_KEY)
    with consumer.subscribe(topic):
        eventually(lambda: not behind(grow), every=0.1)
        code, _, err = grow(4, *IMPATIENT)
    assert code == 3
    assert f"1 key parked: `orderly parked release {group} -t {topic} --all`" in err
    assert settings(client, topic) == {(2, 2, 6)}


def behind(grow):
    """Groups that have messages to finish; parked ones are not counted."""
    found = json.loads(grow(4, "--dry-run", "-o", "json")[1])["behind"]
    return [each for each in found if "parked" not in (each["why"] or "")] or not found


def test_state_topics_grow_first(fake, client, topic, grow):
    fill(fake, topic, 10)
    group = f"s-{topic}"[:90]
    consumer = OrderlyConsumer(group, lambda *_: Ack(), client=client, config=BY_KEY)
    with consumer.subscribe(topic):
        pass
    assert grow(3, *QUICK, "--ignore-group", group)[0] == 0
    for own in (topic_growth.state_topic(group, topic), topic_growth.park_topic(group, topic)):
        assert settings(client, own) == {(3, 3, 6)}


def test_ctrl_c_puts_everything_back(fake, client, topic, grow, monkeypatch):
    fill(fake, topic)
    begin(client, "slow", topic)
    closed = []

    def sleep(seconds):
        closed.append(settings(client, topic))
        if len(closed) == 3:
            raise KeyboardInterrupt

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr(topic_growth, "time", clock)
    code, _, err = grow(4, *QUICK)
    assert (code, "interrupted" in err) == (3, True)
    assert closed[-1] == {(2, 2, 4)}, "it was closed"
    assert settings(client, topic) == {(2, 2, 6)}


def test_without_a_terminal_nobody_can_be_asked(client, topic, grow):
    assert "give --yes" in grow(4)[2]
    assert "give --yes or --dry-run" in grow(4, "-o", "json")[2]
    assert "only adds queues" in grow(1, "--dry-run")[2]
    assert settings(client, topic) == {(2, 2, 6)}


# --- where a proxy is -----------------------------------------------------------------------------


def test_where_proxies_keep_old_routes_it_waits_longer(client, fake):
    assert topic_growth.quiet_needed(client) == topic_growth.QUIET == 35.0
    fake.create_topic(PROXY_TOPIC, queues=1)
    assert topic_growth.quiet_needed(client) == topic_growth.QUIET, "none has listed a client yet"
    with patient_producer(fake.namesrv) as producer:
        producer.send(Message(PROXY_TOPIC, b"a heartbeat"))
    # 300 s for which one keeps a route that nobody asks for, and 30 s between two of a producer.
    assert topic_growth.quiet_needed(client) == topic_growth.BEHIND_PROXIES >= 330
    fake.delete_topic(PROXY_TOPIC)


def test_who_is_behind_a_proxy_is_not_known_so_a_topic_stays(client, fake, topic, capsys):
    queue = client.routes.get(topic).read_queues()[0]
    client.brokers.pull_now(PullQuery("g", queue, 0, 1, Subscription(topic), suspend=0))
    client.brokers.update_offset("g", queue, 0)
    delete = ["topic", "delete", topic, "--yes", "--namesrv", fake.namesrv]
    fake.create_topic(PROXY_TOPIC, queues=1)
    with patient_producer(fake.namesrv) as producer:
        producer.send(Message(PROXY_TOPIC, b"a heartbeat"))
    assert run(delete) == 3
    assert "an unknown number of members of g" in capsys.readouterr().err
    fake.delete_topic(PROXY_TOPIC)
    assert run(delete) == 0, "there is none, and so nobody"


@pytest.fixture
def create(fake, topic, capsys):
    """Run `orderly topic create --for-group g`; returns (exit code, stdout, stderr)."""

    def call(*options, namesrv=fake.namesrv):
        code = run(["topic", "create", topic, *options, "--namesrv", namesrv])
        return (code, *capsys.readouterr())

    return call


def test_the_topics_of_a_group_are_shown_made_and_grown(create, client, fake, topic):
    names = [f"{kind}_topic" for kind in ("state", "park")]
    own = [getattr(topic_names, name)("g", topic) for name in names]
    wanted = ("--for-group", "g")
    code, out, _ = create(*wanted, "--dry-run")
    shown = [f"{own[0]}  state topic, 2 queues", f"{own[1]}  park topic, 2 queues"]
    assert (code, out.splitlines()) == (0, shown)
    assert not set(own).intersection(client.admin.topics())
    code, out, _ = create(*wanted)
    assert code == 0
    assert out.splitlines()[:2] == shown
    assert set(own) <= set(client.admin.topics())
    fake.create_topic(topic, queues=3)
    assert create(*wanted)[0] == 0
    for name in own:
        assert {data.read_queues for data in client.routes.refresh(name).queues} == {3}


def test_through_a_proxy_they_are_shown_and_where_to_make_them(create, fake, topic):
    code, out, err = create("--for-group", "g", namesrv=fake.proxy)
    assert code == 3
    assert out.count(" queues") == 2
    assert "where the name servers can be reached, run orderly topic create" in err
    create("--for-group", "g")
    assert create("--for-group", "g", namesrv=fake.proxy)[0] == 0, "there is nothing to make"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--for-group", "g", "--queues", "4"), "takes no --queues, --type or --cluster"),
        (("--for-group", "g", "--type", "fifo"), "takes no --queues, --type or --cluster"),
        (("--dry-run",), "--dry-run is for --for-group"),
    ],
    ids=["queues", "type", "dry-run"],
)
def test_options_that_do_not_go_together(create, options, said):
    code, _, err = create(*options)
    assert code == 3
    assert said in err
