"""Defects, put into the library one at a time, that the simulation must find.

Each is what a developer could get wrong, or what another client does: a function that is given
`set(owner, name, value)`, as of a monkeypatch.
"""

import contextlib
from unittest import mock

from tests.simulation.broker_mutations import BROKER_MUTATIONS
from tests.simulation.crash_mutations import CRASH_MUTATIONS
from tests.simulation.handling_mutations import HANDLING_MUTATIONS
from tests.simulation.lane_mutations import LANE_MUTATIONS
from tests.simulation.lock_mutations import LOCK_MUTATIONS
from tests.simulation.parking_mutations import PARKING_MUTATIONS
from tests.simulation.program_mutations import PROGRAM_MUTATIONS
from tests.simulation.send_mutations import SEND_MUTATIONS
from tests.simulation.state_mutations import STATE_MUTATIONS

_GROUPS = (  # and what a history must have, other than 0, for one of them to show
    (LOCK_MUTATIONS, None),
    (HANDLING_MUTATIONS, None),
    (LANE_MUTATIONS, None),
    (STATE_MUTATIONS, None),
    (SEND_MUTATIONS, None),
    (PARKING_MUTATIONS, "poison"),
    (CRASH_MUTATIONS, "killers"),
    (PROGRAM_MUTATIONS, None),
    (BROKER_MUTATIONS, None),
)
MUTATIONS = {mutation.__name__: mutation for group, _ in _GROUPS for mutation in group}
_NEEDS = {mutation.__name__: needs for group, needs in _GROUPS for mutation in group}


def may_show(name, scenario):
    """Whether a history has what the mutation is about."""
    return _NEEDS[name] is None or bool(getattr(scenario, _NEEDS[name]))


@contextlib.contextmanager
def applied(name):
    """Run the library with one mutation."""
    with contextlib.ExitStack() as stack:

        def set_(owner, attribute, value):
            stack.enter_context(mock.patch.object(owner, attribute, value))

        MUTATIONS[name](set_)
        yield
