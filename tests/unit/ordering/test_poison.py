"""A bad message is found by its control group; what hits many is never blamed on a message."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.ordering.poison import (
    CLOSED,
    CircuitState,
    FailureKind,
    Finding,
    PoisonRules,
    VerdictReason,
    Verdicts,
)

RULES = PoisonRules()
SPAN, PATIENCE, WINDOW = RULES.span, RULES.patience, RULES.window


def busy(verdicts, now, keys=10):
    """Other keys succeed."""
    for key in range(keys):
        verdicts.succeeded(f"good {key}", now)


def fails(verdicts, now, key="bad", offset=1, how="oops", kind=FailureKind.ORDINARY):
    return verdicts.failed(key, offset, how, kind, now)


def until_not_retry(
    verdicts, kind=FailureKind.ORDINARY, key="bad", how="oops", good=10, start=0.0, spread=1.0
):
    """Fail on and on as told, while others succeed; returns the verdict, tries and seconds."""
    now, hows = start, itertools.cycle([how] if isinstance(how, str) else how)
    for tries in range(1, 100):
        busy(verdicts, now, good)
        verdict = fails(verdicts, now, key, how=next(hows), kind=kind)
        if verdict.finding is not Finding.RETRY:
            return verdict, tries, now - start
        now += verdict.wait * spread
    return verdict, tries, now - start


@pytest.mark.parametrize("spread", [0.5, 0.75, 1.0])
def test_a_lone_failure_that_stays_the_same_is_poison_after_its_span(spread):
    verdict, tries, seconds = until_not_retry(Verdicts(), spread=spread)
    assert (verdict.finding, verdict.reason) == (Finding.POISON, VerdictReason.SAME_FAILURE)
    assert tries >= RULES.attempts
    assert SPAN <= seconds < SPAN + 10
    assert (verdict.evidence.others, verdict.evidence.control) == (10, RULES.control_keys)


def test_tries_in_quick_succession_count_as_one():
    verdicts = Verdicts()
    for now in (0.0, 0.1, 0.2, 0.3, 0.4, SPAN):
        busy(verdicts, now)
        verdict = fails(verdicts, now)
    assert (verdict.finding, verdict.evidence.attempts) == (Finding.RETRY, 2)


def test_a_success_ends_the_suspicion():
    verdicts = Verdicts()
    for now in range(0, 300, 10):
        busy(verdicts, now)
        assert fails(verdicts, now).finding is Finding.RETRY
        if now % 40 == 0:
            verdicts.succeeded("bad", now)


def test_the_next_message_of_the_key_is_counted_anew():
    verdicts = Verdicts()
    for now in range(0, 300, 10):
        busy(verdicts, now)
        assert fails(verdicts, now, offset=now // 40).finding is Finding.RETRY


def test_a_fatal_class_is_poison_at_once():
    assert until_not_retry(Verdicts(), FailureKind.FATAL)[1:] == (1, 0.0)
    assert (
        fails(Verdicts(), 0.0, kind=FailureKind.FATAL).reason is VerdictReason.FATAL
    )  # nobody else to ask


@pytest.mark.parametrize("kind", [FailureKind.FATAL, FailureKind.ORDINARY])
def test_if_nobody_succeeds_any_more_one_message_is_parked_at_most(kind):
    verdicts, parked = Verdicts(), set()
    busy(verdicts, 0.0, 60)
    for now in range(1, 3_000, 5):
        for key in range(60):
            if key not in parked and verdicts.admit(key, now) == 0.0:
                found = fails(verdicts, now + key / 100, key, kind=kind, how=f"how {key % 2}")
                parked |= {key} if found.finding is Finding.POISON else set()
    assert len(parked) <= 1
    assert verdicts.circuit.state is not CircuitState.CLOSED


def test_a_second_fatal_key_with_the_same_failure_waits_until_it_no_longer_spreads():
    verdicts = Verdicts()
    busy(verdicts, 0.0)
    assert fails(verdicts, 1.0, "a", kind=FailureKind.FATAL).finding is Finding.POISON
    busy(verdicts, 2.0)
    assert fails(verdicts, 3.0, "b", kind=FailureKind.FATAL).reason is VerdictReason.TOO_EARLY
    busy(verdicts, 4.0)
    assert fails(verdicts, 3.0 + SPAN, "b", kind=FailureKind.FATAL).finding is Finding.POISON


def test_many_keys_with_one_failure_are_an_outage_of_that_failure_only():
    verdicts = Verdicts()
    found = []
    for key in range(RULES.shared_keys):
        busy(verdicts, key, 40)
        found.append(fails(verdicts, key, key))
    assert [each.reason for each in found[:-1]] == [VerdictReason.TOO_EARLY] * (
        RULES.shared_keys - 1
    )
    assert (found[-1].finding, found[-1].reason) == (Finding.OUTAGE, VerdictReason.SHARED)
    assert found[-1].circuit.state is CircuitState.OPEN
    assert verdicts.circuit is CLOSED
    assert verdicts.admit("good 1", 4.0) == 0.0
    assert verdicts.admit(0, 4.0) > 0.0


def test_of_a_shared_failure_one_message_probes_and_its_success_frees_all():
    verdicts = Verdicts()
    for key in range(RULES.shared_keys):
        busy(verdicts, key, 40)
        fails(verdicts, key, key)
    assert verdicts.admit(0, 10.0) == 0.0
    assert all(verdicts.admit(key, 10.0) > 0 for key in range(1, RULES.shared_keys))
    verdicts.succeeded(0, 11.0)
    assert all(verdicts.admit(key, 11.0) == 0 for key in range(1, RULES.shared_keys))


def test_a_failure_that_is_no_longer_shared_holds_nobody():
    verdicts = Verdicts()
    for key in range(RULES.shared_keys):
        busy(verdicts, key, 40)
        fails(verdicts, key, key)
    for key in range(1, RULES.shared_keys):
        verdicts.forget(key)
    assert verdicts.admit(0, 4.0) > 0.0
    assert fails(verdicts, 4.1, 0).finding is Finding.RETRY
    assert verdicts.admit(0, 4.2) == 0.0


def test_a_shared_failure_that_comes_and_goes_holds_nobody_but_the_waits_grow():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 40)
    fails(verdicts, 0.0, "other")
    verdicts.succeeded("other", 1.0)
    waits, now = [], 2.0
    for _ in range(5):
        found = [fails(verdicts, now, key) for key in range(RULES.shared_keys)][-1]
        assert (found.reason, found.circuit) == (VerdictReason.SHARED, CLOSED)
        assert verdicts.admit(0, now) == 0.0
        waits.append(found.wait)
        now += found.wait
        busy(verdicts, now, 40)
    assert waits == [1, 2, 4, 8, 16]


def test_if_most_keys_fail_all_wait_for_one_probe_and_its_failures_lengthen_the_wait():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 10)
    now = 1.0
    for key in range(10):
        found = fails(verdicts, now, f"good {key}", how=f"how {key}")
    assert found.reason is VerdictReason.MOST_FAIL
    waits = []
    for _ in range(9):
        wait = verdicts.admit("new", now)
        now += wait
        waits.append(wait)
        assert verdicts.admit("probe", now) == 0.0
        assert verdicts.admit("new", now) > 0.0
        found = fails(verdicts, now, "probe")
        assert found.finding is Finding.OUTAGE
        assert found.wait == 2 * verdicts.admit("new", now)  # another key probes next
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    now += verdicts.admit("new", now)
    assert verdicts.admit("new", now) == 0.0
    verdicts.succeeded("straggler", now)
    assert not verdicts.circuit.closed
    verdicts.succeeded("new", now)
    assert verdicts.circuit.closed
    assert verdicts.admit("good 1", now) == 0.0


def test_after_a_circuit_closed_old_failures_do_not_open_it_again():
    verdicts = Verdicts()
    for key in range(10):
        fails(verdicts, 1.0, key, how=str(key))
    assert not verdicts.circuit.closed
    assert verdicts.admit(0, 10.0) == 0.0
    verdicts.succeeded(0, 10.1)
    assert fails(verdicts, 11.0, 1, how="1").finding is Finding.RETRY
    assert verdicts.circuit.closed


def test_a_probe_that_is_never_heard_of_again_does_not_block_the_circuit():
    verdicts = Verdicts()
    for key in range(10):
        fails(verdicts, 1.0, key)
    assert verdicts.admit("lost", 10.0) == 0.0
    assert verdicts.admit("next", 10.0 + RULES.longest_wait) == 0.0


def opened(keys=10):
    """After the first outage: the circuit of all keys is open."""
    verdicts = Verdicts()
    for key in range(keys):
        fails(verdicts, 1.0, key, how=str(key))
    assert not verdicts.circuit.closed
    return verdicts


def test_a_probe_that_takes_long_closes_the_circuit_though_others_probe_by_then():
    verdicts = opened()
    begun = [10.0 + n * RULES.longest_wait for n in range(4)]
    for number, now in enumerate(begun[:3]):
        assert verdicts.admit(f"slow {number}", now) == 0.0
    assert fails(verdicts, begun[2] + 1, "slow 1").finding is Finding.OUTAGE
    assert verdicts.admit("next", begun[2] + 2) > 0.0, "a failed probe makes all wait"
    verdicts.succeeded("slow 0", begun[2] + 3)
    assert verdicts.circuit.closed


@pytest.mark.parametrize("nothing", [Verdicts.forget, Verdicts.untried])
def test_a_probe_that_comes_to_nothing_gives_its_place_to_the_next(nothing):
    verdicts = opened()
    for key in range(100):
        assert verdicts.admit(key, 10.0) == 0.0
        assert verdicts.admit("another", 10.0) > 0.0
        nothing(verdicts, key)
    verdicts.succeeded(99, 10.0)
    assert not verdicts.circuit.closed, "it gave its place back"


def test_a_probe_that_others_overtook_gives_back_nothing_when_the_next_wait_began():
    verdicts = opened()
    assert verdicts.admit("slow", 10.0) == 0.0
    assert verdicts.admit("next", 10.0 + RULES.longest_wait) == 0.0
    fails(verdicts, 11.0 + RULES.longest_wait, "next")
    wait = verdicts.admit("another", 12.0 + RULES.longest_wait)
    verdicts.forget("slow")
    assert wait == verdicts.admit("another", 12.0 + RULES.longest_wait) > 0.0


def test_a_probe_of_a_shared_failure_that_was_not_tried_gives_its_place_to_the_next():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 40)
    for key in range(5):
        found = fails(verdicts, 1.0, key)
    assert found.reason is VerdictReason.SHARED
    assert verdicts.admit(0, 2.0) == 0.0
    assert verdicts.admit(1, 2.0) > 0.0
    verdicts.untried(0)
    assert verdicts.admit(1, 2.0) == 0.0


def test_a_probe_that_fails_in_another_way_gives_its_place_to_the_next():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 40)
    for key in range(5):
        fails(verdicts, 1.0, key, how="refused")
    assert verdicts.admit(0, 2.0) == 0.0
    assert verdicts.admit(1, 2.0) > 0.0
    fails(verdicts, 3.0, 0, how="timed out")
    assert verdicts.admit(1, 3.0) == 0.0


def test_who_probed_last_waits_twice_as_long_so_that_another_key_probes_next():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 40)
    for key in range(RULES.shared_keys + 2):
        fails(verdicts, 1.0, key, how="refused")
    assert verdicts.admit(0, 2.0) == 0.0
    fails(verdicts, 3.0, 0, how="timed out")  # its probe came to nothing
    others = fails(verdicts, 3.5, 1, how="refused").wait
    assert fails(verdicts, 3.5, 0, how="refused").wait == 2 * others


def test_what_was_tried_in_an_outage_proves_nothing_afterwards():
    verdicts = Verdicts()
    for now in range(0, 300, 10):
        for key in range(10):
            fails(verdicts, now, f"good {key}")
        assert fails(verdicts, now, how="mine").finding is Finding.OUTAGE
    now += 100
    assert verdicts.admit("good 0", now) == 0.0
    busy(verdicts, now)
    assert verdicts.circuit.closed
    assert fails(verdicts, now + 1, how="mine").finding is Finding.RETRY
    verdict, _, seconds = until_not_retry(verdicts, how="mine", start=now + 2)
    assert verdict.finding is Finding.POISON
    assert seconds >= SPAN - 2


def test_a_transient_class_is_never_poison_by_count_alone():
    verdict, tries, seconds = until_not_retry(Verdicts(), FailureKind.TRANSIENT)
    assert (verdict.finding, verdict.reason) == (Finding.POISON, VerdictReason.EXHAUSTED)
    assert tries >= 2 * RULES.attempts
    assert seconds >= PATIENCE
    verdict, tries, _ = until_not_retry(
        Verdicts(), FailureKind.TRANSIENT, good=RULES.control_keys - 1
    )
    assert (verdict.finding, tries) == (Finding.RETRY, 99)


def test_a_failure_that_went_away_for_another_message_is_held_to_be_transient():
    verdicts = Verdicts()
    busy(verdicts, 0.0)
    fails(verdicts, 0.0, "other")
    verdicts.succeeded("other", 1.0)
    verdict, _, seconds = until_not_retry(verdicts, start=2.0)
    assert verdict.reason is VerdictReason.EXHAUSTED
    assert seconds >= PATIENCE


def test_a_failure_that_changes_each_time_is_poison_in_the_end():
    verdict, _, seconds = until_not_retry(Verdicts(), how=["one", "two", "three"])
    assert (verdict.finding, verdict.reason) == (Finding.POISON, VerdictReason.EXHAUSTED)
    assert seconds >= PATIENCE


def test_while_a_failure_spreads_to_other_keys_nobody_is_poisoned_by_it():
    verdicts, joins = Verdicts(), 50
    for now in range(0, joins + int(SPAN), 10):
        busy(verdicts, now, 20)
        assert fails(verdicts, now, "first").reason is VerdictReason.TOO_EARLY
        if now >= joins:
            assert fails(verdicts, now, "second").reason is VerdictReason.TOO_EARLY
    busy(verdicts, joins + SPAN, 20)
    assert fails(verdicts, joins + SPAN, "first").finding is Finding.POISON


def test_each_poison_makes_the_next_one_with_that_failure_take_longer():
    verdicts, took, start = Verdicts(), [], 0.0
    for key in range(2):
        verdict, _, seconds = until_not_retry(verdicts, key=key, good=40, start=start)
        assert verdict.reason is VerdictReason.SAME_FAILURE
        verdicts.forget(key)
        took.append(seconds)
        start += seconds + 1
    assert SPAN <= took[0] < 2 * SPAN
    assert 4 * SPAN <= took[1] < 6 * SPAN


def test_without_other_keys_tries_and_spacing_decide():
    verdict, _, seconds = until_not_retry(Verdicts(), good=0)
    assert (verdict.finding, verdict.evidence.others) == (Finding.POISON, 0)
    assert seconds >= SPAN


def test_other_keys_that_were_there_must_have_succeeded_since():
    verdicts = Verdicts()
    busy(verdicts, 0.0)
    for now in range(1, int(WINDOW), 10):
        verdict = fails(verdicts, now)
    assert (verdict.finding, verdict.reason) == (Finding.RETRY, VerdictReason.NO_CONTROL)
    busy(verdicts, now)
    assert fails(verdicts, now).finding is Finding.POISON


def test_each_poison_must_be_paid_for_by_others_success():
    verdicts = Verdicts()
    busy(verdicts, 0.0)
    assert fails(verdicts, 1.0, "a", how="one", kind=FailureKind.FATAL).finding is Finding.POISON
    assert (
        fails(verdicts, 2.0, "b", how="two", kind=FailureKind.FATAL).reason is VerdictReason.UNPAID
    )
    busy(verdicts, 3.0, RULES.control_keys - 1)
    assert (
        fails(verdicts, 4.0, "b", how="two", kind=FailureKind.FATAL).reason is VerdictReason.UNPAID
    )
    busy(verdicts, 5.0, RULES.control_keys)
    assert fails(verdicts, 6.0, "b", how="two", kind=FailureKind.FATAL).finding is Finding.POISON


def test_without_other_keys_a_poison_is_paid_for_by_the_keys_own_success():
    verdicts = Verdicts()
    assert fails(verdicts, 1.0, offset=1, kind=FailureKind.FATAL).reason is VerdictReason.FATAL
    assert fails(verdicts, 2.0, offset=2, kind=FailureKind.FATAL).reason is VerdictReason.UNPAID
    verdicts.succeeded("bad", 3.0)
    assert fails(verdicts, 4.0, offset=4, kind=FailureKind.FATAL).reason is VerdictReason.FATAL
    assert fails(verdicts, 5.0, offset=5, kind=FailureKind.FATAL).reason is VerdictReason.UNPAID


def test_the_budget_of_a_group_ends_and_is_renewed():
    verdicts = Verdicts(PoisonRules(most_poisoned=3))
    reasons = []
    for key in range(4):
        busy(verdicts, key)
        reasons.append(fails(verdicts, key, key, how=str(key), kind=FailureKind.FATAL).reason)
    assert reasons == [VerdictReason.FATAL] * 3 + [VerdictReason.BUDGET]
    later = 10 + RULES.memory
    busy(verdicts, later)
    assert fails(verdicts, later, 3, how="3", kind=FailureKind.FATAL).reason is VerdictReason.FATAL


def test_a_poisoned_message_that_comes_again_is_poison_again_and_counts_once():
    verdicts = Verdicts(PoisonRules(most_poisoned=1))
    busy(verdicts, 0.0)
    for now in range(1, 10):
        assert fails(verdicts, now, kind=FailureKind.FATAL).finding is Finding.POISON


def test_a_forgotten_key_is_no_longer_evidence():
    verdicts = Verdicts()
    for key in range(10):
        fails(verdicts, 1.0, key)
        verdicts.forget(key)
    assert verdicts.size <= 2  # circuits
    assert fails(verdicts, 2.0, 1).evidence.failing == 0


def test_a_clock_that_goes_back_changes_nothing():
    one, other = Verdicts(), Verdicts()
    for now in range(0, 200, 10):
        busy(one, now)
        busy(other, now)
        expected = fails(one, now)
        other.succeeded("good 1", now - 50)
        assert fails(other, now - 100) == expected


KEYS = st.integers(0, 9)
HOWS = st.sampled_from(["a", "b", "c"])
KINDS = st.sampled_from(FailureKind)
STEPS = st.lists(
    st.tuples(st.floats(0, 90), KEYS, st.none() | st.tuples(HOWS, KINDS)), max_size=150
)


def played(verdicts, steps):
    now = 0.0
    for seconds, key, failure in steps:
        now += seconds
        if failure is None:
            verdicts.succeeded(key, now)
        else:
            yield now, key, failure, verdicts.failed(key, 1, failure[0], failure[1], now)


@given(STEPS)
def test_the_same_tries_give_the_same_verdicts(steps):
    assert list(played(Verdicts(), steps)) == list(played(Verdicts(), steps))


@given(STEPS)
def test_never_poison_for_a_failure_that_most_other_keys_share(steps):
    last, now = {}, 0.0
    verdicts = Verdicts()
    for seconds, key, failure in steps:
        now += seconds
        last[key] = (now, failure and failure[0])
        if failure is None:
            verdicts.succeeded(key, now)
            continue
        found = verdicts.failed(key, 1, failure[0], failure[1], now)
        others = [how for k, (at, how) in last.items() if k != key and at >= now - WINDOW]
        if others and 2 * others.count(failure[0]) > len(others):
            assert found.finding is not Finding.POISON


@given(STEPS)
def test_each_verdict_has_its_evidence_and_a_wait_in_bounds(steps):
    for _, _, (_, kind), found in played(Verdicts(), steps):
        evidence = found.evidence
        if found.finding is Finding.POISON:
            assert found.wait == 0.0
            assert kind is FailureKind.FATAL or evidence.attempts >= RULES.attempts
            assert kind is FailureKind.FATAL or evidence.seconds >= SPAN
        else:
            assert 0.0 < found.wait <= 2 * RULES.longest_wait
        if evidence.others >= RULES.control_keys and found.finding is Finding.POISON:
            assert evidence.control == RULES.control_keys or kind is FailureKind.FATAL


@given(st.integers(2, 99), st.floats(0, 2 * PATIENCE))
def test_another_try_later_never_takes_a_proof_back(tries, later):
    """Monotone: once a lone message is poison, it is at any later failure while others succeed."""
    verdicts, poisoned, now = Verdicts(), False, 0.0
    for number in range(tries):
        now = number * 7.0
        busy(verdicts, now)
        finding = fails(verdicts, now).finding
        assert finding is Finding.POISON or not poisoned
        poisoned |= finding is Finding.POISON
    busy(verdicts, now + later)
    finding = fails(verdicts, now + later).finding
    forgotten = later > 2 * WINDOW
    assert finding is Finding.POISON or not poisoned or forgotten


def test_memory_is_bounded_for_any_number_of_keys_and_failures():
    verdicts = Verdicts()
    for number in range(6_000):
        if number % 3:
            fails(verdicts, number / 100, number, how=str(number), kind=FailureKind.FATAL)
        else:
            verdicts.succeeded(number, number / 100)
        if number % 5 == 0:
            verdicts.succeeded(number - 1, number / 100)
    assert verdicts.size < 2_000


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 1}, {"attempts": 2.0}, {"control_keys": 0}, {"shared_keys": 1},
        {"most_poisoned": 0}, {"span": 0}, {"span": 1000}, {"outage_ratio": 0},
        {"outage_ratio": 1.1}, {"window": 10}, {"memory": 10}, {"first_wait": 61},
        {"spacing": 2}, {"spacing": float("nan")}, {"patience": "900"}, {"longest_wait": True},
    ],
    ids=str,
)  # fmt: skip
def test_contradicting_numbers_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        PoisonRules(**wrong)


def test_values_do_not_change():
    for value in (RULES, CLOSED, fails(Verdicts(), 0.0)):
        name = dataclasses.fields(value)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 1)
