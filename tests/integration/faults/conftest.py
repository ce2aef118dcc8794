"""A broker with a short lease behind a proxy, and traffic through it."""

import pytest

from tests.support.brokers import SHORT, Proxy
from tests.support.brokers import proxied_broker as broker_behind_proxy
from tests.support.consuming import unique
from tests.support.traffic import Traffic
from tests.support.waiting import patient_client


@pytest.fixture(scope="package")
def proxied(orderly_broker):
    """(broker, proxy): clients reach the broker through the proxy only."""
    with broker_behind_proxy() as (proxy, broker):
        yield broker, proxy


@pytest.fixture
def proxied_broker(proxied):
    return proxied[0]


@pytest.fixture
def proxy(proxied):
    """The proxy before the broker; whatever a test did to it ends with the test."""
    yield proxied[1]
    proxied[1].heal()


@pytest.fixture
def name_server_proxy(proxied_broker, closing):
    """A proxy before the name server."""
    address = proxied_broker.namesrv
    return closing(Proxy(address.replace("127.0.0.1", "127.0.0.2"), address))


@pytest.fixture
def start_traffic(closing):
    """Start traffic on a fresh topic of a broker: `start_traffic(broker, namesrv=its own)`."""

    def start(broker, namesrv="", lease=SHORT, **settings):
        topic, group = unique("topic"), unique("group")
        namesrv = namesrv or broker.namesrv
        with patient_client(namesrv) as client:
            client.admin.create_topic(topic, 8)
        return closing(Traffic(broker, namesrv, lease, group, topic, **settings))

    return start


@pytest.fixture
def traffic(proxied_broker, proxy, start_traffic):
    """Traffic through the proxy, under way."""
    traffic = start_traffic(proxied_broker)
    traffic.goes_on(500)
    return traffic


@pytest.fixture
def trusting_traffic(proxied_broker, proxy, start_traffic):
    """The same; its members trust a lock longer: on a busy machine renewals are late."""
    traffic = start_traffic(proxied_broker, lock_trust=SHORT - 1)
    traffic.goes_on(500)
    return traffic


@pytest.fixture
def patient_traffic(proxied_broker, proxy, start_traffic):
    """The same; a busy machine is no reason to send, and store, a message twice."""
    traffic = start_traffic(proxied_broker, send_timeout=12.0)
    traffic.goes_on(500)
    return traffic
