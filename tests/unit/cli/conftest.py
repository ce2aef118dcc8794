"""No test of the command line reads the settings of who runs it."""

import os
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from orderly.cli.settings import Settings
from orderly.monitoring.collecting import survey as survey_module
from tests.support.snapshots import snapshot


@pytest.fixture(autouse=True)
def no_settings_of_mine(monkeypatch):
    for name in ("ORDERLY_CONTEXT", "ORDERLY_COLOR", "NAMESRV_ADDR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ORDERLY_CONFIG", os.devnull)


@pytest.fixture
def surveyed(monkeypatch):
    """Every survey finds `.found`, or raises it; `.asked` has how each was asked."""
    survey = SimpleNamespace(found=snapshot(), asked=[])

    def answer(_client, selection, **how):
        survey.asked.append((selection, how))
        if isinstance(survey.found, BaseException):
            raise survey.found
        return survey.found

    @contextmanager
    def client(_settings, _patience=None):
        yield SimpleNamespace()

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.setattr(survey_module, "survey", answer)
    return survey
