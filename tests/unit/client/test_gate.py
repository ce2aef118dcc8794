"""The gate before one address, driven by any history of sends, answers and failures."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from orderly.client.gate import Gate, Limits

STEPS = st.lists(
    st.tuples(st.sampled_from(["send", "answer", "fail", "begin"]), st.floats(0.0, 0.3)),
    max_size=80,
)


def drive(limits, steps):
    """Do what is allowed of `steps`; yields (gate, step, flying, now, sent) after each."""
    gate, flying, now = Gate(limits), 0, 0.0
    for step, pause in steps:
        now += pause
        sent = step == "send" and gate.wait(now) == 0.0
        if sent:
            gate.sent(now)
            flying += 1
        elif step in ("answer", "fail") and flying:
            flying -= 1
            gate.answered() if step == "answer" else gate.failed()
        elif step == "begin":
            gate.begin()
        yield gate, step, flying, now, sent


@given(STEPS, st.integers(1, 5))
def test_never_more_than_the_cap_is_in_flight(steps, cap):
    for _, _, flying, _, _ in drive(Limits(in_flight=cap), steps):
        assert flying <= cap


@given(STEPS, st.floats(1.0, 50.0))
def test_two_sends_are_never_closer_than_the_pace(steps, per_second):
    limits = Limits(in_flight=1000, per_second=per_second)
    times = [now for _, _, _, now, sent in drive(limits, steps) if sent]
    for before, after in itertools.pairwise(times):
        assert after - before >= 1.0 / per_second - 1e-9


@given(STEPS, st.integers(1, 4))
def test_after_so_many_failures_in_a_row_nothing_goes_until_the_next_round(steps, most):
    failures, rounds_failures = 0, 0
    for gate, step, _, now, sent in drive(Limits(give_up_after=most), steps):
        if sent:
            assert failures < most or rounds_failures == 0
        if step == "begin":
            rounds_failures = 0
        failures, rounds_failures = _count(step, gate, failures, rounds_failures)
        if gate.shut:
            assert gate.wait(now) == math.inf


def _count(step, gate, failures, rounds_failures):
    if step == "fail" and gate._failures > failures:
        return failures + 1, rounds_failures + 1
    if gate._failures == 0:
        return 0, 0
    return failures, rounds_failures


def given_up(limits):
    gate = Gate(limits)
    for _ in range(limits.give_up_after):
        gate.sent(0.0)
        gate.failed()
    assert gate.shut
    return gate


def test_the_next_round_sends_one_probe_and_no_more_until_it_is_answered():
    gate = given_up(Limits())
    gate.begin()
    assert gate.wait(1.0) == 0.0
    gate.sent(1.0)
    assert gate.wait(1.0) == math.inf
    gate.answered()
    assert gate.wait(1.0) == 0.0
    assert not gate.shut


def test_a_probe_that_fails_ends_the_round():
    gate = given_up(Limits())
    gate.begin()
    gate.sent(1.0)
    gate.failed()
    assert gate.shut
    gate.begin()
    assert not gate.shut


def test_a_success_in_between_starts_the_count_again():
    gate = Gate(Limits(give_up_after=2))
    for step in (gate.failed, gate.answered, gate.failed):
        gate.sent(0.0)
        step()
    assert not gate.shut


def test_an_address_that_cannot_be_reached_is_given_up_at_once():
    gate = Gate(Limits())
    gate.give_up()
    assert gate.shut


def test_a_healthy_address_is_not_slowed_by_a_new_round():
    gate = Gate(Limits(in_flight=2))
    gate.begin()
    gate.sent(0.0)
    assert gate.wait(0.0) == 0.0
