"""On a broker that enforces ACL 2.0: the right key does everything, any other is told why not."""

import json
import pickle
import re
import subprocess
import sys
import urllib.request
from contextlib import closing

import pytest

from orderly import ConsumerConfig, Message, OrderlyConsumer
from orderly.cli.root import run
from orderly.errors import NoPermission, SendFailed
from orderly.model import MessageQueue
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.frame import request
from orderly.testing import EmbeddedBroker
from tests.support.consuming import Recorder, send_numbers, submit_numbers
from tests.support.waiting import (
    PATIENCE,
    await_visible,
    eventually,
    patient_client,
    patient_producer,
)

# For tests: a broker that knows its users (ACL 2.0), their keys and policies.


_AUTH = "org.apache.rocketmq.auth"
_CREATE_USER, _CREATE_ACL = 3001, 3006
ADMIN = {"access_key": "admin", "secret_key": "admin-secret-1"}
PROPERTIES = {
    "authenticationEnabled": "true",
    "authenticationMetadataProvider": f"{_AUTH}.authentication.provider"
    ".LocalAuthenticationMetadataProvider",
    "authorizationEnabled": "true",
    "authorizationMetadataProvider": f"{_AUTH}.authorization.provider"
    ".LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": json.dumps(
        {"username": ADMIN["access_key"], "password": ADMIN["secret_key"]}
    ),
    # What the broker itself signs with: its requests to other brokers, and to itself.
    "innerClientAuthenticationCredentials": json.dumps(
        {"accessKey": "inner", "secretKey": "inner-secret-1"}
    ),
}


def add_user(client, address, name, allowed):
    """Create a user and return its keys.

    Args:
        client: an administrator's.
        address: of the broker.
        name: the access key.
        allowed: actions ("Pub", "Sub", "Get", …) by resource ("Topic:orders", "Group:g").
    """
    secret = f"{name}-secret-1"
    user = {"username": name, "password": secret, "userType": "Normal", "userStatus": "enable"}
    _ask(client, address, _CREATE_USER, {"username": name}, user)
    entries = [
        {"resource": resource, "actions": list(actions), "decision": "Allow"}
        for resource, actions in allowed.items()
    ]
    subject = f"User:{name}"
    policies = [{"policyType": "Custom", "entries": entries}]
    acl = {"subject": subject, "policies": policies}
    _ask(client, address, _CREATE_ACL, {"subject": subject}, acl)
    return {"access_key": name, "secret_key": secret}


def _ask(client, address, code, ext, body):
    command = request(code, ext, json.dumps(body).encode())
    reply = client.connections.get(address).call(command, PATIENCE)
    assert reply.code == 0, reply.remark


OWN = [make("shipping", "orders") for make in (state_topic, park_topic)]
# What docs/how-to/security.md says a consumer by key needs.
ALLOWED = {
    "Topic:orders": ("Pub", "Sub", "Get"),
    "Group:shipping": ("Sub", "Get"),
    **{f"Topic:{topic}": ("Pub", "Sub", "Get", "Create") for topic in OWN},
}
WRONG = {
    "no key": ({}, "set access_key and secret_key"),
    "a wrong secret": ({**ADMIN, "secret_key": "hunter2"}, "check secret_key"),
    "an unknown user": ({"access_key": "nobody", "secret_key": "hunter2"}, "check access_key"),
}

NOT_ALLOWED = r"is not allowed to do this.*mqadmin updateAcl.*no permission to access"


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker(broker_properties=PROPERTIES, client_settings=ADMIN) as broker:
        with patient_client(broker.namesrv, **ADMIN) as admin:
            for topic in ("orders", "others"):
                admin.admin.create_topic(topic, 2)
            broker.app = add_user(admin, broker.broker_address, "app", ALLOWED)
        yield broker


@pytest.fixture
def client_of(broker):
    clients = []

    def make(keys):
        clients.append(patient_client(broker.namesrv, **keys))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.mark.parametrize("order", ["queue", "key"])
