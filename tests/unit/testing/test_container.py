"""RocketMQContainer without an engine: which image it would start, and clear words that it cannot.

What it does with an engine: tests/integration/test_container*.py.
"""

import os
import subprocess
import sys

import pytest

from orderly.testing import ContainerUnavailable, RocketMQContainer

A_TEST = "def test_uses_a_broker(orderly_namesrv): pass"
NO_ENGINE = "unix:///nonexistent/docker.sock"


@pytest.mark.parametrize(
    ("variable", "argument", "image"),
    [
        ("", "", "apache/rocketmq:5.5.0"),
        ("from/variable:1", "", "from/variable:1"),
        ("from/variable:1", "from/argument:1", "from/argument:1"),
    ],
)
def test_the_image_is_the_argument_then_the_variable_then_the_public_one(
    monkeypatch, variable, argument, image
):
    monkeypatch.setenv("ORDERLY_ROCKETMQ_IMAGE", variable)
    assert RocketMQContainer(argument).image == image


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
        [
            *(sys.executable, "-m", "pytest", "-p", "no:cacheprovider"),
            *("--orderly-broker=container", "-rs"),
        ],
        cwd=tmp_path, env=inherited | {"DOCKER_HOST": NO_ENGINE} | env,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert expected in done.stdout, done.stdout
    assert "no container engine answers" in done.stdout
