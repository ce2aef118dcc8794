"""Calls that run too long: told of once and at each doubling, and what follows for each kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.consumer.hanging import ends_process, hang_stage, interval


def test_stages():
    assert [hang_stage(s, 5.0) for s in (0, 4.9, 5, 9.9, 10, 19, 20, 40)] == [
        0,
        0,
        1,
        1,
        2,
        2,
        3,
        4,
    ]


@given(st.floats(0.01, 1e6), st.floats(0.01, 1e4))
def test_a_stage_is_reached_at_its_doubling_and_not_before(seconds, timeout):
    reached = hang_stage(seconds, timeout)
    assert reached == 0 or seconds >= timeout * 2 ** (reached - 1)
    assert seconds < timeout * 2**reached * (1 + 1e-9)


@pytest.mark.parametrize(
    ("on_hang", "stoppable", "again", "ends"),
    [
        ("block", False, True, False),
        ("block", True, True, False),
        ("exit", False, False, True),
        ("exit", True, False, False),
        ("exit", True, True, True),
    ],
)
def test_what_ends_the_process(on_hang, stoppable, again, ends):
    assert ends_process(on_hang, stoppable=stoppable, again=again) is ends


def test_the_interval_follows_the_timeout_within_bounds():
    assert [interval(t) for t in (0.1, 4.0, 600.0)] == [0.25, 1.0, 5.0]
