"""Examples run as their users run them: as programs, on a broker; some are killed."""

import pytest

from tests.support.brokers import SHORT, leasing_broker
from tests.support.consuming import unique
from tests.support.programs import Program
from tests.support.waiting import PATIENCE, patient_client


@pytest.fixture
def start(tmp_path, closing, monkeypatch):
    """Start a program; whatever still runs at the end is killed.

    On a busy machine it waits for its name server, or it would not even start.
    """
    monkeypatch.setenv("ORDERLY_REQUEST_TIMEOUT", str(PATIENCE))

    def start_one(*arguments, **settings):
        program = Program(arguments, tmp_path, **settings)
        closing(program)
        return program

    return start_one


@pytest.fixture(scope="package")
def leased():
    """A broker that frees the queues of a killed member after 12 s, not 60: its name server."""
    with leasing_broker(SHORT) as broker:
        yield broker.namesrv


@pytest.fixture
def settings(leased):
    """The environment of a program that consumes there.

    Their listeners' retries go on for 20 s, and a lock must be trusted for as long: longer than
    that broker's lease. So a stale owner may go on a while, which is what these examples stand: the
    fence of `once`, the numbers of changes.
    """
    return {
        "ORDERLY_NAMESRV": leased,
        "ORDERLY_LOCK_INTERVAL": "1",  # often enough for that broker
        "ORDERLY_REBALANCE_INTERVAL": "5",
        "ORDERLY_PULL_RETRY": "0.5",
    }


@pytest.fixture
def new_topic(leased):
    """Make a topic there; returns its name."""
    with patient_client(leased) as client:

        def make(prefix):
            name = unique(prefix).replace("-", "_")
            client.admin.create_topic(name, 4)
            return name

        yield make
