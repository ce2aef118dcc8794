"""`orderly locks` on a fake broker with members of ours: who holds what, and the exit codes."""

import csv
import io
import json
import threading

import pytest
import yaml

from orderly import ConsumerConfig, ConsumeResult, Message, OrderlyConsumer
from orderly.cli.root import run
from orderly.protocol.codes import RequestCode as Code
from orderly.testing.fake.faults import DropResponse, Fault
from tests.support.waiting import eventually, patient_client, patient_producer

SOON = 60


@pytest.fixture
def locks(orderly_fake, capsys):
    def call(*args, group="shipping"):
        code = run(["locks", group, "--namesrv", orderly_fake.namesrv, *args])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture
def start(orderly_fake, closing):
    """Start members of `shipping`, which consumes `orders` of two queues; closed at the end."""
    orderly_fake.create_topic("orders", queues=2)
    members = []

    def start(number=1):
        for _ in range(number):
            config = ConsumerConfig(consume_from="first", close_timeout=1.0)
            own = closing(patient_client(orderly_fake.namesrv))
            member = OrderlyConsumer(
                "shipping", lambda *_: ConsumeResult.SUCCESS, client=own, config=config
            )
            members.append(closing(member.subscribe("orders")))
        return members

    return start


def settled(locks, condition):
    """The first document that meets the condition."""

    def met():
        code, out, _ = locks("-o", "json")
        return (code, json.loads(out)) if out and condition(json.loads(out)) else None

    return eventually(met, 60)


def test_all_locked_by_a_member_each_and_one_has_nothing(locks, start):
    in_the_end = sorted(member.client_id for member in start(3))[2:]  # until then any other one
    code, found = settled(
        locks, lambda doc: doc["verdict"] == "OK" and doc["idle_members"] == in_the_end
    )
    assert (code, found["schema"], found["group"]) == (0, "orderly.locks/v1", "shipping")
    assert found["takes_locks"] is True
    orders = [queue for queue in found["queues"] if queue["topic"] == "orders"]
    assert [(queue["locked"], len(queue["claimants"]), queue["why"]) for queue in orders] == [
        (True, 1, None),
        (True, 1, None),
    ]
    assert {queue["owner"] for queue in orders} | set(found["idle_members"]) == set(
        found["members"]
    )
    code, out, err = locks()
    assert (code, err) == (0, "")
    heading, *lines = out.splitlines()
    assert heading.split()[:5] == ["TOPIC", "BROKER", "QUEUE", "OWNER", "LOCKED"]
    assert "members: 3 online" in lines
    assert f"without a queue: {found['idle_members'][0]}" in lines


def test_formats_for_programs_are_nothing_but_data(locks, start):
    start()
    settled(locks, lambda doc: doc["verdict"] == "OK")
    code, out, _ = locks("-o", "csv")
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert {row["verdict"] for row in rows} == {"OK"}
    assert yaml.safe_load(locks("-o", "yaml")[1])["verdict"] == "OK"


def test_nobody_holds_the_queues_of_a_group_that_left(locks, start):
    (member,) = start()
    settled(locks, lambda doc: doc["verdict"] == "OK")
    member.close()
    code, found = settled(locks, lambda doc: doc["members"] == [])
    assert (code, found["verdict"]) == (0, "OK")
    assert {(queue["verdict"], queue["why"]) for queue in found["queues"]} == {("OK", None)}
    code, out, _ = locks()
    assert (code, out.count("nobody is online; a member that left or died")) == (0, 1), out
    assert {queue["free_within_seconds"] for queue in found["queues"]} == {60.0}


def test_why_the_queue_of_a_closed_member_waits_whose_handler_runs(locks, orderly_fake, start):
    """Nobody can ask that member any more; the one that is to have the queue does not get it."""
    go, begun = threading.Event(), threading.Event()

    def hangs(*_):
        begun.set()
        go.wait(SOON)
        return ConsumeResult.SUCCESS

    orderly_fake.create_topic("orders", queues=2)
    config = ConsumerConfig(consume_from="first", close_timeout=0)
    namesrv = orderly_fake.namesrv
    closed = OrderlyConsumer("shipping", hangs, namesrv=namesrv, config=config)
    with closed.subscribe("orders"):
        with patient_producer(namesrv) as producer:
            queue = producer.send(Message("orders", b"x", sharding_key="k")).queue
        assert begun.wait(SOON)
    start()
    _, found = settled(locks, lambda doc: sum(q["locked"] is True for q in doc["queues"]) > 1)
    (waiting,) = [q for q in found["queues"] if not q["locked"]]
    assert (waiting["queue"], waiting["owner"]) == (queue.queue_id, None)
    assert waiting["free_within_seconds"] == 60.0
    assert "a member that left or died can still hold its lock: free within 60 s" in waiting["why"]
    assert waiting["why"].endswith("or when its running handler ends")
    go.set()
    settled(locks, lambda doc: doc["verdict"] == "OK")


def test_what_a_member_that_does_not_answer_has_is_not_known(locks, start, orderly_fake):
    start()
    settled(locks, lambda doc: doc["verdict"] == "OK")
    orderly_fake.script(Fault(Code.GET_CONSUMER_RUNNING_INFO, DropResponse(), times=None))
    code, out, _ = locks("--timeout", "3s")
    assert code == 3
    assert "UNKNOWN, did not answer: " in out
    assert "a member that can have it did not answer" in out


def test_it_never_asks_for_a_lock_and_pulls_nothing(locks, orderly_fake, start):
    (member,) = start()
    settled(locks, lambda doc: doc["verdict"] == "OK")
    member.close()
    asked = set()

    def note(command):
        asked.add(Code(command.code))
        return False

    orderly_fake.script(*(Fault(code, DropResponse(), times=None, when=note) for code in Code))
    locks()
    assert Code.GET_CONSUMER_CONNECTION_LIST in asked
    assert not asked & {
        Code.LOCK_BATCH_MQ,
        Code.UNLOCK_BATCH_MQ,
        Code.PULL_MESSAGE,
        Code.HEART_BEAT,
    }


def test_an_unknown_group_is_one_line(locks):
    code, out, err = locks(group="nobody")
    assert (code, out) == (3, "")
    assert err.startswith("error: there is no group nobody")
    assert err.count("\n") == 1


def test_nothing_is_said_of_commits_that_could_not_be_read(locks, start, orderly_fake):
    (member,) = start()
    settled(locks, lambda doc: doc["verdict"] == "OK")
    member.close()  # it could not, later: nobody would answer
    known = (Code.GET_BROKER_CLUSTER_INFO, Code.GET_ROUTEINFO_BY_TOPIC)  # the name server's
    silent = [code for code in Code if code not in known]
    orderly_fake.script(*(Fault(code, DropResponse(), times=None) for code in silent))
    code, out, err = locks("--timeout", "3s")
    assert code == 3
    assert "broker broker-a could not be read" in err
    assert "never committed" not in out
