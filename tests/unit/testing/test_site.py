"""What a site does at its start, with no server started."""

import atexit
from pathlib import Path

import pytest

from orderly.errors import EmbeddedBrokerError
from orderly.testing import site as site_module
from orderly.testing.site import Site


@pytest.fixture
def at_exit(monkeypatch):
    """What is to be called when the process ends."""
    calls = []
    monkeypatch.setattr(atexit, "register", calls.append)
    monkeypatch.setattr(atexit, "unregister", lambda call: call in calls and calls.remove(call))
    return calls


@pytest.fixture
def site(monkeypatch, at_exit):
    monkeypatch.setattr(site_module, "find_java", Path)
    monkeypatch.setattr(site_module, "fetch_jars", lambda **_: ())
    site = Site()
    yield site
    site.stop()
    assert at_exit == []


def test_what_is_started_at_the_second_try_is_ended_with_the_process_too(site, at_exit):
    """The first one found that somebody had taken its ports."""
    directories = []

    def build():
        directories.append(site.directory)
        if len(directories) == 1:
            raise EmbeddedBrokerError("Address already in use")

    site.start(build, ours=True)
    assert at_exit == [site.stop]
    assert [folder.exists() for folder in directories] == [False, True]


def test_a_failed_start_leaves_nothing(site, at_exit):
    directories = []

    def build():
        directories.append(site.directory)
        raise EmbeddedBrokerError("no memory")

    with pytest.raises(EmbeddedBrokerError, match="no memory"):
        site.start(build, ours=True)
    assert at_exit == []
    assert [folder.exists() for folder in directories] == [False]
