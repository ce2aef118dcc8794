"""How far Spark is, in lines."""

import io
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from orderly.spark.jobs import progress
from orderly.spark.jobs.progress import Tasks, _ProgressLine, running, silent
from tests.support.waiting import eventually


class Screen(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.isatty = lambda: terminal


def tracker(stages, active):
    """Of one job; stages: {id: (tasks, done, running)}."""
    return SimpleNamespace(
        getActiveStageIds=lambda: list(active),
        getJobIdsForGroup=lambda group: [1] if group == "mine" else [],
        getJobInfo=lambda job: SimpleNamespace(stageIds=list(stages)),
        getStageInfo=lambda stage: (
            SimpleNamespace(
                numTasks=stages[stage][0],
                numCompletedTasks=stages[stage][1],
                numActiveTasks=stages[stage][2],
            )
            if stages[stage]
            else None
        ),
    )


def test_tasks_of_the_stages_that_run_are_added_up():
    stages = {1: (8, 8, 0), 2: (4, 1, 2), 3: (2, 0, 1), 4: None, 5: (9, 0, 0)}
    found = running(tracker(stages, active=[2, 3, 4, 77]), "mine")
    assert found == Tasks(done=1, running=3, total=6)
    assert running(tracker(stages, active=[2]), "other") == Tasks()


def test_a_line_says_how_far_it_is():
    assert Tasks(3, 2, 8).line("reading", 61.4) == "reading: 3 of 8 tasks done, 2 run, 1m1s"
    assert Tasks().line("reading", 0.2) == "reading: 0s"


def test_on_a_terminal_one_line_changes(monkeypatch):
    monkeypatch.setattr(progress, "_LOOK", 0.01)
    screen, looked = Screen(terminal=True), threading.Event()

    def look():
        looked.set()
        return Tasks(1, 1, 2)

    teller = _ProgressLine(screen, "reading", look)
    teller.start()
    eventually(lambda: "1 of 2" in screen.getvalue())
    teller.end()
    text = screen.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    last = text.split("\r")[-1]
    assert last.startswith("reading: 0s")
    assert len(last) > len("reading: 1 of 2 tasks done")  # what stood there is wiped out


def test_elsewhere_a_step_is_one_line_unless_it_is_long(monkeypatch):
    monkeypatch.setattr(progress, "_LOOK", 0.001)
    screen = Screen(terminal=False)
    teller = _ProgressLine(screen, "reading", lambda: Tasks(1, 1, 2))
    teller.start()
    teller.end()
    assert screen.getvalue() == "reading: 0s\n"
    assert not [t for t in threading.enumerate() if t.name.startswith("orderly-progress")]


def test_silence_is_silent(capsys):
    with silent("reading"):
        pass
    assert capsys.readouterr() == ("", "")
