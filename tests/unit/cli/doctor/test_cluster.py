"""`orderly doctor` on a cluster: name servers, brokers, clocks, the key; on the fake one."""

import pytest

from orderly.cli.doctor.cluster import Replica, look_at_brokers, release_finding
from orderly.cli.root import run
from orderly.model import BrokerData
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.statistics import OWN_RESETS
from orderly.testing import FakeBroker
from orderly.testing.fake import administration
from orderly.testing.fake.faults import Fail, Fault
from tests.support.waiting import patient_client

NOBODY = "127.0.0.1:1"
BEFORE_5_0 = [
    "a sign that a group has committed no offset in a queue",
    "removal of offsets with a deleted topic",
    "settings of one topic or group",
    "types of topics",
]
ALL_LACKS = ("access control 2.0", *BEFORE_5_0)


@pytest.fixture
def fake(monkeypatch):
    with FakeBroker(brokers=("broker-a", "broker-b")) as broker:
        broker.create_topic("orders", 4)
        monkeypatch.setenv("ORDERLY_NAMESRV", broker.namesrv)
        yield broker


def test_all_is_well(doctor, fake):
    found = doctor()
    assert (found.code, found.verdict) == (0, "OK")
    assert found.of(fake.namesrv) == [("OK", "5.5.0, knows broker-a, broker-b", "")]
    assert found.of("broker-a") == [("OK", f"5.5.0 at {fake.broker_address}", "")]
    assert found.of("broker-b settings") == [
        ("OK", "ASYNC_MASTER, keeps messages for 3d, creates groups: yes", "")
    ]
    ((state, text, _),) = found.of("broker-b clock")
    assert state == "OK"
    assert text.startswith("the same, within 0.")
    assert found.of("access key")[0][0] == "OK"


def test_it_says_where_the_name_server_comes_from(doctor, fake):
    assert doctor().of("name servers") == [("OK", f"{fake.namesrv} (environment)", "")]
    assert doctor("--namesrv", fake.namesrv).of("name servers")[0][1].endswith("(option)")


def test_a_name_server_that_is_away_is_a_warning_if_another_answers(doctor, fake):
    found = doctor("--namesrv", f"{fake.namesrv};{NOBODY}")
    assert found.code == 1
    ((state, text, advice),) = found.of(NOBODY)
    assert state == "WARNING"
    assert "nothing listens" in text
    assert "leave it out" in advice
    assert found.of("broker-a")[0][0] == "OK"


def test_no_name_server_at_all_is_exit_3(doctor):
    found = doctor("--namesrv", NOBODY)
    assert (found.code, found.of(NOBODY)[0][0]) == (3, "UNKNOWN")


def test_a_broker_is_no_name_server(doctor, fake):
    found = doctor("--namesrv", fake.broker_address)
    assert found.code == 2
    assert (
        found.of(fake.broker_address)[0][2]
        == "give the address of a name server or a proxy, not of a broker"
    )


def test_a_proxy_is_known_as_one_and_members_may_use_it(doctor, fake):
    found = doctor("--namesrv", fake.proxy)
    assert found.code == 0
    ((state, text, advice),) = found.of(fake.proxy)
    assert (state, text) == ("OK", "a proxy, 5.5.0, in place of a name server")
    assert "name the name servers for this command" in advice
    both = doctor("--namesrv", f"{fake.namesrv};{fake.proxy}")
    assert both.of("broker-a")[0][0] == both.of(fake.proxy)[0][0] == "OK"


def test_a_start_through_a_proxy_is_gone_through_as_far_as_it_shows_anything(doctor, fake, capsys):
    wanted = ("g", "--topic", "orders", "--order", "key")
    found = doctor("--namesrv", fake.proxy, *wanted)
    assert found.code == 2, "by key it would be refused"
    states = [found.of(f"{kind} topic of orders")[0] for kind in ("state", "park")]
    assert [state for state, *_ in states] == ["CRITICAL"] * 2
    assert "orderly topic create orders --for-group g" in states[0][2]
    assert [state for state, *_ in found.of("group g")] == ["OK", "ABSENT"]
    assert "no gRPC client joins" in found.of("group g")[1][2]
    assert found.of("orders on broker-b") == [("OK", "group g may consume it", "")]
    run(["topic", "create", "orders", "--for-group", "g", "--namesrv", fake.namesrv])
    capsys.readouterr()
    assert doctor("--namesrv", fake.proxy, *wanted).code == 0


def test_name_servers_that_know_different_brokers(doctor, fake):
    with FakeBroker(brokers=("broker-c",)) as other:
        found = doctor("--namesrv", f"{fake.namesrv};{other.namesrv}")
    assert found.code == 1
    state, text, advice = found.of(other.namesrv)[0]
    assert (state, text) == ("WARNING", "5.5.0, does not know all of broker-a, broker-b")
    assert "namesrvAddr" in advice
    assert found.of("broker-c")[0][0] == "OK"


def test_a_broker_that_is_registered_and_silent_is_critical(doctor, fake):
    fake.pause_broker("broker-b")
    found = doctor("--timeout", "5s")
    assert found.code == 2
    assert found.of("broker-b")[0][0] == "CRITICAL"
    assert found.of("broker-a")[0][0] == "OK"


