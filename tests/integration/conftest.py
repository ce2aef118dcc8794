"""Fixtures of the integration tests: clients of the session's broker, closed at the end."""

from functools import partial

import pytest

from orderly.cli.root import run
from orderly.client.pipeline import RequestLimits
from orderly.monitoring.collecting import scan
from orderly.monitoring.collecting.scan import ScanSettings
from tests.support.consuming import unique
from tests.support.java import compile_member
from tests.support.waiting import PATIENCE, patient_client, patient_producer


@pytest.fixture
def patient_commands(monkeypatch):
    """Commands run here wait for every answer, within their --timeout: a broker is only slow."""
    for name in ("CONNECT", "REQUEST"):
        monkeypatch.setenv(f"ORDERLY_{name}_TIMEOUT", str(PATIENCE))
    limits = RequestLimits(patience=PATIENCE)
    monkeypatch.setattr(scan, "ScanSettings", partial(ScanSettings, limits=limits))


@pytest.fixture
def orderly(orderly_namesrv, patient_commands, capsys):
    """Run one command line; returns (exit code, stdout, stderr)."""

    def call(*args):
        code = run([*args, "--namesrv", orderly_namesrv])
        return (code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def java_command(tmp_path_factory):
    return compile_member(tmp_path_factory.mktemp("java-member"))


@pytest.fixture
def client(orderly_namesrv):
    with patient_client(orderly_namesrv) as client:
        yield client


@pytest.fixture
def producer(orderly_namesrv):
    with patient_producer(orderly_namesrv) as producer:
        yield producer


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def group():
    return unique("group")
