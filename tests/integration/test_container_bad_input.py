"""What goes wrong around a container: one clear error each, and nothing is left behind.

Runs with --orderly-broker=container (`make test-container`).
"""

import contextlib
import io
import os
import socket
import subprocess
import sys
import threading

import pytest
from docker.client import from_env
from docker.errors import NotFound
from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

from orderly import Client
from orderly.errors import EmbeddedBrokerError
from orderly.testing import BrokerStartFailed, ContainerUnavailable, RocketMQContainer
from orderly.testing import container as module
from orderly.testing.ports import free_port
from tests.support.consuming import unique

# A way to the container engine that a test can shut: for clients the engine stopped then.
#
# The engine itself goes on, so other tests are not disturbed, and what was left can be removed.


SOCKET = "/var/run/docker.sock"


class EngineDoor:
    """Passes connections on to the engine until it is shut. Thread-safe.

    Attributes:
        address: for DOCKER_HOST.
    """

    def __init__(self):
        self._engine = os.environ.get("DOCKER_HOST", "") or f"unix://{SOCKET}"
        self._open = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, name="engine-door", daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shut()

    def shut(self):
        """Refuse new connections and end the open ones."""
        for sock in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # shut
            while True:
                client, _ = self._listener.accept()
                engine = self._connect()
                self._open += [client, engine]
                for ends in ((client, engine), (engine, client)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()

    def _connect(self):
        scheme, _, where = self._engine.partition("://")
        if scheme == "unix":
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(where)
            return engine
        host, _, port = where.partition(":")
        return socket.create_connection((host, int(port)))


def _pass_on(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def engine():
    client = from_env()
    yield client
    client.close()


@pytest.fixture(autouse=True)
def nothing_left(engine):
    """No container of this process more than before, after each test."""
    before = ours(engine)
    yield
    assert ours(engine) == before


def ours(engine):
    """Names of the containers of this process."""
    mark = {"label": f"{LABEL_SESSION_ID}={SESSION_ID}"}
    return {container.name for container in engine.containers.list(all=True, filters=mark)}


@pytest.fixture
def image(engine):
    """Build an image on the one under test; removed at the end."""
    name = f"{unique('orderly-test')}:1"

    def build(*lines):
        text = "\n".join(lines).format(base=RocketMQContainer().image)
        engine.images.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True, forcerm=True)
        return name

    yield build
    engine.images.remove(name)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (
            ("FROM {base}", "USER root", 'RUN rm -f $(command -v java) "$JAVA_HOME/bin/java"'),
            "the container ended .*this image has no Java: choose another",
        ),
        (
            ("FROM {base}", "ENV ROCKETMQ_HOME=/nowhere"),
            "the container ended .*this image has no RocketMQ in .ROCKETMQ_HOME: choose another",
        ),
        (("FROM scratch", "ENV NOTHING=1"), "the image has no shell: choose another"),
    ],
    ids=["no-java", "no-rocketmq", "no-shell"],
)
def test_an_image_that_lacks_something_is_told_what(image, lines, told):
    name = image(*lines)
    with pytest.raises(BrokerStartFailed, match=f"(?s){name}.*{told}"):
        RocketMQContainer(name).start()


@pytest.fixture
def taken_port():
    """A port that a program of this machine listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_ports_that_were_taken_meanwhile_are_replaced(orderly_broker, taken_port, monkeypatch):
    of_a_container = int(orderly_broker.broker_address.rpartition(":")[2])
    ports = [taken_port, free_port(), free_port(), of_a_container]  # name server, broker; again
    monkeypatch.setattr(module, "free_port", lambda: ports.pop(0) if ports else free_port())
    with RocketMQContainer() as broker, Client(namesrv=broker.namesrv) as client:
        assert not ports
        assert client.admin.cluster().brokers["broker-a"].master == broker.broker_address


def test_no_free_port_is_told(taken_port, monkeypatch):
    monkeypatch.setattr(module, "free_port", lambda: taken_port)
    with pytest.raises(BrokerStartFailed, match=f"{taken_port}.*already"):
        RocketMQContainer().start()


def test_a_container_that_dies_says_why_and_is_removed(engine):
    before = ours(engine)
    broker = RocketMQContainer().start()
    assert broker.ended() == ""
    (name,) = ours(engine) - before
    engine.containers.get(name).kill()
    with pytest.raises(EmbeddedBrokerError, match=r"(?s)exit code 137.*boot success"):
        broker.restart_broker()
    engine.containers.get(name).remove()
    with pytest.raises(EmbeddedBrokerError, match="removed by somebody else"):
        broker.pause_broker()
    broker.stop()
    broker.stop()


def test_an_engine_that_stops_is_told_with_what_it_may_keep(engine, monkeypatch):
    before = ours(engine)
    with EngineDoor() as door:
        monkeypatch.setenv("DOCKER_HOST", door.address)
        broker = RocketMQContainer().start()
    (name,) = ours(engine) - before
    for call in (broker.kill_broker, broker.pause_broker, broker.ended):
        with pytest.raises(ContainerUnavailable, match="engine no longer answers"):
            call()
    with pytest.raises(ContainerUnavailable, match=f"docker rm --force --volumes {name}$"):
        broker.stop()
    broker.stop()
    engine.containers.get(name).remove(force=True, v=True)


def test_an_engine_that_stops_before_the_start_is_told(monkeypatch):
    with EngineDoor() as door:
        monkeypatch.setenv("DOCKER_HOST", door.address)
        broker = RocketMQContainer(progress=lambda _: door.shut())
        with pytest.raises(BrokerStartFailed, match=r"did not start .*refused"):
            broker.start()


FORGETS = """
from orderly.testing import RocketMQContainer, container, ports
wanted = [{taken}]
container.free_port = lambda: wanted.pop() if wanted else ports.free_port()
broker = RocketMQContainer().start()
print(broker._container.get_wrapped_container().name)
"""


def test_a_program_that_forgets_to_stop_it_leaves_nothing(engine, taken_port):
    """Also where a first start failed: its port was taken."""
    script = FORGETS.format(taken=taken_port)
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    with pytest.raises(NotFound):
        engine.containers.get(done.stdout.strip())


DIES = """
import pytest

def test_it_dies(orderly_broker):
    orderly_broker._container.get_wrapped_container().kill()
    raise AssertionError

def test_it_is_gone(orderly_topic): pass

def test_needs_none(): pass
"""


def test_the_plugin_says_which_test_it_died_in_and_fails_the_others_at_once(tmp_path):
    (tmp_path / "test_it.py").write_text(DIES)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--orderly-broker=container"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 failed, 1 passed, 1 error" in done.stdout, done.stdout
    gone, died = done.stdout.split("_ test_it_dies _")
    for text in (gone, died):
        assert "broker of this session is gone" in text, done.stdout
        assert "the container ended (exit code 137)" in text, done.stdout
