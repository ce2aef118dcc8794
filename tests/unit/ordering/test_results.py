"""Every cell of the table of consume results."""

import pytest

from orderly.ordering.results import (
    EFFECTS,
    FAILURE,
    JAVA_EFFECTS,
    ConsumeResult,
    Disposition,
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
