"""When a queue may be pulled: what is cached, and how far it is consumed ahead."""

import pytest

from orderly.ordering import window as window_module
from orderly.ordering.lanes import Lanes
from orderly.ordering.results import Disposition
from orderly.ordering.window import Window
from tests.support.messages import message

SPAN = 50


def window_of(cached, *, max_span=SPAN, taken=0):
    lanes = Lanes(bounded=False)
    lanes.limit(4, 10_000)
    lanes.put([message(offset) for offset in range(cached)], ["a"] * cached)
    if taken:
        lanes.take(taken, 1.0)
    return Window(lanes, max_span)


@pytest.mark.parametrize(
    ("cached", "span", "full"), [(4, SPAN, False), (5, SPAN, True), (4, SPAN + 1, True)]
)
def test_it_is_full_beyond_either_limit_and_remembers_it(cached, span, full):
    window = window_of(cached)
    assert window.full(span) is full
    assert window.throttled is full
    assert window.at_span_end(span) is (span > SPAN)


def test_by_queue_nothing_is_finished_ahead_so_no_span_counts():
    assert not window_of(4, max_span=None).full(10**9)


def test_messages_of_which_only_offsets_are_kept_are_bounded(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_DEFERRED", 7)
    window = window_of(1)
    window._messages.deferred = 7
    assert not window.full(1)
    window._messages.deferred = 8
    assert window.full(1)


def test_keys_with_something_unfinished_are_bounded(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_KEYS", 4)
    lanes = Lanes(bounded=True)
    window = Window(lanes, SPAN)
    for offset in range(5):
        assert not window.full(1)
        lanes.put([message(offset)], [offset])
    assert window.full(1)
    for _ in range(3):
        lanes.finish(lanes.take(1, 1.0), Disposition.COMMIT)
    assert window.reopens(1)


@pytest.mark.parametrize(
    ("cached", "taken", "span", "reopens"),
    [
        (2, 0, SPAN // 2, True),  # all of it moves: at half
        (3, 0, SPAN // 2, False),
        (2, 0, SPAN // 2 + 1, False),
        (4, 4, SPAN, True),  # nothing of it moves: at the limit
        (5, 5, SPAN, False),
        (2, 1, 33, True),  # half of it: at two thirds
        (2, 1, 34, False),
    ],
)
def test_it_reopens_the_earlier_the_less_of_it_can_move(cached, taken, span, reopens):
    window = window_of(cached, taken=taken)
    assert not window.reopens(span), "it was not full"
    window.throttled = True
    assert window.reopens(span) is reopens


@pytest.mark.parametrize(("cached", "taken"), [(5, 5), (5, 4), (4, 4)])
def test_it_is_not_stuck_while_something_runs_or_comes(cached, taken):
    assert not window_of(cached, taken=taken).stuck
