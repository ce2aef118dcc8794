"""A bad message is found by its control group; what hits many is never blamed on a message."""

import dataclasses
import heapq
import itertools
import random

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
    assert (verdicts.failing_since is None) == (kind is FailureKind.FATAL)


def test_a_second_fatal_key_with_the_same_failure_waits_until_it_no_longer_spreads():
    verdicts = Verdicts()
    busy(verdicts, 0.0)
    assert fails(verdicts, 1.0, "a", kind=FailureKind.FATAL).finding is Finding.POISON
    busy(verdicts, 2.0)
    assert fails(verdicts, 3.0, "b", kind=FailureKind.FATAL).reason is VerdictReason.TOO_EARLY
    busy(verdicts, 4.0)
    assert fails(verdicts, 3.0 + SPAN, "b", kind=FailureKind.FATAL).finding is Finding.POISON


def test_where_a_fatal_class_parks_the_users_word_counts_though_others_fail_so_too():
    verdicts, found = Verdicts(), []
    for key in range(40):
        busy(verdicts, key / 10)
        found.append(
            verdicts.failed(key, 1, "oops", FailureKind.FATAL, key / 10 + 0.05, parks=True)
        )
    assert {each.reason for each in found} == {VerdictReason.FATAL}
    assert {each.finding for each in found} == {Finding.POISON}
    assert until_not_retry(verdicts, how="other", start=5.0)[0].finding is Finding.POISON


def test_where_a_fatal_class_parks_but_nobody_succeeds_one_message_is_parked():
    verdicts, parked = Verdicts(), set()
    busy(verdicts, 0.0, 60)
    for now in range(1, int(WINDOW), 5):
        for key in set(range(60)) - parked:
            at = now + key / 100
            found = verdicts.failed(key, 1, "oops", FailureKind.FATAL, at, parks=True)
            assert found.finding is Finding.POISON or found.reason is VerdictReason.UNPAID
            parked |= {key} if found.finding is Finding.POISON else set()
    assert len(parked) == 1


def test_fatal_failures_are_no_evidence_of_an_outage_and_each_waits_alone():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 2)
    for now in range(1, 200):
        for key in range(20):
            fails(verdicts, now, key, kind=FailureKind.FATAL)
        assert verdicts.open_circuits == frozenset()
        assert verdicts.admit(now % 20, now) == verdicts.admit("new", now) == 0.0
    assert verdicts.failing_since is None
    waits = [fails(verdicts, now + n, 3, kind=FailureKind.FATAL).wait for n in range(0, 400, 100)]
    assert waits == [RULES.longest_wait] * 4
    assert fails(verdicts, now + 400, "bad", how="other").evidence.failing == 0


def test_a_fatal_class_that_many_share_waits_for_the_patience_and_then_counts():
    verdicts, parked = Verdicts(), []
    for now in range(0, int(PATIENCE) + 100, 10):
        busy(verdicts, now)
        for key in range(10):
            if key not in parked:
                busy(verdicts, now + 0.5 + key / 100)
                found = fails(verdicts, now + 0.5 + key / 100, key, kind=FailureKind.FATAL)
                parked += [key] if found.finding is Finding.POISON else []
        assert len(parked) == 1 or now >= PATIENCE
    assert len(parked) == 10


def test_what_cannot_be_read_is_poison_at_once_and_opens_nothing():
    verdicts = opened()
    found = [verdicts.unreadable(("bad", key), 1, 2.0) for key in range(RULES.most_poisoned)]
    assert {(each.finding, each.reason) for each in found} == {
        (Finding.POISON, VerdictReason.FATAL)
    }
    assert fails(verdicts, 3.0, "another").evidence.others == 10


def test_a_wrong_decoder_condemns_a_few_and_then_each_message_waits_alone():
    verdicts = Verdicts(PoisonRules(most_poisoned=3))
    found = [verdicts.unreadable(key, 1, 1.0).finding for key in range(10)]
    assert found == [Finding.POISON] * 3 + [Finding.RETRY] * 7
    again = [verdicts.unreadable(9, tries, 1.0 + tries) for tries in range(2, 9)]
    assert {each.reason for each in again} == {VerdictReason.BUDGET}
    assert [each.wait for each in again] == [2, 4, 8, 16, 32, 60, 60]
    assert verdicts.admit(9, 10.0) == 0.0, "nobody holds it"


