"""One cluster for all tests here: two masters, a slave of the first, and a proxy before each."""

import contextlib

import pytest

from orderly import Client
from tests.support.brokers import SHORT, client_config, proxied_cluster
from tests.support.consuming import unique
from tests.support.waiting import patient_client


@pytest.fixture(scope="package")
def _whole_cluster(orderly_broker):  # there are Java and jars, and processes may be started
    with proxied_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(_whole_cluster):
    """Whatever a test did to it ends with the test."""
    yield _whole_cluster
    _whole_cluster.mend()


@pytest.fixture
def closing(cluster):
    """Closed before the cluster is mended."""
    with contextlib.ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def connect(cluster, closing):
    """Make a member's client: `connect()`, closed at the end."""
    return lambda: closing(Client(client_config(SHORT, cluster.namesrv)))


@pytest.fixture
def client(cluster, closing):
    """An operator's: it waits for every answer."""
    return closing(patient_client(cluster.namesrv))


@pytest.fixture
def topic(client):
    """A topic with four queues on each master."""
    name = unique("topic")
    client.admin.create_topic(name, 4)
    return name


@pytest.fixture
def group():
    return unique("group")
