"""Which committed offsets are ours: what we sent, and nothing else."""

from orderly.ordering.state.fence import Fence


def test_the_offset_that_was_found_is_explained():
    fence = Fence(5)
    assert fence.explains(5)
    assert fence.written == 5


def test_what_was_sent_is_ours_before_its_answer_comes():
    """An answer that was lost must not look like somebody else's progress."""
    fence = Fence(5)
    fence.sends(7)
    assert fence.explains(7)
    assert fence.written == 5, "it is not acknowledged"
    fence.note(7)
    assert fence.written == 7


def test_any_other_offset_is_somebody_elses():
    fence = Fence(5)
    fence.note(7)
    assert not any(fence.explains(stored) for stored in (0, 4, 6, 8))


def test_a_broker_that_went_back_or_forgot_explains_itself():
    fence = Fence(5, remembered=4)
    for offset in range(6, 60):
        fence.note(offset)
    assert all(fence.explains(stored) for stored in range(56, 60))
    assert fence.explains(None)


def test_an_offset_of_ours_that_no_broker_can_have_forgotten_was_set_by_somebody():
    fence = Fence(5, remembered=4)
    for offset in range(6, 60):
        fence.note(offset)
    assert not any(fence.explains(stored) for stored in range(5, 56))


def test_the_memory_ends_but_never_with_what_was_acknowledged_last():
    fence = Fence(0)
    fence.note(1)
    for offset in range(2, 500):
        fence.sends(offset)
    assert not fence.explains(0)
    assert fence.explains(1)
    assert fence.explains(499)


def test_the_same_offset_again_forgets_nothing():
    fence = Fence(0)
    for _ in range(500):
        fence.note(1)
    assert fence.explains(0)


def test_an_offset_that_goes_back_is_told_too():
    fence = Fence(50)
    fence.note(3)
    assert (fence.written, fence.explains(50)) == (3, True)
