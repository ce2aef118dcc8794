"""A replay's plan outlives a run that is not complete, and serves one run at a time."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.spark.jobs.files import LocalFiles, alone
from orderly.spark.jobs.replay import run as job
from orderly.spark.jobs.replay.plan import Plan, to_text
from orderly.spark.jobs.replay.result import ReplayResult
from orderly.spark.jobs.replay.run import PLAN, ReplaySettings, run
from orderly.spark.jobs.replay.selection import Extent, Selection
from orderly.spark.offsets.ranges import QueueRange

FOUND = ReplayResult("again", Extent(10, 0, 3, 0, 1.0, 2.0), (), (), ())


@pytest.fixture
def settings(tmp_path):
    return ReplaySettings("table", "again", {}, directory=str(tmp_path), send=True)


@pytest.fixture
def outcome(monkeypatch):
    """A job without Spark and brokers; what its sending comes to, to be changed by the test."""
    outcome = {"sent": 10, "missing": 0, "begun": []}

    def begin(settings, covered, files):
        plan = Plan({}, settings.topic, job._wanted(settings), {})
        files.write(PLAN, to_text(plan))
        return plan

    def send(*given, is_begun):
        outcome["begun"].append(is_begun)
        return replace(FOUND, sent=outcome["sent"], missing=outcome["missing"])

    monkeypatch.setattr(job, "files_at", lambda _, directory: LocalFiles(directory))
    monkeypatch.setattr(job, "load", lambda *_: None)
    monkeypatch.setattr(job, "up_to", lambda table, ends: table)
    monkeypatch.setattr(job, "spans", lambda _: ())
    monkeypatch.setattr(Selection, "of", lambda _, table: table)
    monkeypatch.setattr(job, "_look", lambda *_: FOUND)
    monkeypatch.setattr(job, "_guarded", lambda *given: given[-1])
    monkeypatch.setattr(job, "_begin", begin)
    monkeypatch.setattr(job, "_send", send)
    monkeypatch.setattr(job, "_told", lambda settings, covered, found: found)
    return outcome


def test_a_complete_replay_leaves_no_plan(settings, outcome, tmp_path):
    run(None, settings)
    assert not (tmp_path / PLAN).exists()


def test_what_is_missing_is_sent_by_the_same_command_and_not_all_again(settings, outcome, tmp_path):
    outcome["missing"] = 2
    assert "the same command sends them" in run(None, settings).headline
    assert (tmp_path / PLAN).exists()
    outcome["missing"] = 0
    run(None, settings)
    assert outcome["begun"] == [False, True]
    assert not (tmp_path / PLAN).exists()


def test_two_at_a_time_would_send_twice_and_the_second_is_refused(settings, outcome, tmp_path):
    with (
        alone(LocalFiles(str(tmp_path)), ConfigError("busy")),
        pytest.raises(ConfigError, match="another run sends"),
    ):
        run(None, settings)
    assert outcome["begun"] == []
    assert run(None, replace(settings, send=False)) is FOUND, "a dry run is in nobody's way"


def test_the_guard_knows_the_topic_by_its_name_in_the_namespace(settings, monkeypatch):
    """The sink and the source put a bare name into the namespace of the settings file."""
    queue = MessageQueue("shop%again", "broker-a", 0)
    covered = [QueueRange(queue, 0, 9)]
    asked = []

    def committed(_, topic, brokers):
        asked.append((topic, brokers))
        return {"shipping": {queue: 10}}

    client = SimpleNamespace(config=SimpleNamespace(namespace="shop"), close=lambda: None)
    monkeypatch.setattr(job, "access_of", lambda _: SimpleNamespace(client=lambda: client))
    monkeypatch.setattr(job, "later", lambda *_: {("broker-a", 0): 5})
    monkeypatch.setattr(job, "without_holes", lambda _, covered: covered)
    monkeypatch.setattr(job, "committed_on", committed)
    with pytest.raises(ConfigError, match="shipping has consumed later"):
        job._guarded(settings, None, None, covered, FOUND)
    assert asked == [("shop%again", {"broker-a"})]
