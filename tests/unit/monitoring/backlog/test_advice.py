"""Advice: something to do about every state that is not in order, safe to paste."""

import pytest

from orderly.monitoring.backlog.advice import advice
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict
from tests.support.snapshots import row


@pytest.mark.parametrize("state", QueueState)
def test_every_state_that_is_not_in_order_has_some(state):
    text = advice(row(state))
    assert bool(text) or VERDICTS[state] is Verdict.OK
    assert "{" not in text


def test_names_are_safe_to_paste_into_a_shell():
    text = advice(row(QueueState.AHEAD, group="a|b", topic="t"))
    assert "-g 'a|b' -t t " in text


def test_the_member_is_named_if_it_is_known():
    assert "member client-1" in advice(row(QueueState.BLOCKED))
    assert "not known" in advice(row(QueueState.BLOCKED, owner=None))
