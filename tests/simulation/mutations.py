"""Defects, put into the library one at a time, that the simulation must find.

Each is what a developer could get wrong, or what another client does: a function that is given
`set(owner, name, value)`, as of a monkeypatch.
"""

import contextlib
import json
from pathlib import Path
from unittest import mock

from tests.simulation.broker_mutations import BROKER_MUTATIONS
from tests.simulation.crash_mutations import CRASH_MUTATIONS
from tests.simulation.forgery_mutations import FORGERY_MUTATIONS
from tests.simulation.handling_mutations import HANDLING_MUTATIONS
from tests.simulation.lane_mutations import LANE_MUTATIONS
from tests.simulation.lock_mutations import LOCK_MUTATIONS
from tests.simulation.parking_mutations import PARKING_MUTATIONS
from tests.simulation.program_mutations import PROGRAM_MUTATIONS
from tests.simulation.repeat_mutations import REPEAT_MUTATIONS
from tests.simulation.send_mutations import SEND_MUTATIONS
from tests.simulation.state_mutations import STATE_MUTATIONS
from tests.simulation.steering_mutations import STEERING_MUTATIONS
from tests.simulation.watching import watched

CAUGHT = Path(__file__).parent / "caught.json"  # by mutation: what a search found last
PAGE = Path(__file__).parents[2] / "docs/proof/simulation.md"  # tells the same

_HEAD = """| mutation | what it does | seed | caught by |
|---|---|---|---|
"""

_GROUPS = (  # and what a history must have, other than 0, for one of them to show
    (LOCK_MUTATIONS, None),
    (HANDLING_MUTATIONS, None),
    (LANE_MUTATIONS, None),
    (STATE_MUTATIONS, None),
    (SEND_MUTATIONS, None),
    (PARKING_MUTATIONS, "poison"),
    (CRASH_MUTATIONS, "killers"),
    (PROGRAM_MUTATIONS, None),
    (STEERING_MUTATIONS, None),
    (BROKER_MUTATIONS, None),
    (FORGERY_MUTATIONS, "forged"),
    (REPEAT_MUTATIONS, "repeats"),
)
MUTATIONS = {mutation.__name__: mutation for group, _ in _GROUPS for mutation in group}
_NEEDS = {mutation.__name__: needs for group, needs in _GROUPS for mutation in group}


def may_show(name, scenario):
    """Whether a history has what the mutation is about."""
    return _NEEDS[name] is None or bool(getattr(scenario, _NEEDS[name]))


@contextlib.contextmanager
def applied(name):
    """Run the library with one mutation.

    Yields:
        A list, to which is added what its own functions raise that no promise is broken by: calls,
        names and attributes that are wrong.
    """
    raised = []
    with contextlib.ExitStack() as stack:

        def set_(owner, attribute, value):
            value = watched(value, raised.append)
            stack.enter_context(mock.patch.object(owner, attribute, value))

        MUTATIONS[name](set_)
        yield raised


def known_seeds():
    """By mutation, the seed that caught it last, and the kind of the violation."""
    return {name: tuple(found) for name, found in json.loads(CAUGHT.read_text()).items()}


def write_seeds(caught):
    """Store, and show on the page, which seeds caught mutations; others stay as they are."""
    known = {**known_seeds(), **{name: found for name, found in caught.items() if found}}
    lines = (
        f"  {json.dumps(name)}: {json.dumps(known[name])}" for name in MUTATIONS if name in known
    )
    CAUGHT.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    PAGE.write_text(told_on(PAGE.read_text()))


def told_on(page):
    """The page's text, with its table of mutations made from the known seeds."""
    known = known_seeds()
    rows = []
    for name in filter(known.get, MUTATIONS):
        seed, kind = known[name]
        rows.append(
            f"| `{name}` | {' '.join(MUTATIONS[name].__doc__.split())} | {seed} | {kind} |\n"
        )
    before, head, rest = page.partition(_HEAD)
    _, after = rest.split("\n\n", 1)
    return f"{before}{head}{''.join(rows)}\n{after}"
