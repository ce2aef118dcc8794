"""The engine's answers and its silence, in our words; no engine runs here."""

from types import SimpleNamespace

import pytest
import requests
from docker.errors import APIError, NotFound
from testcontainers.core.exceptions import ContainerStartException

from orderly.testing import BrokerStartFailed, ContainerUnavailable
from orderly.testing import container as module

SILENCE = requests.ConnectionError("connection refused")


class StubContainer:
    """A started container; `trouble` is what each question to the engine raises."""

    image = "some/image:1"

    def __init__(self, trouble=None, status="running", made=True, **state):
        self.trouble, self.status, self.made, self.closed = trouble, status, made, False
        self.attrs = {"State": state}

    def ask(self, *_, **__):
        if self.trouble is not None:
            raise self.trouble
        return SimpleNamespace(exit_code=7)

    start = stop = reload = exec = ask

    def get_wrapped_container(self):
        if not self.made:
            raise ContainerStartException("not started")
        logs = lambda tail: self.ask() and b"the end"  # noqa: E731
        return SimpleNamespace(name="quiet_swan", attrs=self.attrs, logs=logs)

    def get_docker_client(self):
        def close():
            self.closed = True

        return SimpleNamespace(client=SimpleNamespace(close=close))


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (StubContainer(), ""),
        (StubContainer(status="paused"), ""),
        (StubContainer(status="exited", ExitCode=1), "the container ended (exit code 1)"),
        (
            StubContainer(status="dead", ExitCode=137, OOMKilled=True),
            "the container ended (exit code 137, out of memory)",
        ),
        (StubContainer(NotFound("no such")), "the container was removed by somebody else"),
    ],
)
def test_why_a_container_ended(container, expected):
    assert module.why_ended(container) == expected


def test_the_end_of_the_log_of_a_container_that_is_gone_is_empty():
    assert module.log_end(StubContainer(), 3) == "the end"
    assert module.log_end(StubContainer(NotFound("no such")), 3) == ""


def test_a_script_has_its_exit_code():
    assert module.run_script(StubContainer(), "exit 7") == 7


@pytest.mark.parametrize(
    "ask",
    [
        module.why_ended,
        lambda container: module.log_end(container, 3),
        lambda container: module.run_script(container, "true"),
        module.remove_container,
    ],
)
@pytest.mark.parametrize("trouble", [SILENCE, APIError("server error"), TimeoutError("slow")])
def test_an_engine_that_is_silent_is_told(ask, trouble):
    with pytest.raises(ContainerUnavailable, match="engine no longer answers") as caught:
        ask(StubContainer(trouble))
    assert caught.value.__cause__ is trouble


def test_what_could_not_be_removed_is_named():
    container = StubContainer(SILENCE)
    with pytest.raises(ContainerUnavailable, match=r"docker rm --force --volumes quiet_swan$"):
        module.remove_container(container)
    assert container.closed, "its connections are closed all the same"


def test_nothing_is_named_that_the_engine_never_made():
    with pytest.raises(ContainerUnavailable, match=r"start it again$"):
        module.remove_container(StubContainer(SILENCE, made=False))


def test_to_remove_what_is_gone_is_nothing():
    container = StubContainer(NotFound("no such"))
    module.remove_container(container)
    assert container.closed


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        ("port is already allocated", BrokerStartFailed, "some/image:1: port is already allocated"),
        ('exec: "sh": executable file not found', BrokerStartFailed, "has no shell: choose"),
        ("pulling testcontainers/ryuk", ContainerUnavailable, "TESTCONTAINERS_RYUK_DISABLED"),
    ],
)
def test_a_refused_start_is_told_with_an_advice(said, kind, told):
    with pytest.raises(kind, match=told) as caught:
        module.start_container(StubContainer(APIError(said)))
    assert isinstance(caught.value.__cause__, APIError)


def test_what_testcontainers_says_itself_is_told_too():
    with pytest.raises(ContainerUnavailable, match="Ryuk, which removes") as caught:
        module.start_container(
            StubContainer(ContainerStartException("testcontainers/ryuk has exited"))
        )
    assert isinstance(caught.value.__cause__, ContainerStartException)


def test_an_image_whose_variable_was_not_filled_in_is_told():
    container = StubContainer(APIError("invalid reference format"))
    container.image = "${IMAGE}"
    with pytest.raises(BrokerStartFailed, match=r"\$\{IMAGE\}: invalid reference format"):
        module.start_container(container)


@pytest.mark.parametrize(
    "host", ["tcp://127.0.0.1:port", "http://[", "nonsense", "tcp://127.0.0.1:1"]
)
def test_an_address_that_is_no_engine_is_told(monkeypatch, host):
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(ContainerUnavailable, match="set DOCKER_HOST"):
        module.new_container("some/image:1")
