"""Which committed offsets are ours: what we sent lately, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.state.fence import FORGOTTEN, Fence
from orderly.protocol.state_record import MAX_WINDOW


def committed(fence, *commits):
    """Have commits, as (offset, when it is sent), acknowledged."""
    for offset, at in commits:
        fence.sends(offset)
        fence.note(offset, at)
    return fence


def test_the_offset_that_was_found_is_explained():
    fence = Fence(5)
    assert fence.explains(5)
    assert (fence.written, fence.newest, fence.window) == (5, 5, (5,))


def test_what_was_sent_is_ours_before_its_answer_comes():
    """An answer that was lost must not look like somebody else's progress."""
    fence = Fence(5)
    fence.sends(7)
    assert fence.explains(7)
    assert (fence.written, fence.newest) == (5, 7), "it is not acknowledged"
    fence.note(7, 1.0)
    assert fence.written == 7


def test_any_other_offset_is_somebody_elses():
    fence = committed(Fence(5), (7, 1.0))
    assert not any(fence.explains(stored) for stored in (0, 4, 6, 8))


def test_a_broker_that_forgot_all_explains_itself():
    assert committed(Fence(5), (7, 1.0)).explains(None)


# --- a broker that went back -------------------------------------------------------------------


def test_the_window_is_what_was_sent_lately_and_what_was_stored_when_it_began():
    fence = committed(Fence(5), *((6 + n, 4.0 * n) for n in range(1, 10)))
    assert (fence.written, FORGOTTEN) == (15, 15.0)  # sent at 36: the window begins at 21
    assert fence.window == (11, 12, 13, 14, 15), "11, sent at 20, was stored at 21"
    assert not any(fence.explains(stored) for stored in range(5, 11))


def test_an_offset_that_was_stored_all_the_time_stays():
    """However long nothing was committed: the broker may have written it down only then."""
    fence = committed(Fence(5), (7, 1.0), (9, 1000.0))
    assert fence.window == (7, 9)
    assert committed(fence, (10, 1014.9)).window == (7, 9, 10)
    assert committed(fence, (11, 1015.0)).window == (9, 10, 11)


@pytest.mark.parametrize("commits", [5, 100, MAX_WINDOW - 2])
def test_many_quick_commits_push_nothing_out(commits):
    """Keys that are parked are committed at once, not periodically."""
    fence = committed(Fence(5), (6, 1.0), (7, 20.0))
    committed(fence, *((8 + n, 20.0 + n * 0.01) for n in range(commits)))
    assert fence.explains(6)
    assert not fence.explains(5)


def test_the_window_does_not_age_while_nothing_is_acknowledged():
    fence = committed(Fence(5), (6, 1.0), (7, 10.0))
    for offset in (8, 9, 10):
        fence.sends(offset)
    assert fence.window == (5, 6, 7, 8, 9, 10)
    fence.note(10, 10_000.0)
    assert fence.window == (7, 8, 9, 10)


@pytest.mark.parametrize("retried", [(8, 8, 8), (8, 9, 10)], ids=["the same", "with progress"])
def test_what_was_sent_in_vain_ages_only_from_its_acknowledgement_on(retried):
    """While the broker was away it had the old offset; it may be killed again right afterwards."""
    fence = committed(Fence(5), (6, 1.0), (7, 10.0))
    for offset in retried:
        fence.sends(offset)
    fence.note(retried[-1], 200.0)
    assert fence.explains(7), "stored until 200"
    assert not fence.explains(6)
    committed(fence, (20, 214.9))
    assert fence.explains(7)
    committed(fence, (21, 215.0))
    assert not fence.explains(7)


def test_the_window_is_bounded_and_never_without_what_was_acknowledged_last():
    fence = committed(Fence(0), (1, 1.0))
    for offset in range(2, 2 + MAX_WINDOW):
        fence.sends(offset)
    assert len(fence.window) == MAX_WINDOW
    assert not fence.explains(0)
    assert fence.explains(1)
    assert fence.explains(1 + MAX_WINDOW)


def test_the_same_offset_again_forgets_nothing_in_time():
    fence = committed(Fence(0), *((1, n * 0.01) for n in range(1, 500)))
    assert fence.explains(0)


def test_an_offset_that_goes_back_is_told_too():
    fence = committed(Fence(50), (3, 1.0))
    assert (fence.written, fence.explains(50)) == (3, True)


def test_what_former_owners_sent_is_ours_for_as_long_as_they_may_have_sent_it_now():
    fence = Fence(9, (7, 9, 8), now=100.0)
    assert fence.window == (7, 8, 9)
    assert (fence.written, fence.newest) == (9, 9)
    assert committed(fence, (10, 114.0)).window == (7, 8, 9, 10)
    assert committed(fence, (11, 129.0)).window == (10, 11)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 60), st.floats(0, 20), st.sampled_from(["done", "lost", "answer lost"])
    ),
    max_size=40,
)


@given(STEPS)
def test_no_offset_that_a_killed_broker_may_have_is_somebody_elses(steps):
    """The truth: when the broker had which offset. It is killed after the last acknowledgement."""
    fence, at, acknowledged = Fence(100, now=0.0), 0.0, 0.0
    had = [(0.0, 100)]
    for offset, pause, fate in steps:
        at += pause
        fence.sends(offset)
        if fate != "lost":
            had.append((at, offset))
        if fate == "done":
            fence.note(offset, at)
            acknowledged = at
    began = acknowledged - FORGOTTEN
    stored = [offset for since, offset in had if since <= began][-1:]
    stored += [offset for since, offset in had if since > began]
    assert all(fence.explains(offset) for offset in stored)
