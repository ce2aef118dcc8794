"""RocketMQContainer without an engine: what it would start, and clear words when it cannot."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from orderly.testing import BrokerStartFailed, ContainerUnavailable, RocketMQContainer
from orderly.testing import container as module

A_TEST = "def test_uses_a_broker(orderly_namesrv): pass"
NO_ENGINE = "unix:///nonexistent/docker.sock"


class StubContainer:
    """Remembers how it was configured."""

    def __init__(self, host):
        self.host = host
        self.ports = {}
        self.files = {}
        self.env = {}
        self.stopped = False

    def get_docker_client(self):
        return SimpleNamespace(host=lambda: self.host, client=SimpleNamespace(close=lambda: None))

    def get_wrapped_container(self):
        return SimpleNamespace(name="stub")

    def with_copy_into_container(self, content, path):
        self.files[path] = content.decode()

    def with_envs(self, **variables):
        self.env |= variables

    def with_command(self, command):
        self.command = command

    def stop(self):
        self.stopped = True


@pytest.fixture
def engine(monkeypatch):
    """An engine that starts nothing; `made` holds the containers, `failures` what start raises."""
    engine = SimpleNamespace(host="localhost", made=[], failures=[], images=[])

    def new_container(image):
        engine.images.append(image)
        engine.made.append(StubContainer(engine.host))
        return engine.made[-1]

    def start(_container):
        if engine.failures:
            raise engine.failures.pop(0)

    monkeypatch.setattr(module.engine, "new_container", new_container)
    monkeypatch.setattr(module.engine, "pull_if_missing", lambda container, progress: None)
    monkeypatch.setattr(module.engine, "start", start)
    monkeypatch.setattr(module, "wait_ready", lambda *_: None)
    return engine


def settings_of(container):
    return dict(line.split("=", 1) for line in container.files["/broker.conf"].splitlines())


def test_the_broker_registers_an_address_that_leads_back_to_it(engine):
    with RocketMQContainer() as broker:
        (made,) = engine.made
        host, port = broker.broker_address.split(":")
        assert settings_of(made)["brokerIP1"] == host == "127.0.0.1"
        assert settings_of(made)["listenPort"] == port
        assert made.ports[f"{port}/tcp"] == ("127.0.0.1", int(port))
        assert made.ports["9876/tcp"] == ("127.0.0.1", int(broker.namesrv.split(":")[1]))
    assert made.stopped


def test_an_engine_elsewhere_is_reached_by_its_name(engine):
    engine.host = "docker.example"
    with RocketMQContainer() as broker:
        assert broker.namesrv.startswith("docker.example:")
        assert settings_of(engine.made[0])["brokerIP1"] == "docker.example"
        assert {interface for interface, _ in engine.made[0].ports.values()} == {"0.0.0.0"}


def test_the_image_is_the_argument_then_the_variable_then_the_public_one(engine, monkeypatch):
    monkeypatch.delenv("ORDERLY_ROCKETMQ_IMAGE", raising=False)
    RocketMQContainer().start().stop()
    monkeypatch.setenv("ORDERLY_ROCKETMQ_IMAGE", "from/variable:1")
    RocketMQContainer().start().stop()
    RocketMQContainer("from/argument:1").start().stop()
    assert engine.images == ["apache/rocketmq:5.5.0", "from/variable:1", "from/argument:1"]


def test_settings_of_the_caller_win(engine):
    properties = {"autoCreateTopicEnable": "true", "brokerIP2": "192.0.2.1"}
    with RocketMQContainer(broker_name="b", broker_properties=properties):
        found = settings_of(engine.made[0])
    assert properties.items() <= found.items()
    assert found["brokerName"] == "b"


@pytest.mark.parametrize(
    "text",
    [
        "Bind for 127.0.0.1:1 failed: port is already allocated",
        "listen tcp4 127.0.0.1:1: bind: address already in use",
    ],
)
def test_a_port_that_was_taken_meanwhile_is_replaced(engine, text):
    engine.failures = [BrokerStartFailed(text)]
    with RocketMQContainer():
        first, second = engine.made
        assert first.stopped
        assert first.ports != second.ports


def test_after_a_second_start_too_it_ends_with_the_program(engine, monkeypatch):
    at_exit = []
    monkeypatch.setattr(module.atexit, "register", at_exit.append)
    monkeypatch.setattr(module.atexit, "unregister", at_exit.remove)
    engine.failures = [BrokerStartFailed("port is already allocated")]
    broker = RocketMQContainer().start()
    assert at_exit == [broker.stop]
    broker.stop()
    assert at_exit == []


def test_a_paused_broker_can_be_restarted(engine, monkeypatch):
    """A stopped process does not see SIGTERM until it is told to go on."""
    came = []

    def run(_container, script):
        signal = re.search(r"kill -(\w+)", script)
        if signal is not None:
            came.append(signal[1])
        waits = came.count("STOP") > came.count("CONT")
        return int("TERM" in came and not waits)

    monkeypatch.setattr(module, "_DEATH_TIMEOUT", 0.5)
    monkeypatch.setattr(module.engine, "run", run)
    monkeypatch.setattr(module.engine, "ended", lambda _: "")
    with RocketMQContainer() as broker:
        broker.pause_broker()
        broker.restart_broker()
    assert came[:2] == ["STOP", "TERM"]


def test_another_failure_is_told_and_leaves_nothing(engine):
    engine.failures = [BrokerStartFailed("no space left on device")]
    with pytest.raises(BrokerStartFailed, match="no space"):
        RocketMQContainer().start()
    assert [made.stopped for made in engine.made] == [True]


def test_no_engine(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    with pytest.raises(ContainerUnavailable, match="start Docker"):
        RocketMQContainer().start()


def test_no_testcontainers(monkeypatch):
    monkeypatch.setitem(sys.modules, "testcontainers.core.container", None)
    with pytest.raises(ContainerUnavailable, match="pip install"):
        RocketMQContainer().start()


@pytest.mark.parametrize(("env", "expected"), [({}, "1 skipped"), ({"CI": "true"}, "1 error")])
def test_the_plugin_without_an_engine_skips_and_in_ci_fails(tmp_path, env, expected):
    (tmp_path / "test_it.py").write_text(A_TEST)
    inherited = {k: v for k, v in os.environ.items() if k not in ("CI", "ORDERLY_REQUIRE_BROKER")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--broker=container", "-rs"],
        cwd=tmp_path, env=inherited | {"DOCKER_HOST": NO_ENGINE} | env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert expected in done.stdout, done.stdout
    assert "no container engine answers" in done.stdout
