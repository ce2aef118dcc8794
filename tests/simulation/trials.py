"""One history with one mutation: what it is caught by, if it is the mutation's rule that breaks.

A mutation whose own text raises (its signature is of before, a name is gone) breaks nothing but
itself. That is a `Breakdown`, and is not taken for a violation that the simulation found.
"""

from dataclasses import dataclass

from tests.simulation.kernel import Stall
from tests.simulation.mutations import applied
from tests.simulation.truth import BROKE_DOWN, Broken
from tests.simulation.world import Violation, run

MEANT = {}  # by mutation that is to break down: why


@dataclass(frozen=True)
class Breakdown:
    """A mutation raised where it was to break a promise; false, for nothing is caught by that.

    Attributes:
        seed: of the history.
        text: what it raised.
    """

    seed: int
    text: str

    def __bool__(self):
        return False

    def __str__(self):
        return f"breaks down by itself at seed {self.seed}: {self.text}"


def try_on(name, scenario):
    """Play a scenario with a mutation.

    Returns:
        The kind of the violation, a Breakdown, or None.
    """
    with applied(name) as raised:
        violation = _violation(scenario)
    if name in MEANT:
        return violation and violation.kind
    if raised:
        return Breakdown(scenario.seed, raised[0])
    if violation is None:
        return None
    if violation.kind == BROKE_DOWN or not isinstance(violation.__cause__, (Broken, Stall)):
        return Breakdown(scenario.seed, str(violation))
    return violation.kind


def _violation(scenario):
    try:
        run(scenario)
    except Violation as violation:
        return violation
    return None
