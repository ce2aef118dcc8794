"""Every cell of the table of consume results."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from orderly.errors import ConfigError
from orderly.ordering.results import (
    EFFECTS,
    FAILURE,
    JAVA_EFFECTS,
    Ack,
    Answer,
    ConsumeResult,
    DeadLetter,
    Disposition,
    Fail,
    Park,
    Suspend,
    effect_of,
)

CELLS = [
    # auto, answer, disposition, suspends, misplaced
    (True, "SUCCESS", Disposition.COMMIT, False, False),
    (True, "SUSPEND", Disposition.PUT_BACK, True, False),
    (True, "COMMIT", Disposition.COMMIT, False, True),
    (True, "ROLLBACK", Disposition.PUT_BACK, True, True),
    (False, "SUCCESS", Disposition.KEEP, False, False),
    (False, "SUSPEND", Disposition.PUT_BACK, True, False),
    (False, "COMMIT", Disposition.COMMIT, False, False),
    (False, "ROLLBACK", Disposition.ROLLBACK, True, False),
]


@pytest.mark.parametrize(("auto", "answer", "disposition", "suspends", "misplaced"), CELLS)
def test_cell(auto, answer, disposition, suspends, misplaced):
    effect = effect_of(ConsumeResult(answer), auto_commit=auto)
    assert (effect.disposition, effect.suspend, effect.misplaced) == (
        disposition,
        suspends,
        misplaced,
    )


def test_the_table_has_no_other_cell():
    assert len(EFFECTS) == len(CELLS)


def test_java_differs_in_one_cell_rollback_under_auto_commit_acknowledges():
    different = {cell for cell in EFFECTS if EFFECTS[cell] != JAVA_EFFECTS[cell]}
    assert different == {(True, ConsumeResult.ROLLBACK)}
    effect = effect_of(ConsumeResult.ROLLBACK, auto_commit=True, java_compat=True)
    assert (effect.disposition, effect.suspend, effect.misplaced) == (
        Disposition.COMMIT,
        False,
        True,
    )


def test_a_failure_never_commits():
    assert FAILURE.disposition is Disposition.PUT_BACK


# --- outcomes -------------------------------------------------------------------------------------
# Typed outcomes are checked when they are made, and nothing can be changed in them.


NAN = float("nan")


@pytest.mark.parametrize("seconds", [0.01, 1, 30.0, 3600])
def test_suspend_takes_what_some_consumer_allows(seconds):
    assert Suspend(seconds).seconds == seconds


def test_suspend_leaves_the_wait_to_the_consumer():
    assert Suspend().seconds is None


@pytest.mark.parametrize("seconds", [0, 0.009, 3600.1, -1, NAN, float("inf"), True, "1"])
def test_suspend_refuses_what_no_consumer_allows(seconds):
    with pytest.raises(ConfigError, match=r"0\.01 to 3600"):
        Suspend(seconds)


@pytest.mark.parametrize(
    "outcome", [Ack(), Suspend(1), Fail("r"), Park("r"), DeadLetter("r")], ids=str
)
def test_an_outcome_is_a_value(outcome):
    assert outcome == dataclasses.replace(outcome)
    assert not hasattr(outcome, "__dict__")
    for field in dataclasses.fields(outcome):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(outcome, field.name, "another")


def test_the_answers_are_these_and_javas_four():
    assert set(typing.get_args(Answer)) == {ConsumeResult, Ack, Suspend, Fail, Park, DeadLetter}
