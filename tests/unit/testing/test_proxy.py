"""How a proxy is started where the broker behind it is slow, with a program in place of the JVM."""

import sys
from pathlib import Path

import pytest

from orderly.client.routes import NameServers
from orderly.testing import EmbeddedProxy, settings
from orderly.testing import site as site_module
from orderly.testing.readiness import BrokerStartFailed

GIVES_UP = "ProxyException: create system broadcast topic DefaultHeartBeatSyncerTopic failed"
# Ends with a text at its first two starts, and runs at the third.
PROGRAM = """
import pathlib, sys, time
starts = pathlib.Path(sys.argv[1])
starts.open("a").write(".")
if starts.stat().st_size < 3:
    sys.exit(sys.argv[2])
time.sleep(600)
"""


@pytest.fixture
def start(monkeypatch, tmp_path, closing):
    starts = tmp_path / "starts"

    def start(text):
        command = [sys.executable, "-c", PROGRAM, str(starts), text]
        monkeypatch.setattr(site_module, "find_java", Path)
        monkeypatch.setattr(site_module, "fetch_jars", lambda **_: ())
        monkeypatch.setattr("orderly.testing.site.changed_classes", lambda *_: {})
        monkeypatch.setattr(settings, "java_command", lambda *_: command)
        monkeypatch.setattr(NameServers, "is_proxy", lambda *_: _runs(starts))
        return closing(EmbeddedProxy("127.0.0.1:1"))

    return start


def _runs(starts):
    return starts.exists() and starts.stat().st_size == 3


def test_one_that_gave_up_for_a_slow_broker_is_started_again(start):
    assert start(GIVES_UP).alive


def test_one_that_ended_for_another_reason_is_not(start):
    with pytest.raises(BrokerStartFailed, match=r"ended at its start(.|\n)*no such cluster"):
        start("no such cluster")
