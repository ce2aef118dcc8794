"""A share of `make simulate` in each test run: seeds hold, mutations are caught, replays agree."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.campaign import catch, run_chunk
from tests.simulation.drawing import draw
from tests.simulation.mutations import MUTATIONS, applied
from tests.simulation.shrink import shrink
from tests.simulation.world import Violation, run

ROOT = Path(__file__).parents[2]
SEEDS = 160


@pytest.mark.parametrize("start", range(0, SEEDS, 40))
def test_no_seed_breaks_a_promise(start):
    _, violations = run_chunk(range(start, start + 40))
    assert not violations


@pytest.mark.parametrize(
    "name",
    [
        "take_refused_queues",
        "commit_past_a_failure",
        "two_batches_of_a_key",
        "claim_what_is_in_hand",
        "send_two_requests_at_once",
        "forget_parked_keys_at_a_handover",
        "never_suspect_a_crash_loop",
    ],
)
def test_a_mutation_is_caught(name):
    assert catch(name, limit=100)[1] is not None


def test_each_mutation_says_what_it_is():
    assert all(mutation.__doc__ for mutation in MUTATIONS.values())
    assert len(MUTATIONS) > 80


def replay(seed, **environment):
    command = [sys.executable, "-m", "tests.simulation", "--replay", str(seed)]
    env = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, check=True, timeout=60)
    return done.stdout


def test_a_replay_is_the_same_history_byte_for_byte_in_another_process():
    seed = next(s for s in range(1000) if draw(s).members == 3 and len(draw(s).faults) > 1)
    first = replay(seed, PYTHONHASHSEED="1")
    assert b"FAULT" in first
    assert first == replay(seed, PYTHONHASHSEED="2")


def test_a_failing_scenario_is_cut_down_to_what_the_failure_needs():
    with applied("commit_past_a_failure"):
        seed = catch("commit_past_a_failure")[1][0] - 1
        small = shrink(draw(seed), "commit past unfinished")
        with pytest.raises(Violation) as caught:
            run(small)
    assert caught.value.kind == "commit past unfinished"
    assert (small.members, small.producers, small.brokers, small.faults) == (1, 1, 1, ())
    assert small.messages < draw(seed).messages
    assert "commits" in caught.value.trace[-1]


def test_cutting_down_keeps_the_fault_that_the_failure_needs():
    scenario = next(draw(s) for s in range(1000) if len(draw(s).faults) > 3)
    needed = scenario.faults[1]
    small = shrink(scenario, "made up", lambda s: "made up" if needed in s.faults else None)
    assert small.faults == (needed,)
    assert small.messages == 1
