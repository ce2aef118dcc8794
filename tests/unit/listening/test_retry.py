"""tenacity's rules are asked as tenacity would ask them, and nothing outlasts the budget."""

import pytest
import tenacity
from hypothesis import given
from hypothesis import strategies as st

from orderly import Fail, Retry
from orderly.listening.handler_call import FailedCall
from orderly.ordering.fingerprint import answered

MARK = answered("Fail")


def raised(error):
    return FailedCall("text", MARK, error=error)


DOWN = raised(OSError("down"))
FAIL = FailedCall("no", MARK, answer=Fail("no"))
FOREIGN = FailedCall("answered NoneType", MARK)
STOP = tenacity.stop_after_attempt(3)
TWO = tenacity.wait_fixed(2)


def ask(retry, failed=DOWN, number=1, first_at=0.0, waited=0.0, now=0.0):
    return retry.next_wait(failed, number, first_at, waited, now)


@pytest.mark.parametrize(
    ("retry", "asked", "seconds"),
    [
        (Retry(stop=STOP, wait=TWO), {"number": 1}, 2),
        (Retry(stop=STOP, wait=TWO), {"number": 2}, 2),
        (Retry(stop=STOP, wait=TWO), {"number": 3}, None),
        (Retry(stop=STOP, wait=TWO), {"number": 9}, None),
        (Retry(stop=tenacity.stop_after_attempt(1)), {}, None),
        (Retry(wait=tenacity.wait_none()), {}, 0),
        (Retry(wait=tenacity.wait_incrementing(1, 1)), {"number": 2}, 2),
        (Retry(stop=tenacity.stop_after_attempt(9), wait=tenacity.wait_exponential(1, max=4)),
         {"number": 8}, 4),
        (Retry(wait=tenacity.wait_chain(TWO, tenacity.wait_fixed(5))), {"number": 2}, 5),
        # by what was raised or answered
        (Retry(wait=TWO, retry=tenacity.retry_if_exception_type(OSError)), {}, 2),
        (Retry(wait=TWO, retry=tenacity.retry_if_exception_type(KeyError)), {}, None),
        (Retry(wait=TWO, retry=tenacity.retry_if_exception_type(OSError)), {"failed": FAIL}, None),
        (Retry(wait=TWO, retry=tenacity.retry_if_result(lambda a: a == Fail("no"))),
         {"failed": FAIL}, 2),
        (Retry(wait=TWO, retry=tenacity.retry_if_result(lambda a: a == Fail("no"))), {}, None),
        (Retry(wait=TWO), {"failed": FAIL}, 2),
        (Retry(wait=TWO), {"failed": FOREIGN}, 2),
        (Retry(wait=TWO, retry=tenacity.retry_never),
         {"failed": raised(tenacity.TryAgain())}, 2),
        # by time
        (Retry(stop=tenacity.stop_after_delay(10), wait=TWO), {"first_at": 5, "now": 14}, 2),
        (Retry(stop=tenacity.stop_after_delay(10), wait=TWO), {"first_at": 5, "now": 15}, None),
        (Retry(stop=tenacity.stop_before_delay(10), wait=TWO), {"first_at": 5, "now": 12.9}, 2),
        (Retry(stop=tenacity.stop_before_delay(10), wait=TWO), {"first_at": 5, "now": 13}, None),
        (Retry(wait=TWO, max_seconds=4), {"first_at": 5, "now": 7}, 2),
        (Retry(wait=TWO, max_seconds=4), {"first_at": 5, "now": 7.1}, None),
        (Retry(stop=lambda state: state.idle_for >= 6, wait=TWO), {"waited": 5}, 2),
        (Retry(stop=lambda state: state.idle_for >= 6, wait=TWO), {"waited": 6}, None),
        (Retry(wait=lambda state: -1), {}, 0),
        (Retry(wait=lambda state: float("nan")), {}, 0),
        (Retry(wait=lambda state: float("inf")), {}, None),
        # by what the error asks for
        (Retry(wait=TWO), {"failed": FailedCall("busy", MARK, asked=7.0)}, 7),
        (Retry(wait=TWO), {"failed": FailedCall("busy", MARK, asked=1.0)}, 2),
        (Retry(wait=TWO), {"failed": FailedCall("busy", MARK, asked=300.0)}, None),
    ],
)  # fmt: skip
def test_cell(retry, asked, seconds):
    assert ask(retry, **asked) == seconds


def test_the_default_waits_double_and_end():
    waits = [ask(Retry(), number=number) for number in (1, 2, 3)]
    assert 0.1 <= waits[0] <= 0.2 <= waits[1] <= 0.3
    assert waits[2] is None


@given(
    st.floats(0, 30),
    st.floats(0, 100),
    st.integers(1, 100),
    st.floats(0, 1e6),
    st.floats(0, 100),
)
def test_no_retry_begins_after_the_budget(budget, wait, number, first_at, passed):
    retry = Retry(stop=tenacity.stop_never, wait=tenacity.wait_fixed(wait), max_seconds=budget)
    seconds = ask(retry, number=number, first_at=first_at, now=first_at + passed)
    assert seconds is None or passed + seconds <= budget + 1e-6
    if seconds is None:
        assert passed + wait >= budget - 1e-6


@given(st.integers(1, 6), st.integers(1, 6))
def test_it_tries_as_often_as_tenacity_itself_would(attempts, waits):
    made = {"stop": tenacity.stop_after_attempt(attempts), "wait": tenacity.wait_fixed(waits)}
    slept, calls = [], []

    @tenacity.retry(**made, sleep=slept.append, retry_error_callback=lambda state: None)
    def failing():
        calls.append(1)
        raise OSError("down")

    failing()
    retry, number, ours = Retry(**made, max_seconds=30), 1, []
    while (wait := ask(retry, number=number)) is not None:
        ours.append(wait)
        number += 1
    assert (number, ours) == (len(calls), slept)
