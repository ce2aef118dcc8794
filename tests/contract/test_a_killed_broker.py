"""What a broker has when it is back after kill -9, or after an orderly end: fake and real alike."""

import contextlib
import re

import pytest

from orderly import Client, Message
from orderly.errors import OrderlyError
from orderly.model import MessageQueue
from orderly.testing import EmbeddedBroker, FakeBroker
from orderly.testing.fake.state import FIRST_FLUSH
from tests.support.waiting import eventually, patient_producer

GROUP, QUEUE = "g", MessageQueue("orders", "broker-a", 0)


class Fake:
    """The fake one, whose clock does not wait."""

    def __init__(self):
        self.broker = FakeBroker()

    def wait_flushed(self, offset):
        """Wait until the group's offset is on disk."""
        self.broker.jump_clock(FIRST_FLUSH)

    def on_disk(self, offset):
        """What it comes back with: this offset, for nothing was flushed since."""
        return offset


class Real:
    """A real one of its own, for it is killed."""

    def __init__(self):
        self.broker = EmbeddedBroker()

    @property
    def _file(self):
        return self.broker.directory / "store" / "config" / "consumerOffset.json"

    def wait_flushed(self, offset):
        """Wait until the group's offset is on disk."""

        def there():
            with contextlib.suppress(FileNotFoundError):  # while it is replaced
                return f"0:{offset}\n" in self._file.read_text()

        eventually(there)

    def on_disk(self, offset):
        """What it comes back with: this offset, unless a slow machine gave it time to flush."""
        found = None
        with contextlib.suppress(FileNotFoundError):
            found = re.search(r"\b0:(\d+)\n", self._file.read_text())
        return int(found[1]) if found else None


# What is expected is written here: only the fake one can change with this repository.
@pytest.fixture(params=[Fake, pytest.param(Real, marks=[pytest.mark.slow, pytest.mark.nightly])])
def kind(request, pytestconfig):
    if request.param is Real and pytestconfig.getoption("--orderly-broker") != "embedded":
        pytest.skip("kills an embedded broker")
    kind = request.param()
    with kind.broker:
        yield kind


@pytest.fixture
def ask(kind):
    """Ask the broker, also one that has just come back: `ask(lambda brokers: ...)`."""
    with Client(namesrv=kind.broker.namesrv) as client:

        def ask(question):
            def answered():
                with contextlib.suppress(OrderlyError):
                    return [question(client)]

            return eventually(answered)[0]

        yield ask


@pytest.fixture
def committed(ask):
    return lambda: ask(lambda client: client.brokers.query_offset(GROUP, QUEUE))


@pytest.fixture
def commit(ask):
    return lambda offset: ask(lambda client: client.brokers.update_offset(GROUP, QUEUE, offset))


def test_offsets_are_as_old_as_the_last_flush(kind, ask, commit, committed):
    broker = kind.broker
    ask(lambda client: client.admin.create_topic(QUEUE.topic, 1))
    ask(lambda client: client.groups.group_config(GROUP, "broker-a"))
    commit(3)
    broker.kill_broker()
    flushed = kind.on_disk(None)  # the first flush is 10 s after the start
    broker.restart_broker()
    assert committed() == flushed
    commit(4)
    kind.wait_flushed(4)
    commit(5)
    ask(lambda client: client.admin.create_topic("later", 1))
    with patient_producer(broker.namesrv) as producer:
        producer.send(Message(QUEUE.topic, b"1", sharding_key="k"))
    broker.kill_broker()
    flushed = kind.on_disk(4)
    broker.restart_broker()
    assert committed() == flushed
    assert ask(lambda client: client.brokers.max_offset(QUEUE)) == 1
    assert ask(lambda client: client.name_servers.route("later")).write_queues()


def test_an_orderly_end_keeps_offsets_but_no_mark_of_a_reset(kind, ask, commit, committed):
    ask(lambda client: client.admin.create_topic(QUEUE.topic, 1))
    ask(lambda client: client.groups.group_config(GROUP, "broker-a"))
    with patient_producer(kind.broker.namesrv) as producer:
        for _ in range(3):
            producer.send(Message(QUEUE.topic, b"1", sharding_key="k"))
    commit(3)
    ask(lambda client: client.groups.reset_queues(GROUP, {QUEUE: 1}))
    commit(2)
    assert committed() == 1
    kind.broker.restart_broker()
    assert committed() == 1
    commit(2)
    assert committed() == 2


def test_the_offsets_of_a_deleted_topic_come_back_with_a_kill(kind, ask, commit, committed):
    ask(lambda client: client.admin.create_topic(QUEUE.topic, 1))
    ask(lambda client: client.groups.group_config(GROUP, "broker-a"))
    commit(4)
    kind.wait_flushed(4)
    ask(lambda client: client.housekeeping.delete_topic(QUEUE.topic))
    ask(lambda client: client.admin.create_topic(QUEUE.topic, 1))
    assert committed() is None
    kind.broker.kill_broker()
    flushed = kind.on_disk(4)
    kind.broker.restart_broker()
    assert committed() == flushed
