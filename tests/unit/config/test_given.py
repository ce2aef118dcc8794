"""What is passed as `config` is one, whoever takes it."""

import pytest

from orderly import Ack, ConsumerConfig, OrderlyConsumer, OrderlyProducer, ProducerConfig
from orderly.client import Client
from orderly.config import ClientConfig
from orderly.errors import ConfigError
from orderly.native.library import check_driver

NAMESRV = "localhost:9876"
TAKERS = {
    ConsumerConfig: lambda config: OrderlyConsumer(
        "shop", lambda _: Ack(), namesrv=NAMESRV, config=config
    ),
    ProducerConfig: lambda config: OrderlyProducer(namesrv=NAMESRV, config=config),
    ClientConfig: Client,
}


@pytest.mark.parametrize("kind", TAKERS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("config", [{}, {"secret_key": "hush"}, NAMESRV, object(), 0])
def test_what_is_no_config_is_told_and_not_shown(kind, config):
    with pytest.raises(ConfigError) as caught:
        TAKERS[kind](config)
    name = type(config).__name__
    assert str(caught.value) == f"config must be a {kind.__name__}, not {name}"


def test_one_of_another_is_none():
    with pytest.raises(ConfigError, match="must be a ConsumerConfig, not ProducerConfig"):
        TAKERS[ConsumerConfig](ProducerConfig())


@pytest.mark.parametrize("taker", [lambda c, n: Client(c, namesrv=n).config, check_driver])
def test_a_name_server_beside_it_wins(taker):
    found = taker(ClientConfig(namesrv="elsewhere:1", namespace="a"), NAMESRV)
    assert found == ClientConfig(namesrv=NAMESRV, namespace="a")
