"""Cuts a failing scenario down to what its failure needs."""

from tests.simulation.world import Violation, run

TRIES = 400  # not seconds: the same seed is cut down to the same scenario anywhere


def shrink(scenario, kind, fails=None):
    """The smallest scenario found that still breaks the same promise.

    Args:
        scenario: breaks it.
        kind: of the violation.
        fails: scenario to the kind of its violation, or None; for tests.
    """
    fails = fails or kind_of
    tries = 0
    candidates = scenario.smaller()
    while (smaller := next(candidates, None)) is not None and tries < TRIES:
        tries += 1
        if fails(smaller) == kind:
            scenario, candidates = smaller, smaller.smaller()
    return scenario


def kind_of(scenario):
    """The kind of a scenario's violation, or None."""
    try:
        run(scenario)
    except Violation as violation:
        return violation.kind
    return None
