from hypothesis import given
from hypothesis import strategies as st

from orderly.spark.reading.ahead import Ahead


class Asked:
    """What a broker was asked for and has not answered."""

    def __init__(self, ahead):
        self.ahead = ahead
        self.waiting = {}
        self.offsets = []

    def send(self):
        while (pull := self.ahead.next_pull()) is not None:
            start, count = pull
            self.waiting[start] = count
            self.offsets += range(start, start + count)


@given(st.data(), st.integers(0, 200), st.integers(1, 40), st.integers(1, 8))
def test_whatever_the_broker_gives_every_offset_comes_once_and_in_order(data, end, batch, depth):
    ahead = Ahead(0, end, batch=batch, depth=depth)
    asked, taken = Asked(ahead), []
    while ahead.position < end:
        asked.send()
        assert 0 < len(asked.waiting) <= depth
        start = data.draw(st.sampled_from(sorted(asked.waiting)))
        got = data.draw(st.integers(1, asked.waiting.pop(start)))
        ahead.answered(start, start + got, (start, start + got))
        for begin, upto, answer in ahead.take():
            assert answer == (begin, upto)
            taken += range(begin, upto)
    assert taken == list(range(end))
    assert ahead.next_pull() is None


@given(st.integers(1, 100), st.integers(2, 8))
def test_what_a_short_answer_leaves_out_is_all_that_is_asked_for_again(cap, depth):
    ahead = Ahead(0, 1000, batch=100, depth=depth)
    asked = Asked(ahead)
    answered = []
    while ahead.position < 1000:
        asked.send()
        start = max(asked.waiting)  # the last one first
        got = min(asked.waiting.pop(start), cap)
        answered += range(start, start + got)
        ahead.answered(start, start + got, b"")
        list(ahead.take())
    assert sorted(answered) == list(range(1000))


def test_the_brokers_limit_is_learnt_and_tried_again_later():
    ahead = Ahead(0, 10_000, batch=512, depth=1)
    counts = []
    for _ in range(70):
        start, count = ahead.next_pull()
        counts.append(count)
        ahead.answered(start, start + min(count, 32), b"")
        list(ahead.take())
    assert counts[:2] == [512, 32]
    assert counts.count(32) >= 60
    assert 1 <= counts.count(64) <= 3


def test_after_an_answer_that_was_too_large_half_as_many_are_asked_for():
    ahead = Ahead(0, 100, batch=8, depth=2)
    assert [ahead.next_pull(), ahead.next_pull()] == [(0, 8), (8, 8)]
    ahead.too_much(0, 8)
    assert ahead.next_pull() == (0, 4)
    ahead.too_much(0, 4)
    ahead.too_much(8, 16)
    assert [ahead.next_pull(), ahead.next_pull()] == [(0, 4), (4, 4)]
    ahead.too_much(0, 4)
    assert ahead.next_pull() == (0, 2)


def test_an_answer_that_goes_beyond_what_was_asked_covers_what_comes_next():
    ahead = Ahead(0, 100, batch=10, depth=2)
    assert [ahead.next_pull(), ahead.next_pull()] == [(0, 10), (10, 10)]
    ahead.answered(10, 20, "second")
    ahead.answered(0, 15, "first")
    assert list(ahead.take()) == [(0, 15, "first"), (15, 20, "second")]


def test_after_a_failure_what_was_not_answered_is_asked_for_again():
    ahead = Ahead(0, 30, batch=10, depth=3)
    for _ in range(3):
        ahead.next_pull()
    ahead.answered(10, 20, "kept")
    ahead.forget_unanswered()
    assert [ahead.next_pull(), ahead.next_pull(), ahead.next_pull()] == [(0, 10), (20, 10), None]


def test_an_answer_to_a_pull_that_was_given_up_is_passed_over():
    ahead = Ahead(0, 30, batch=10, depth=3)
    ahead.next_pull()
    ahead.go_to(20)
    ahead.answered(0, 10, "late")
    assert list(ahead.take()) == []
    assert ahead.next_pull() == (20, 10)


def test_few_answers_wait_for_an_earlier_one():
    ahead = Ahead(0, 10_000, batch=10, depth=2)
    asked = Asked(ahead)
    asked.send()
    while len(asked.waiting) > 1:
        start = max(asked.waiting)
        ahead.answered(start, start + asked.waiting.pop(start), b"")
        asked.send()
    assert max(asked.offsets) < 2 * 2 * 10