def test_each_success_makes_room_for_one_that_cannot_be_read_up_to_a_hundred():
    verdicts = Verdicts(PoisonRules(most_poisoned=3))
    for key in range(10):
        verdicts.unreadable(key, 1, 1.0)
    busy(verdicts, 2.0, 4)
    found = [verdicts.unreadable(key, 2, 3.0).finding for key in range(10)]
    assert found.count(Finding.POISON) == 4
    busy(verdicts, 4.0, 1_000)
    found = [verdicts.unreadable(key, 3, 5.0).finding for key in range(200)]
    assert found.count(Finding.POISON) == 103


def test_time_makes_room_for_what_cannot_be_read_so_that_no_queue_stands_for_ever():
    verdicts = Verdicts(PoisonRules(most_poisoned=3))
    found = [verdicts.unreadable(0, 1, now).finding for now in range(3 * int(WINDOW) + 20)]
    assert found.count(Finding.POISON) == 3 + 3
    found = [verdicts.unreadable(0, 1, 1e6).finding for _ in range(10)]
    assert found.count(Finding.POISON) == 3


def test_what_cannot_be_read_and_stays_where_it_is_needs_no_room():
    verdicts = Verdicts(PoisonRules(most_poisoned=1))
    found = [verdicts.unreadable(0, 1, 1.0, stays=True).finding for _ in range(10)]
    assert found == [Finding.POISON] * 10
    assert verdicts.unreadable(1, 1, 1.0).finding is Finding.POISON


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
    assert verdicts.failing_since is None
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


def opened(keys=10):
    """After the first failures of an outage, each of which looks different."""
    verdicts = Verdicts()
    for key in range(keys):
        fails(verdicts, 1.0, key, how=str(key))
    assert verdicts.failing_since == 1.0
    return verdicts


def test_if_most_keys_fail_each_waits_alone_or_with_those_that_fail_alike():
    verdicts = Verdicts()
    busy(verdicts, 0.0, 10)
    for key in range(10):
        found = fails(verdicts, 1.0, f"good {key}", how=f"how {key % 2}")
    assert (found.finding, found.reason) == (Finding.OUTAGE, VerdictReason.MOST_FAIL)
    assert verdicts.admit("good 0", 2.0) == 0.0, "one of each probes"
    assert verdicts.admit("good 1", 2.0) == 0.0
    assert verdicts.admit("good 2", 2.0) > 0.0
    verdicts.succeeded("good 0", 3.0)
    assert verdicts.admit("good 2", 3.0) == 0.0, "its failure is gone"
    assert verdicts.admit("good 3", 3.0) > 0.0


def test_a_key_that_never_failed_is_tried_in_an_outage_of_all_others():
    verdicts = opened()
    assert [verdicts.admit(f"new {key}", 2.0) for key in range(50)] == [0.0] * 50


def test_an_outage_costs_keys_that_never_failed_fewer_and_fewer_tries():
    verdicts, tried = opened(), []
    for now in range(2, 602):
        asked = [verdicts.admit((now, key), now + key / 100) for key in range(100)]
        tried.append(asked.count(0.0))
        assert max(asked) <= RULES.longest_wait
        for key in range(100):
            if asked[key] == 0.0:
                fails(verdicts, now + key / 100, (now, key))
    assert tried[0] == 100
    assert sum(tried[100:]) <= 500 + 1
    assert sum(tried) < 6_000
    assert tried[-1] == 1, "so that it is seen when the outage is over"


def test_one_success_ends_an_outage_for_all_keys_that_never_failed():
    verdicts = opened()
    for key in range(2_000):
        verdicts.admit(key, 300.0)
    assert None in verdicts.open_circuits
    verdicts.succeeded("any", 301.0)
    assert verdicts.failing_since is None
    assert None not in verdicts.open_circuits
    assert [verdicts.admit(key, 301.0) for key in range(2_000, 4_000)] == [0.0] * 2_000


def test_what_holds_nobody_back_is_not_told():
    assert None not in opened().open_circuits


def test_after_an_outage_old_failures_do_not_begin_it_again():
    verdicts = opened()
    assert verdicts.admit(0, 10.0) == 0.0
    verdicts.succeeded(0, 10.1)
    assert fails(verdicts, 11.0, 1, how="1").finding is Finding.RETRY
    assert verdicts.failing_since is None


@pytest.mark.parametrize("nothing", [Verdicts.untried, lambda v, key: v.unreadable(key, 1, 0.0)])
def test_a_key_that_says_nothing_of_the_others_leaves_its_place_to_the_next(nothing):
    verdicts = opened()
    assert verdicts.admit("first", 300.0) == 0.0
    assert verdicts.admit("second", 300.0) > 0.0
    nothing(verdicts, "first")
    assert verdicts.admit("third", 300.0) == 0.0


