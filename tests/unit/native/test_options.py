"""What the driver takes of a client's settings, and what it refuses."""

import pytest

from orderly.config import ClientConfig
from orderly.errors import ConfigError, UnsupportedByDriver
from orderly.native.library import check_driver, connect, instance_name


class Told(list):
    """A library that takes everything, and keeps it."""

    def do(self, name, *arguments):
        self.append((name, *arguments))


def test_the_name_server_given_wins():
    config = ClientConfig(namesrv="one:1", namespace="shop")
    assert check_driver(config, "two:2") == ClientConfig(namesrv="two:2", namespace="shop")
    assert check_driver(config, "") is config


def test_without_a_name_server_there_is_no_driver(monkeypatch):
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    with pytest.raises(ConfigError, match="name server"):
        check_driver(None, "")


@pytest.mark.parametrize(
    "settings",
    [
        {"tls": True},
        {"access_key": "a", "secret_key": "b", "security_token": "c"},
        {"broker_hosts": "10.0.0.0/8"},
    ],
)
def test_what_would_weaken_security_is_refused(settings):
    with pytest.raises(UnsupportedByDriver, match="OrderlyProducer and OrderlyConsumer"):
        check_driver(ClientConfig(namesrv="one:1", **settings), "")


def test_each_member_has_a_name_of_its_own():
    assert len({instance_name() for _ in range(100)}) == 100


def test_keys_are_told_only_where_there_are_any():
    told, config = Told(), ClientConfig(namesrv="one:1;two:2", access_key="me", secret_key="s")
    connect(told, "Producer", 7, config, b"me")
    assert told == [
        ("SetProducerNameServerAddress", 7, b"one:1;two:2"),
        ("SetProducerInstanceName", 7, b"me"),
        ("SetProducerSessionCredentials", 7, b"me", b"s", b"ALIYUN"),
    ]
    told.clear()
    connect(told, "PushConsumer", 7, ClientConfig(namesrv="one:1"), b"me")
    assert [name for name, *_ in told] == [
        "SetPushConsumerNameServerAddress",
        "SetPushConsumerInstanceName",
    ]
