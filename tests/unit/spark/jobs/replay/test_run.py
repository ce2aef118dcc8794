"""A replay's plan outlives a run that is not complete, and serves one run at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.jobs.files import LocalFiles, exclusive
from orderly.spark.jobs.replay import run as job
from orderly.spark.jobs.replay.report import ReplayResult
from orderly.spark.jobs.replay.run import (
    PLAN_FILE,
    ReplaySettings,
    TableReplayPlan,
    check_same_plan,
    plan_in,
    plan_text,
    run,
)
from orderly.spark.jobs.replay.selection import Extent, ReplaySelection

QUEUE = MessageQueue("orders", "broker-a", 0)
PLAN = TableReplayPlan({QUEUE: 3}, "orders", {"keys": ["a"], "until": None}, {QUEUE: 9})


def test_a_plan_reads_as_it_was_written():
    assert plan_in(plan_text(PLAN)) == PLAN


def test_other_settings_are_refused_and_named():
    check_same_plan(PLAN, {"keys": ("a",), "until": None})
    with pytest.raises(ConfigError, match="another until"):
        check_same_plan(PLAN, {"keys": ("a",), "until": 5.0})


@pytest.mark.parametrize("text", ["{}", "nonsense", '{"schema": "other"}', plan_text(PLAN)[:-9]])
def test_what_is_no_plan_is_refused(text):
    with pytest.raises(ConfigError, match=r"replay\.json"):
        plan_in(text)


# --- runs -----------------------------------------------------------------------------------------


FOUND = ReplayResult("again", Extent(10, 0, 3, 0, 1.0, 2.0), (), (), ())


@pytest.fixture
def settings(tmp_path):
    return ReplaySettings("table", "again", {}, directory=str(tmp_path), send=True)


@pytest.fixture
def outcome(monkeypatch):
    """A job without Spark and brokers; whether each sending went on with a begun one."""
    outcome = {"begun": []}

    def begin(settings, covered, files):
        plan = TableReplayPlan({}, settings.topic, job._wanted(settings), {})
        files.write(PLAN_FILE, plan_text(plan))
        return plan

    def send(*given, is_begun):
        outcome["begun"].append(is_begun)
        return replace(FOUND, sent=10)

    monkeypatch.setattr(job, "files_at", lambda _, directory: LocalFiles(directory))
    monkeypatch.setattr(job, "load_table", lambda *_: None)
    monkeypatch.setattr(job, "up_to", lambda table, ends: table)
    monkeypatch.setattr(job, "spans", lambda _: ())
    monkeypatch.setattr(ReplaySelection, "of", lambda _, table: table)
    monkeypatch.setattr(job, "_look", lambda *_: FOUND)
    monkeypatch.setattr(job, "_guarded", lambda *given: given[-1])
    monkeypatch.setattr(job, "_begin", begin)
    monkeypatch.setattr(job, "_send", send)
    monkeypatch.setattr(job, "_reported", lambda settings, covered, found: found)
    return outcome


def test_a_complete_replay_leaves_no_plan(settings, outcome, tmp_path):
    run(None, settings)
    assert not (tmp_path / PLAN_FILE).exists()


def test_two_at_a_time_would_send_twice_and_the_second_is_refused(settings, outcome, tmp_path):
    with (
        exclusive(LocalFiles(str(tmp_path)), ConfigError("busy")),
        pytest.raises(ConfigError, match="another run sends"),
    ):
        run(None, settings)
    assert outcome["begun"] == []
    assert run(None, replace(settings, send=False)) is FOUND, "a dry run is in nobody's way"
