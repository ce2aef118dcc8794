"""On servers that speak only TLS, and only to those with a certificate: name server and broker."""

import pytest

from orderly import ConsumerConfig, OrderlyConsumer
from orderly.cli.root import run
from orderly.errors import NameServerUnavailable
from orderly.testing import EmbeddedBroker
from tests.support.certificates import Authority
from tests.support.consuming import Recorder, send_numbers, submit_numbers
from tests.support.waiting import eventually, patient_client, patient_producer

pytestmark = pytest.mark.needs("openssl")

SERVERS = """
tls.test.mode.enable=false
tls.server.certPath={server[0]}
tls.server.keyPath={server[1]}
tls.server.need.client.auth=require
tls.server.authClient=true
tls.server.trustCertPath={ca}
tls.client.certPath={server[0]}
tls.client.keyPath={server[1]}
tls.client.authServer=true
tls.client.trustCertPath={ca}
"""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def settings(authority):
    mine, key = authority.issue("client")
    files = {"tls_ca_file": str(authority.ca), "tls_cert_file": mine, "tls_key_file": key}
    return {"tls": True, **files}


@pytest.fixture(scope="module")
def broker(authority, settings, tmp_path_factory):
    path = tmp_path_factory.mktemp("servers") / "tls.properties"
    path.write_text(SERVERS.format(server=authority.issue("server"), ca=authority.ca))
    options = ("tls.server.mode=enforcing", "tls.enable=true", f"tls.config.file={path}")
    java_options = [f"-D{option}" for option in options]
    with EmbeddedBroker(java_options=java_options, client_settings=settings) as broker:
        with patient_client(broker.namesrv, **settings) as client:
            client.admin.create_topic("orders", 2)
        yield broker


@pytest.fixture
def client(broker, settings):
    with patient_client(broker.namesrv, **settings) as client:
        yield client


def refusal(broker, settings):
    """What a client with these settings is told."""
    client = patient_client(broker.namesrv, **settings)
    with pytest.raises(NameServerUnavailable) as raised, client:
        client.admin.groups()
    return str(raised.value)


def test_messages_come_in_order_while_others_are_sent(client):
    """Pulls and sends share the broker's one connection."""
    seen = Recorder()
    config = ConsumerConfig(consume_from="first")
    with (
        patient_producer(client=client) as producer,
        OrderlyConsumer("shipping", seen, client=client, config=config).subscribe("orders"),
    ):
        send_numbers(producer, "orders", ["a"], 10)
        submit_numbers(producer, "orders", "b", 5000)
        eventually(lambda: seen.numbers("b") == list(range(5000)))
        assert seen.numbers("a") == list(range(10))


def test_the_command_line_speaks_tls_by_its_settings_file(
    broker, settings, tmp_path, monkeypatch, capsys
):
    path = tmp_path / "config.toml"
    lines = [f'namesrv = "{broker.namesrv}"', "tls = true"]
    path.write_text(
        "\n".join([*lines, *(f'{n} = "{f}"' for n, f in settings.items() if f is not True)])
    )
    monkeypatch.setenv("ORDERLY_CONFIG", str(path))
    assert run(["topic", "list"]) == 0
    assert "orders" in capsys.readouterr().out
    path.write_text("\n".join(lines[:1]))
    assert run(["topic", "list"]) == 3
    assert "set tls=True (ORDERLY_TLS)" in capsys.readouterr().err


def test_a_client_without_tls_is_told_to_use_it(broker):
    assert "set tls=True (ORDERLY_TLS)" in refusal(broker, {})


def test_a_client_that_does_not_know_the_authority_is_told_to_name_it(broker, settings, tmp_path):
    stranger = Authority(tmp_path, "stranger")
    assert "set tls_ca_file" in refusal(broker, settings | {"tls_ca_file": str(stranger.ca)})


@pytest.mark.parametrize("days", [None, -1], ids=["no certificate", "an expired one"])
def test_a_client_that_the_server_does_not_trust_is_told_which_settings(
    broker, settings, authority, days
):
    mine, key = ("", "") if days is None else authority.issue("old", days=days)
    said = refusal(broker, settings | {"tls_cert_file": mine, "tls_key_file": key})
    assert "set tls_cert_file and tls_key_file" in said


def test_a_server_without_tls_is_told(orderly_broker, settings):
    assert "set tls=False" in refusal(orderly_broker, settings)
