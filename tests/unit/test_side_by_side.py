"""Half of the processes that run tests begin with what waits, the other half with what computes."""

from tests.support.side_by_side import following

QUEUE = (
    "tests/unit/test_log.py",
    "tests/behaviour/test_manual_commit.py",
    "tests/integration/faults/test_broker_dies.py",
    "tests/simulation/test_kernel.py",
)


def test_each_begins_with_its_own_kind_and_the_longest_first():
    assert following(QUEUE, waits=True) == "tests/integration/faults/test_broker_dies.py"
    assert following(QUEUE, waits=False) == "tests/unit/test_log.py"


def test_who_has_none_left_of_its_own_takes_the_others():
    assert following(QUEUE[:1], waits=True) == QUEUE[0]
    assert following(QUEUE[1:3], waits=False) == QUEUE[2]