def test_a_user_with_the_policies_of_the_docs_sends_and_consumes(broker, client_of, order, caplog):
    seen = Recorder()
    config = ConsumerConfig(order=order, consume_from="first")
    with (
        patient_producer(client=client_of(broker.app)) as producer,
        OrderlyConsumer("shipping", seen, client=client_of(broker.app), config=config).subscribe(
            "orders"
        ),
    ):
        send_numbers(producer, "orders", [order], 20)
        eventually(lambda: seen.numbers(order) == list(range(20)))
    admin = client_of(ADMIN)
    queues = [MessageQueue("orders", "broker-a", number) for number in (0, 1)]
    saved = sum(admin.brokers.query_offset("shipping", queue) or 0 for queue in queues)
    assert saved == sum(admin.brokers.max_offset(queue) for queue in queues)
    assert "NO_PERMISSION" not in caplog.text  # nor was anything refused that went on without


@pytest.mark.parametrize("wrong", WRONG)
def test_any_other_key_is_refused_and_the_setting_named(client_of, wrong):
    keys, said = WRONG[wrong]
    with pytest.raises(NoPermission, match=said):
        client_of(keys).admin.groups()
    with (
        pytest.raises(SendFailed, match=said),
        patient_producer(client=client_of(keys)) as producer,
    ):
        producer.send(Message("orders", b"x", sharding_key="k"))
    consumer = OrderlyConsumer("shipping", Recorder(), client=client_of(keys))
    with pytest.raises(NoPermission, match=said), consumer.subscribe("orders"):
        pass


def test_what_the_user_may_not_do_is_told(broker, client_of):
    said = NOT_ALLOWED
    with (
        pytest.raises(SendFailed, match=f"{said} Topic:others"),
        patient_producer(client=client_of(broker.app)) as producer,
    ):
        producer.send(Message("others", b"x", sharding_key="k"))
    consumer = OrderlyConsumer("shipping", Recorder(), client=client_of(broker.app))
    with pytest.raises(NoPermission, match=f"{said} Topic:others"), consumer.subscribe("others"):
        pass


def test_another_group_of_an_allowed_topic_is_refused(broker, client_of):
    consumer = OrderlyConsumer("billing", Recorder(), client=client_of(broker.app))
    refused = pytest.raises(NoPermission, match=f"{NOT_ALLOWED} Group:billing")
    with refused, consumer.subscribe("orders"):
        pass


def test_in_a_namespace_the_policies_are_of_the_brokers_names(broker, client_of):
    client_of(ADMIN).admin.create_topic("shop%orders", 2)
    allowed = {"Topic:shop%orders": ("Pub", "Sub", "Get"), "Group:shop%shipping": ("Sub", "Get")}
    keys = add_user(client_of(ADMIN), broker.broker_address, "shop", allowed)
    client, seen = client_of(keys | {"namespace": "shop"}), Recorder()
    config = ConsumerConfig(consume_from="first")
    with (
        patient_producer(client=client) as producer,
        OrderlyConsumer("shipping", seen, client=client, config=config).subscribe("orders"),
    ):
        send_numbers(producer, "orders", ["n"], 20)
        eventually(lambda: seen.numbers("n") == list(range(20)))
    outside = client_of(keys)  # the same name without the namespace is another topic
    refused = pytest.raises(SendFailed, match=f"{NOT_ALLOWED} Topic:orders")
    with refused, patient_producer(client=outside) as producer:
        producer.send(Message("orders", b"x", sharding_key="k"))


def test_sparks_reader_needs_little_and_takes_its_keys_from_a_settings_file(
    broker, client_of, tmp_path
):
    pytest.importorskip("pyarrow", reason="the extra spark is not installed")
    from orderly.spark.access import Access  # noqa: PLC0415
    from orderly.spark.discovering import pin  # noqa: PLC0415
    from orderly.spark.options import ScanOptions  # noqa: PLC0415
    from orderly.spark.reading import read_range  # noqa: PLC0415

    with patient_producer(client=client_of(broker.app)) as producer:
        submit_numbers(producer, "orders", "spark", 10)
    await_visible(client_of(ADMIN))
    allowed = {"Topic:orders": ("Sub", "Get"), "Group:orderly-spark": ("Sub",)}
    keys = add_user(client_of(ADMIN), broker.broker_address, "reader", allowed)
    path = tmp_path / "reader.toml"
    path.write_text("".join(f'{name} = "{value}"\n' for name, value in keys.items()))
    path.chmod(0o600)
    options = {"namesrv": broker.namesrv, "topic": "orders", "settingsFile": str(path)}
    access = pickle.loads(pickle.dumps(Access(broker.namesrv, str(path))))
    with closing(access.client()) as client:
        scan = ScanOptions(("sharding_key",))
        batches = [b for r in pin(options) for b in read_range(client, scan, r, [].append)]
    read = [key for batch in batches for key in batch.column(0).to_pylist()]
    assert read.count("spark") == 10