def test_a_cluster_without_brokers_is_critical(doctor, fake):
    for name in fake.brokers:
        fake.kill_broker(name)
    assert doctor().of("brokers")[0][:2] == ("CRITICAL", "none is registered")


def test_a_broker_without_a_master_is_critical_and_a_silent_slave_a_warning():
    brokers = {"broker-a": BrokerData("broker-a", "cluster", {1: NOBODY})}
    with patient_client(NOBODY) as client:
        found, _ = look_at_brokers(client, brokers)
    assert [(it.part, it.state.value) for it in found] == [
        ("broker-a", "CRITICAL"),
        ("broker-a slave 1", "WARNING"),
    ]
    assert "neither locked nor written" in found[0].advice


@pytest.mark.parametrize(
    ("number", "signed", "state", "lacks"),
    [
        (493, True, "OK", []),  # 5.4.0
        (473, True, "OK", []),  # 5.3.0
        (441, False, "OK", []),  # 5.1.4
        (441, True, "OK", ["access control 2.0"]),
        (407, False, "OK", BEFORE_5_0),  # 4.9.7
        (405, False, "WARNING", BEFORE_5_0),
    ],
)
def test_what_a_broker_lacks_is_said_with_its_release(number, signed, state, lacks):
    found = release_finding(Replica("broker-a", 0, NOBODY), number, signed=signed)
    assert found.state.value == state
    assert [what for what in ALL_LACKS if what in found.found] == lacks
    assert bool(found.advice) == bool(lacks)
    assert ("plain_acl.yml" in found.advice) == ("access control 2.0" in lacks)


def test_a_broker_whose_members_learn_of_no_reset_says_what_to_do(doctor, fake, monkeypatch):
    monkeypatch.setitem(administration._FIXED, OWN_RESETS, "false")
    found = doctor()
    (_, reset) = found.of("broker-a settings")
    assert (found.code, reset[:2]) == (
        0,
        ("OK", "running members learn of no `orderly offsets reset`"),
    )
    assert f"{OWN_RESETS}=true" in reset[2]


def test_a_clock_that_is_off_is_a_warning(doctor, fake):
    fake.jump_clock(3600)
    found = doctor()
    assert found.code == 1
    state, text, advice = found.of("broker-a clock")[0]
    assert (state, text[:10]) == ("WARNING", "1h ahead, ")
    assert "NTP" in advice


@pytest.fixture
def answers(fake):
    """Let brokers answer a request of theirs with a code and a remark."""

    def script(code, response, remark):
        fake.script(Fault(code, Fail(response, remark), times=None))

    return script


NOT_GRANTED = "User:app has no permission to access Cluster:DefaultCluster"


def test_a_key_that_is_no_administrators_is_no_fault(doctor, answers):
    for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_BROKER_CONFIG):
        answers(code, ResponseCode.NO_PERMISSION, NOT_GRANTED)
    found = doctor()
    assert (found.code, found.of("access key")[0][0]) == (0, "ABSENT")
    assert "administrator" in found.of("access key")[0][2]
    for part in ("broker-a settings", "broker-a clock"):
        assert found.of(part)[0][:2] == ("ABSENT", "not shown to this key")


def test_a_key_that_is_refused_is_critical_and_names_the_setting(doctor, answers):
    refused = "check signature failed"
    for code in (RequestCode.GET_BROKER_RUNTIME_INFO, RequestCode.GET_BROKER_CONFIG):
        answers(code, ResponseCode.NO_PERMISSION, refused)
    found = doctor()
    state, text, advice = found.of("access key")[0]
    assert (found.code, state) == (2, "CRITICAL")
    assert text == "no key is set, and broker broker-a refuses it"
    assert "check secret_key" in advice


def test_a_right_that_a_consumer_needs_is_critical(doctor, answers):
    answers(
        RequestCode.UNLOCK_BATCH_MQ,
        ResponseCode.NO_PERMISSION,
        "User:app has no permission to access Group:shipping",
    )
    found = doctor("shipping", "-t", "orders")
    assert found.code == 2
    state, text, advice = found.of("orders on broker-a")[0]
    assert (state, "Group:shipping" in text) == ("CRITICAL", True)
    assert "mqadmin updateAcl -s User:app -r Group:shipping -a Sub,Get" in advice


def test_a_broker_that_tells_nonsense_of_itself_is_unknown(doctor, answers):
    answers(RequestCode.GET_BROKER_RUNTIME_INFO, ResponseCode.SYSTEM_ERROR, "\x1b[31mno")
    found = doctor()
    assert (found.code, found.of("broker-a clock")[0][0]) == (3, "UNKNOWN")


@pytest.mark.usefixtures("fake")
def test_nothing_is_joined_and_nothing_made(doctor, client_of_fake):
    admin = client_of_fake.admin
    before = admin.topics(), admin.groups()
    doctor("shipping", "-t", "orders", "--order", "key")
    assert (admin.topics(), admin.groups()) == before
    assert admin.consumer_connections("shipping") is None


@pytest.fixture
def client_of_fake(fake):
    with patient_client(fake.namesrv) as client:
        yield client


@pytest.mark.parametrize("output", ["table", "csv", "json", "yaml"])
def test_every_format(fake, capsys, output):
    assert run(["doctor", "-o", output, "-t", "orders"]) == 0
    out = capsys.readouterr().out
    assert fake.broker_address in out
    assert "4 queues" in out
