"""The plugin as another project sees it: nothing to configure, and clear words when it cannot."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from orderly.testing import pytest_plugin

A_TEST = """
def test_uses_a_broker(orderly_namesrv):
    assert orderly_namesrv == "127.0.0.1:9876"
"""


@pytest.fixture
def run_pytest(tmp_path):
    (tmp_path / "test_it.py").write_text(A_TEST)

    def run(*arguments, **env):
        inherited = {
            k: v for k, v in os.environ.items() if k not in ("CI", "ORDERLY_REQUIRE_BROKER")
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *arguments],
            cwd=tmp_path, env=inherited | env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    return run


def test_an_address_is_used_as_it_is(run_pytest):
    code, text = run_pytest("--orderly-broker=127.0.0.1:9876")
    assert (code, "1 passed" in text) == (0, True), text
    assert "orderly: broker=127.0.0.1:9876" in text


A_TEST_OF_A_SERVICE = """
def test_uses_a_topic(orderly_namesrv, orderly_topic, orderly_fake):
    assert orderly_topic(queues=2)
    assert orderly_fake.create_topic("orders") == "orders"
    assert orderly_fake.namesrv != orderly_namesrv

def test_has_a_fake_broker_of_its_own(orderly_fake):
    from orderly import Client

    with Client(namesrv=orderly_fake.namesrv) as client:
        assert client.admin.topics() == ()
"""


def test_a_fake_broker_needs_nothing(run_pytest, tmp_path):
    (tmp_path / "test_it.py").write_text(A_TEST_OF_A_SERVICE)
    code, text = run_pytest("--orderly-broker=fake")
    assert (code, "2 passed" in text) == (0, True), text
    assert "orderly: broker=fake" in text


def test_what_only_a_real_broker_can_do_is_left_out_on_a_fake_one(run_pytest, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.broker\ndef test_it():\n    raise AssertionError\n"
    )
    code, text = run_pytest("--orderly-broker=fake")
    assert (code, "1 skipped" in text) == (0, True), text
    code, text = run_pytest("--orderly-broker=127.0.0.1:9876")
    assert code == 1, text


@pytest.mark.parametrize("where", ["nonsense", "mq-1:port", ":", "mq-1:9876;mq-2:0"])
def test_what_is_no_broker_is_refused(where):
    config = SimpleNamespace(getoption=lambda _: where, addinivalue_line=lambda *_: None)
    with pytest.raises(pytest.UsageError, match=f"--orderly-broker={where}: choose embedded"):
        pytest_plugin.pytest_configure(config)


def test_without_a_possible_broker_it_is_skipped_and_says_why(run_pytest, tmp_path):
    code, text = run_pytest(ORDERLY_CACHE=str(tmp_path), ORDERLY_MAVEN_URL="http://127.0.0.1:1")
    assert (code, "1 skipped" in text) == (0, True), text
    assert "ORDERLY_MAVEN_URL" in text


@pytest.mark.parametrize("variable", ["CI", "ORDERLY_REQUIRE_BROKER"])
def test_where_a_broker_is_required_a_missing_one_is_a_failure(run_pytest, tmp_path, variable):
    code, text = run_pytest(
        ORDERLY_CACHE=str(tmp_path), ORDERLY_MAVEN_URL="http://127.0.0.1:1", **{variable: "1"}
    )
    assert (code, "1 error" in text) == (1, True), text


A_CONTAINER = """
from orderly.testing import ContainerUnavailable, container

class StubContainer:
    namesrv, silent = "127.0.0.1:9876", False

    def __init__(self, progress): pass
    def start(self): return self
    def stop(self): pass

    def ended(self):
        if self.silent:
            raise ContainerUnavailable("the engine is silent")
        return ""

container.RocketMQContainer = StubContainer
"""
ITS_END = """
def test_is_well(orderly_namesrv): pass

def test_sees_the_end(orderly_broker):
    orderly_broker.silent = True
    raise AssertionError

def test_comes_after(orderly_namesrv): raise AssertionError("not reached")

def test_needs_no_broker(): pass
"""


def test_where_the_broker_ended_is_told_and_later_tests_do_not_try(run_pytest, tmp_path):
    (tmp_path / "conftest.py").write_text(A_CONTAINER)
    (tmp_path / "test_it.py").write_text(ITS_END)
    _, text = run_pytest("--orderly-broker=container")
    assert "1 failed, 2 passed, 1 error" in text, text
    errors, failures = text.split("_ test_sees_the_end _")
    told = "the broker of this session is gone"
    assert f"{told}: the engine is silent" in errors, text
    assert f"- {told} -" in failures, text
    assert "not reached" not in text
