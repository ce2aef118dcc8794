"""The check of the order: repeats are none of its business, inversions are."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.bench.order import OrderCheck


def checked(*numbers):
    check = OrderCheck()
    for number in numbers:
        check.came("k", number)
    return check.inversions, check.repeats, check.missing


def test_in_order():
    assert checked(0, 1, 2) == (0, 0, 0)


def test_a_repeat_is_no_inversion():
    assert checked(0, 1, 2, 1, 2, 3) == (0, 2, 0)


def test_one_that_comes_behind_a_later_one_is():
    assert checked(0, 2, 1, 3) == (1, 0, 0)
    assert checked(1, 0) == (1, 0, 0)


def test_one_that_never_comes_is_missing():
    assert checked(0, 3) == (0, 0, 2)


def test_keys_do_not_meddle():
    check = OrderCheck()
    for key, number in ("a", 0), ("b", 0), ("b", 1), ("a", 1):
        check.came(key, number)
    assert (check.inversions, check.repeats, check.missing, check.keys) == (0, 0, 0, 2)


def test_messages_without_a_number_go_by_their_offsets():
    check = OrderCheck()
    for offset in 3, 9, 8, 10:
        check.came_unnumbered(("q", "k"), offset)
    assert (check.inversions, check.keys) == (1, 1)


@given(st.permutations(range(8)))
def test_any_order_is_judged_as_by_its_definition(numbers):
    """Inverted is what comes when a later one has been there."""
    wrong = sum(any(later > n for later in numbers[:at]) for at, n in enumerate(numbers))
    assert checked(*numbers) == (wrong, 0, 0)