# --- the command line --------------------------------------------------------------------------


@pytest.fixture
def orderly(broker, patient_commands, tmp_path, monkeypatch, capsys):
    """Run a command with keys in a settings file: (exit code, stdout, stderr)."""

    def call(keys, *args):
        path = tmp_path / "config.toml"
        lines = [f"{name} = {json.dumps(text)}\n" for name, text in keys.items()]
        path.write_text(f'namesrv = "{broker.namesrv}"\n{"".join(lines)}')
        path.chmod(0o600)
        monkeypatch.setenv("ORDERLY_CONFIG", str(path))
        code = run(args)
        return (code, *capsys.readouterr())

    return call


def test_the_command_line_signs_by_the_settings_file(orderly, broker):
    code, out, err = orderly(broker.app, "send", "orders", "x", "--key", "k", "-o", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)["topic"] == "orders"
    code, out, err = orderly(ADMIN, "backlog", "list", "-o", "json")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    "command",
    [
        ("send", "orders", "x", "--key", "k"),
        ("topic", "create", "new"),
        ("offsets", "show", "g"),
        ("offsets", "show", "g", "-t", "orders"),
        ("backlog", "list"),
    ],
)
def test_a_wrong_key_is_exit_3_and_says_which_setting(orderly, wrong, command):
    keys, said = WRONG[wrong]
    code, out, err = orderly(keys, *command)
    assert (code, out) == (3, "")
    assert said in err
    assert "hunter2" not in err


def test_the_doctor_tells_what_a_key_may_not_do(orderly, broker, client_of):
    groups = client_of(ADMIN).admin.groups()
    told = _doctor(orderly, broker.app, "shipping", "-t", "orders", "--order", "key")
    assert "CRITICAL" not in {found["state"] for found in told}
    told = _doctor(orderly, broker.app, "billing", "-t", "others")
    advice = " ".join(found["advice"] for found in told if found["state"] == "CRITICAL")
    assert "-s User:app -r Group:billing -a Sub,Get" in advice
    assert "-s User:app -r Topic:others -a Sub,Get" in advice
    assert "billing" not in client_of(ADMIN).admin.groups()
    assert set(groups) >= set(client_of(ADMIN).admin.groups()) - {"shipping"}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_doctor_tells_which_setting_is_wrong(orderly, wrong):
    keys, said = WRONG[wrong]
    (found,) = [it for it in _doctor(orderly, keys) if it["part"] == "access key"]
    assert (found["state"], said in found["advice"]) == ("CRITICAL", True)
    assert "hunter2" not in str(found)


def _doctor(orderly, keys, *args):
    _, out, err = orderly(keys, "doctor", "-o", "json", *args)
    assert err == ""
    return json.loads(out)["findings"]


def test_secrets_are_shown_by_nothing(orderly, caplog):
    caplog.set_level("DEBUG", logger="orderly")
    keys = {"access_key": "nobody", "secret_key": "hunter2", "security_token": "token-1"}
    told = []
    for args in (("context", "show"), ("-vv", "--debug", "send", "orders", "x", "--key", "k")):
        _, out, err = orderly(keys, *args)
        told += [out, err]
    text = "".join(told) + caplog.text
    assert "User:nobody is not found" in text
    assert "hunter2" not in text
    assert "token-1" not in text


def test_the_exporter_signs_by_its_environment(broker, tmp_path, monkeypatch):
    for name, value in ADMIN.items():
        monkeypatch.setenv(f"ORDERLY_{name.upper()}", value)
    command = ["exporter", "--namesrv", broker.namesrv, "--listen", "127.0.0.1:0"]
    told = tmp_path / "told"
    with told.open("w") as errors:
        service = subprocess.Popen(
            [sys.executable, "-m", "orderly.cli", *command, "--interval", "1s"], stderr=errors
        )
    try:
        port = eventually(lambda: re.search(r":(\d+)/\n", told.read_text()))[1]
        eventually(lambda: _status(f"http://127.0.0.1:{port}/readyz") == 200, every=0.1)
    finally:
        service.kill()
        service.wait()


def _status(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return reply.status
    except OSError as error:
        return getattr(error, "code", None)
