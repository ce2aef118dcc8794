"""Defects, put into the library one at a time, that the simulation must find.

Each is what a developer could get wrong, or what another client does: a function that is given
`set(owner, name, value)`, as of a monkeypatch.
"""

import contextlib
from unittest import mock

from tests.simulation.crash_mutations import CRASH_MUTATIONS
from tests.simulation.handling_mutations import HANDLING_MUTATIONS
from tests.simulation.lane_mutations import LANE_MUTATIONS
from tests.simulation.lock_mutations import LOCK_MUTATIONS
from tests.simulation.parking_mutations import PARKING_MUTATIONS
from tests.simulation.program_mutations import PROGRAM_MUTATIONS
from tests.simulation.send_mutations import SEND_MUTATIONS
from tests.simulation.state_mutations import STATE_MUTATIONS

MUTATIONS = {
    mutation.__name__: mutation
    for mutation in (
        *LOCK_MUTATIONS,
        *HANDLING_MUTATIONS,
        *LANE_MUTATIONS,
        *STATE_MUTATIONS,
        *SEND_MUTATIONS,
        *PARKING_MUTATIONS,
        *CRASH_MUTATIONS,
        *PROGRAM_MUTATIONS,
    )
}


def needs(name):
    """Which histories can catch a mutation: all, or those with poison, or with killers."""
    mutation = MUTATIONS[name]
    if mutation in PARKING_MUTATIONS:
        return "poison"
    return "killers" if mutation in CRASH_MUTATIONS else "seed"


@contextlib.contextmanager
def applied(name):
    """Run the library with one mutation."""
    with contextlib.ExitStack() as stack:

        def set_(owner, attribute, value):
            stack.enter_context(mock.patch.object(owner, attribute, value))

        MUTATIONS[name](set_)
        yield
