"""What came into the queues, and when what is stored has to stand for it."""

from orderly.monitoring.skew.inflow import ENOUGH, Basis, Span, measured, stored
from tests.support.scans import queue

A, B = queue(0), queue(1)


def test_what_came_between_two_looks():
    first = {A: Span(0, 100), B: Span(5, 10)}
    second = {A: Span(50, 100 + 3 * ENOUGH), B: Span(5, 10)}
    inflow = measured([A, B], first, second, 5.0)
    assert (inflow.basis, inflow.seconds) == (Basis.MEASURED, 5.0)
    assert inflow.messages == {A: 3 * ENOUGH, B: 0}
    assert (inflow.skew.max_over_mean, inflow.skew.busiest) == (2.0, A)


def test_too_little_to_judge_by_and_what_is_stored_counts():
    first = {A: Span(0, 100), B: Span(5, 15)}
    second = {A: Span(0, 100 + 2 * ENOUGH - 1), B: Span(5, 15)}
    assert measured([A, B], first, second, 5.0) == stored([A, B], second)
    assert stored([A, B], second).messages == {A: 199, B: 10}


def test_a_queue_that_could_not_be_read_is_not_known_and_neither_are_the_figures():
    full = {A: Span(0, 1000)}
    for first, second in (({A: Span(0, 0)}, full), ({A: Span(0, 0), B: Span(0, 0)}, full)):
        inflow = measured([A, B], first, second, 1.0)
        assert inflow.messages == {A: 1000, B: None}
        assert (inflow.total, inflow.skew) == (None, None)
    assert stored([A, B], full).messages[B] is None


def test_a_log_that_became_shorter_is_no_negative_inflow():
    first = {A: Span(0, 900), B: Span(0, 0)}
    second = {A: Span(0, 10), B: Span(0, 1000)}
    assert measured([A, B], first, second, 1.0).messages == {A: 0, B: 1000}