@pytest.mark.parametrize("bad", [40, 600, 3_000])
@pytest.mark.parametrize("first", ["the bad ones", "mixed"])
def test_a_storm_of_bad_keys_costs_the_others_nothing(bad, first):
    """Twenty threads, a call a hundredth of a second; nobody knows which of the keys are bad."""
    keys = [("bad", n) for n in range(bad)] + [("good", n) for n in range(200)]
    if first == "mixed":
        random.Random(bad).shuffle(keys)
    asked = [(0.0, n, key) for n, key in enumerate(keys)]
    verdicts, now, done, tries = Verdicts(), 0.0, {}, 0
    while len(done) < 200:
        at, number, key = heapq.heappop(asked)
        now = max(now, at)
        wait = verdicts.admit(key, now)
        if wait == 0.0:
            tries, now = tries + 1, now + 0.01 / 20
            if key[0] == "good":
                verdicts.succeeded(key, now)
                done[key] = now
                continue
            found = fails(verdicts, now, key)
            assert found.finding is not Finding.POISON
            wait = found.wait
        heapq.heappush(asked, (now + wait, number, key))
    assert max(done.values()) < 10.0
    assert tries < 2 * len(keys)


def test_a_probe_that_is_never_heard_of_again_does_not_block_the_circuit():
    verdicts = Verdicts()
    for key in range(10):
        fails(verdicts, 1.0, key)
    assert verdicts.admit(0, 10.0) == 0.0
    assert verdicts.admit(1, 10.0) > 0.0
    assert verdicts.admit(1, 10.0 + RULES.longest_wait) == 0.0


def shared(keys=10):
    """After the first failures of an outage that look alike: all keys wait for a probe."""
    verdicts = Verdicts()
    for key in range(keys):
        fails(verdicts, 1.0, key)
    return verdicts


def test_the_failures_of_probes_lengthen_the_wait_and_another_key_probes_next():
    verdicts, now, waits = shared(), 1.0, []
    for _ in range(9):
        wait = verdicts.admit(1, now)
        now += wait
        waits.append(wait)
        assert verdicts.admit(0, now) == 0.0
        assert verdicts.admit(1, now) > 0.0
        found = fails(verdicts, now, 0)
        assert found.finding is Finding.OUTAGE
        assert found.wait == 2 * verdicts.admit(1, now)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_probe_that_takes_long_frees_all_though_others_probe_by_then():
    verdicts = shared()
    begun = [10.0 + n * RULES.longest_wait for n in range(3)]
    for number, now in enumerate(begun):
        assert verdicts.admit(number, now) == 0.0
    assert fails(verdicts, begun[2] + 1, 1).finding is Finding.OUTAGE
    assert verdicts.admit(5, begun[2] + 2) > 0.0, "a failed probe makes all wait"
    verdicts.succeeded(0, begun[2] + 3)
    assert verdicts.admit(5, begun[2] + 3) == 0.0


@pytest.mark.parametrize("nothing", [Verdicts.forget, Verdicts.untried])
def test_a_probe_that_comes_to_nothing_gives_its_place_to_the_next(nothing):
    verdicts = shared(100)
    for key in range(99):
        assert verdicts.admit(key, 10.0) == 0.0
        assert verdicts.admit(99, 10.0) > 0.0
        nothing(verdicts, key)
    assert verdicts.admit(99, 10.0) == 0.0


def test_a_probe_that_others_overtook_gives_back_nothing_when_the_next_wait_began():
    verdicts = shared()
    assert verdicts.admit(0, 10.0) == 0.0
    assert verdicts.admit(1, 10.0 + RULES.longest_wait) == 0.0
    fails(verdicts, 11.0 + RULES.longest_wait, 1)
    wait = verdicts.admit(2, 12.0 + RULES.longest_wait)
    verdicts.forget(0)
    assert wait == verdicts.admit(2, 12.0 + RULES.longest_wait) > 0.0


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
    assert verdicts.failing_since is None
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
    for number in range(40_000):
        if number % 3:
            fails(verdicts, number / 100, number, how=str(number), kind=FailureKind.FATAL)
        else:
            verdicts.succeeded(number, number / 100)
        if number % 5 == 0:
            verdicts.succeeded(number - 1, number / 100)
    assert verdicts.size < 10_000 + 100 + 256 + 256 + 20


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
