import pytest

from orderly.model import MessageQueue
from orderly.monitoring.backlog.snapshot import QueueSkew
from orderly.monitoring.skew.what_if import Outcome
from orderly.spark.jobs.skew.recommending import recommend

QUEUE = MessageQueue("orders", "a", 0)


def outcome(queues, over_mean):
    skew = QueueSkew(over_mean, over_mean / queues, 0.0, 0.0, QUEUE)
    return Outcome("hash_mod", queues, skew, 0.0, lambda _: QUEUE)


def test_what_is_even_stays():
    found = recommend(outcome(8, 1.5), [outcome(16, 1.0)], 0.01)
    assert (found.queues, found.change) == (8, False)
    assert "even enough" in found.why


def test_the_smallest_number_that_is_near_the_bound_is_taken():
    tried = [outcome(8, 2.0), outcome(12, 1.3), outcome(16, 1.05), outcome(32, 1.0)]
    found = recommend(tried[0], tried, 0.01)
    assert (found.queues, found.change) == (16, True)
    assert "6.6 %" in found.why
    assert "instead of 25 %" in found.why


def test_fewer_queues_than_now_are_never_recommended():
    found = recommend(outcome(8, 2.0), [outcome(2, 1.0), outcome(4, 1.0)], 0.01)
    assert (found.queues, found.change) == (8, False)


def test_a_hot_key_is_why_more_queues_do_not_help():
    tried = [outcome(8, 4.0), outcome(16, 8.0), outcome(64, 30.0)]
    found = recommend(tried[0], tried, 0.45)
    assert not found.change
    assert "one key alone has 45 %" in found.why


def test_beside_a_hot_key_the_bound_is_what_even_means():
    tried = [outcome(8, 3.2), outcome(16, 4.1), outcome(32, 8.0)]
    found = recommend(tried[0], tried, 0.25)
    assert (found.queues, found.change) == (16, True)


def test_if_no_number_is_near_the_bound_the_best_is_taken():
    found = recommend(outcome(8, 3.0), [outcome(12, 3.0), outcome(16, 3.2)], 0.01)
    assert found.queues == 16
    assert "the best of the numbers tried" in found.why


@pytest.mark.parametrize("share", [0.9, 0.5])
def test_a_gain_of_less_than_a_fifth_is_not_worth_a_move(share):
    found = recommend(outcome(4, 4 * share), [outcome(8, 8 * share * 0.81)], share / 2)
    assert not found.change
