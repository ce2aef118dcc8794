"""RocketMQContainer on a real engine; runs with `make test-container`."""

import os
import subprocess
import sys
import time

import pytest
from docker.errors import NotFound

from orderly import Client, Message, OrderlyProducer
from orderly.errors import LifecycleError
from orderly.testing import BrokerStartFailed, ContainerUnavailable, RocketMQContainer


@pytest.fixture
def broker(orderly_broker):
    return orderly_broker


def send(producer, topic, body):
    return producer.send(Message(topic, body, sharding_key="k"))


def test_clients_are_led_to_the_address_that_is_open_on_loopback_only(broker):
    with Client(namesrv=broker.namesrv) as client:
        (found,) = client.admin.cluster().brokers.values()
    assert found.master == broker.broker_address
    ports = broker._container.get_wrapped_container().attrs["NetworkSettings"]["Ports"]
    bound = [binding for bindings in ports.values() for binding in bindings or ()]
    assert {binding["HostIp"] for binding in bound} == {"127.0.0.1"}
    assert {int(binding["HostPort"]) for binding in bound} == {
        int(address.rpartition(":")[2]) for address in (broker.namesrv, broker.broker_address)
    }


def test_a_second_start_is_refused(broker):
    with pytest.raises(LifecycleError):
        broker.start()


@pytest.mark.parametrize(
    ("end", "alive"),
    [(RocketMQContainer.kill_broker, False), (RocketMQContainer.pause_broker, True)],
    ids=["killed", "paused"],
)
def test_a_broker_that_was_killed_or_paused_starts_again_with_its_data(broker, topic, end, alive):
    with OrderlyProducer(namesrv=broker.namesrv) as producer:
        first = send(producer, topic, b"1")
        end(broker)
        assert broker._signal("0") is alive
        broker.restart_broker()
        assert send(producer, topic, b"2").queue_offset == first.queue_offset + 1


def test_a_paused_broker_answers_when_it_is_resumed(broker, topic):
    with OrderlyProducer(namesrv=broker.namesrv) as producer:
        send(producer, topic, b"1")
        broker.pause_broker()
        try:
            future = producer.submit(Message(topic, b"2", sharding_key="k"))
            with pytest.raises(TimeoutError):
                future.result(1.0)
        finally:
            broker.resume_broker()
        assert future.result(30).queue_offset >= 1


def test_a_broker_that_does_not_come_up_is_told_with_its_log_and_removed(broker):
    bad = RocketMQContainer(broker_properties={"brokerRole": "SLAVE"})
    started = time.monotonic()
    with pytest.raises(BrokerStartFailed, match=r"(?s)container ended.*brokerId"):
        bad.start()
    assert time.monotonic() - started < 60, "it waited although the broker had ended"
    assert bad._container is None


def test_stop_removes_the_container(broker):
    containers = broker._container.get_docker_client().client.containers
    with RocketMQContainer() as other:
        name = other._container.get_wrapped_container().name
        assert containers.get(name).status == "running"
        assert other.namesrv != broker.namesrv
    with pytest.raises(NotFound):
        containers.get(name)


def test_an_image_that_cannot_be_had_is_named(broker):
    nowhere = "127.0.0.1:1/nowhere:0"
    told = []
    with pytest.raises(ContainerUnavailable, match=f"{nowhere}.*ORDERLY_ROCKETMQ_IMAGE"):
        RocketMQContainer(nowhere, progress=told.append).start()
    assert told
    assert nowhere in told[0]


ELSEWHERE = """
from orderly import Client
from orderly.testing import RocketMQContainer

wanted = {"autoCreateTopicEnable": "true", "brokerIP2": "192.0.2.1"}
container = RocketMQContainer(broker_name="b", broker_properties=wanted)
with container as broker, Client(namesrv=broker.namesrv) as client:
    found = client.admin.cluster().brokers["b"]
    settings = client.admin.broker_settings(found)
    print(broker.namesrv, broker.broker_address, found.master, *map(settings.get, wanted))
"""


def test_an_engine_elsewhere_is_reached_by_its_name_and_settings_of_the_caller_win():
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        env={**os.environ, "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.2"},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    namesrv, address, master, *settings = done.stdout.split()
    assert namesrv.startswith("127.0.0.2:")
    assert address == master
    assert master.startswith("127.0.0.2:")
    assert settings == ["true", "192.0.2.1"]
