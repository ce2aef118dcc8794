"""Advice: something to do about every state that is not in order, safe to paste."""

import pytest

from orderly.foreign_text import hidden
from orderly.monitoring.backlog.advice import advice, next_steps, parked_steps
from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import row

ALL = [
    "orderly parked list shipping -t orders",
    "orderly parked release shipping -t orders --all",
]


@pytest.mark.parametrize("state", QueueState)
def test_every_state_that_is_not_in_order_has_some(state):
    text = advice(row(state))
    assert bool(text) or VERDICTS[state] is Verdict.OK
    assert "{" not in text


def test_names_are_safe_to_paste_into_a_shell():
    text = advice(row(QueueState.AHEAD, group="a|b", topic="t"))
    assert "'a|b' t " in text


@pytest.mark.parametrize(
    ("keys", "commands"),
    [
        (["order 9"], ["orderly parked release shipping 'order 9' -t orders"]),
        ([17], ["orderly parked release shipping 17 -t orders --int"]),
        (["-x"], ["orderly parked release -t orders -- shipping -x"]),
        ([hidden("jane")], ALL),
        (["\x1b"], ALL),
        (["a", "b"], ALL),
    ],
    ids=repr,
)
def test_a_command_works_as_it_is_told(keys, commands):
    parked = tuple(ParkedKey(key, 1, 0) for key in keys)
    one = row(QueueState.OK, parked=parked)
    _, told = parked_steps([one])
    assert list(told) == commands
    assert advice(one).endswith("; ".join(commands))


def test_a_key_that_blocks_can_be_set_aside():
    head = Head(93, "order-7", "", 0.0, 0.0, 0, 10)
    _, commands = next_steps(row(QueueState.SUSPENDED, head=head))
    assert commands == ("orderly parked add shipping order-7 -t orders",)
    assert next_steps(row(QueueState.SUSPENDED))[1] == ()


def test_the_member_is_named_if_it_is_known():
    assert "member client-1" in advice(row(QueueState.BLOCKED))
    assert "not known" in advice(row(QueueState.BLOCKED, owner=None))
