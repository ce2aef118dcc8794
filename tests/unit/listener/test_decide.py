"""Every cell of the table: answer of the last attempt x failures before -> what becomes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.listener import Block
from orderly.listener.decide import Failed, Wait, decide, read_answer
from orderly.listener.rules import Rules
from orderly.ordering.outcomes import Ack, DeadLetter, Fail, Suspend
from orderly.ordering.results import ConsumeResult

LIMIT = 3
BLOCK = Rules(suspend=1.0, max_suspend=30.0, limit=LIMIT, then=Block)
BURY = Rules(suspend=1.0, max_suspend=30.0, limit=LIMIT, then=DeadLetter)
ENDLESS = Rules(suspend=1.0, max_suspend=30.0, limit=None, then=DeadLetter)

CELLS = [
    # answer, failures before, rules, decision
    (Ack(), 0, BURY, Ack()),
    (Ack(), LIMIT, BURY, Ack()),
    (Suspend(7.0), 0, BURY, Wait(7.0)),
    (Suspend(7.0), LIMIT, BURY, Wait(7.0)),
    (Suspend(), 0, BURY, Wait(1.0)),
    (Suspend(), LIMIT, BURY, Wait(8.0)),
    (DeadLetter("r"), 0, BLOCK, DeadLetter("r")),
    (DeadLetter("r"), LIMIT, BLOCK, DeadLetter("r")),
    (Block("r"), 0, BURY, Wait(30.0, problem="r")),
    (Block("r"), LIMIT, BURY, Wait(30.0, problem="r")),
    (Failed("r"), 0, BURY, Wait(1.0)),
    (Failed("r"), LIMIT - 1, BURY, Wait(4.0)),
    (Failed("r"), LIMIT, BURY, DeadLetter("r")),
    (Failed("r"), LIMIT + 1, BURY, DeadLetter("r")),
    (Failed("r"), LIMIT, BLOCK, Wait(30.0, problem="r")),
    (Failed("r", fatal=True), 0, BURY, DeadLetter("r")),
    (Failed("r", fatal=True), 0, BLOCK, Wait(30.0, problem="r")),
    (Failed("r"), 10_000, ENDLESS, Wait(30.0)),
    (Failed("r", fatal=True), 0, ENDLESS, DeadLetter("r")),
]


@pytest.mark.parametrize(("answer", "failures", "rules", "decision"), CELLS)
def test_cell(answer, failures, rules, decision):
    assert decide(answer, failures, rules) == decision


@given(
    st.floats(0.01, 3600.0),
    st.floats(0.01, 3600.0),
    st.integers(0, 2**31 - 1),
)
def test_the_wait_never_shrinks_and_ends_at_the_longest(one, other, failures):
    suspend, longest = sorted((one, other))
    rules = Rules(suspend=suspend, max_suspend=longest, limit=None, then=Block)
    assert rules.wait(0) == suspend
    assert rules.wait(failures) <= rules.wait(failures + 1) <= longest
    assert rules.wait(20) == longest


@pytest.mark.parametrize("answer", [Ack(), Suspend(), Suspend(30), DeadLetter("r"), Block("r")])
def test_a_final_answer_is_kept(answer):
    assert read_answer(answer, 30.0) == answer


@pytest.mark.parametrize(
    "answer", [None, True, 0, "Ack", b"body", Ack, Fail("r"), ConsumeResult.SUCCESS, object()]
)
def test_anything_else_is_a_failed_attempt_that_may_be_retried(answer):
    read = read_answer(answer, 30.0)
    assert isinstance(read, Failed)
    assert not read.fatal


def test_a_foreign_answer_is_told_by_its_type_and_never_shown():
    assert "secret" not in read_answer(b"secret", 30.0).reason
    assert "bytes" in read_answer(b"secret", 30.0).reason
    assert "Ack()" in read_answer(Ack, 30.0).reason


def test_fail_gives_its_own_reason():
    assert read_answer(Fail("no such carrier"), 30.0) == Failed("no such carrier")


def test_a_wait_the_consumer_does_not_allow_is_a_failed_attempt():
    assert read_answer(Suspend(31), 60.0) == Suspend(31)
    assert read_answer(Suspend(31), 30.0) == Failed(
        "answered Suspend(31); 30 s is the longest here"
    )
