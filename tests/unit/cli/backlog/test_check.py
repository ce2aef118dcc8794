"""`orderly backlog check`: one line, and an exit code that says it."""

import json

import pytest

from orderly.cli.backlog.check import SUFFIXES, exit_code
from orderly.cli.root import run
from orderly.monitoring.backlog.reading import DeadLetters
from orderly.monitoring.backlog.states import QueueState, Verdict
from orderly.monitoring.backlog.thresholds import Measure
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import group, row, snapshot

CHECK = ["backlog", "check", "-g", "shipping"]


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (QueueState.UNKNOWN, 3),
        (QueueState.NOT_APPLICABLE, 0),
        (QueueState.NEW, 3),
        (QueueState.LOST, 2),
        (QueueState.AHEAD, 1),
        (QueueState.OFFLINE, 2),
        (QueueState.ORPHAN, 2),
        (QueueState.UNLOCKED, 1),
        (QueueState.BLOCKED, 2),
        (QueueState.SUSPENDED, 1),
        (QueueState.REWIND, 1),
        (QueueState.STALL, 2),
        (QueueState.GROWING, 1),
        (QueueState.OK, 0),
    ],
)
def test_the_worst_queue_decides_and_all_is_said_in_one_line(surveyed, capsys, state, code):
    surveyed.found = snapshot(row(), row(state, queue_id=1))
    assert run(CHECK) == code
    out, err = capsys.readouterr()
    assert (out.count("\n"), err) == (1, "")
    assert out.startswith(f"ORDERLY {Verdict(code).name} - shipping: ")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ([], 0),
        (["--warn", "10"], 0),
        (["--warn", "9"], 1),
        (["--warn", "1", "--crit", "9"], 2),
        (["--crit", "@5:10"], 2),
        (["--crit", "11:"], 2),
        (["--warn-age", "59s"], 1),
        (["--warn-age", "1m"], 0),
        (["--crit-age", "500ms"], 2),
        (["--crit-eta", "9s"], 2),
        (["--warn-retention", "4d"], 1),
        (["--crit-retention", "1d"], 0),
        (["--crit-lost", "~:"], 0),
    ],
)
def test_thresholds(surveyed, args, code):
    surveyed.found = snapshot(row(backlog=10))
    assert run([*CHECK, *args]) == code


@pytest.mark.parametrize(
    ("fields", "off", "crit"),
    [
        ({"dead": DeadLetters(2, None, 2)}, "--warn-dead", "--crit-dead"),
        ({"parked": (ParkedKey("k", 1, 1, 2),)}, "--warn-parked", "--crit-parked"),
    ],
)
def test_parked_and_dead_letters_warn_unless_told_otherwise(surveyed, fields, off, crit):
    parked = fields.pop("parked", ())
    surveyed.found = snapshot(group("shipping", [row(parked=parked)], **fields))
    assert run(CHECK) == 1
    assert run([*CHECK, off, "~:"]) == 0
    assert run([*CHECK, crit, "0"]) == 2


@pytest.mark.parametrize(
    ("verdict", "warning", "critical"), [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 3, 3)]
)
def test_fail_on_maps_to_0_and_1_and_never_hides_what_was_not_measured(verdict, warning, critical):
    assert exit_code(Verdict(verdict), None) == verdict
    assert exit_code(Verdict(verdict), "warning") == warning
    assert exit_code(Verdict(verdict), "critical") == critical


def test_quiet_says_nothing(surveyed, capsys):
    surveyed.found = snapshot(row(QueueState.OFFLINE))
    assert run([*CHECK, "--quiet"]) == 2
    assert capsys.readouterr() == ("", "")


def test_json_has_reasons_and_figures(surveyed, capsys):
    surveyed.found = snapshot(row(QueueState.OFFLINE, drain_eta=float("inf")))
    assert run([*CHECK, "--crit-age", "10s", "-o", "json"]) == 2
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["verdict"], found["exit_code"]) == (
        "orderly.backlog-check/v2",
        "CRITICAL",
        2,
    )
    figures = {figure["measure"]: figure for figure in found["figures"]}
    assert figures["head_age"]["crit"] == "10s"
    assert figures["drain_eta"]["value"] is None
    assert {reason["group"] for reason in found["reasons"]} == {"shipping"}


def test_samples_interval_and_timeout_reach_the_survey(surveyed):
    surveyed.found = snapshot(row())
    run([*CHECK, "--samples", "3", "--interval", "500ms", "--timeout", "2s"])
    ((selection, how),) = surveyed.asked
    assert selection.named_groups == ("shipping",)
    assert (how["samples"], how["interval"], how["settings"].deadline) == (3, 0.5, 2)


def test_a_threshold_that_is_empty_is_none_and_not_measured(surveyed, capsys):
    """As from --crit "$CRIT" with a variable that nobody set."""
    assert run([*CHECK, "--crit", ""]) == 3
    assert "'' is no range" in capsys.readouterr().err
    assert not surveyed.asked


def test_there_is_an_option_for_every_measure():
    assert set(SUFFIXES) == set(Measure)


@pytest.mark.parametrize("output", ["table", "wide", "csv", "yaml", "prometheus", "nagios"])
def test_every_format_tells_something(surveyed, capsys, output):
    surveyed.found = snapshot(row(QueueState.OFFLINE))
    assert run([*CHECK, "-o", output]) == 2
    assert "shipping" in capsys.readouterr().out
