"""Plots of programs that pause single keys, or that handle so many messages a second at most.

Operators give commands about keys meanwhile, in some of them.
"""

from tests.simulation.parking_plots import acts
from tests.simulation.scenario import Fault

_RATES = (None, None, 5.0, 20.0)  # messages a second
_RATES_PER_KEY = (None, None, 0.2, 0.5)
_HARM = ("close", "close", "kill", "isolate", "cut", "broker restart", "seek")


def steered(cast):
    """Keys are paused while queues go from member to member; rates are limited."""
    rng = cast.rng
    rate, per_key = rng.choice(_RATES), rng.choice(_RATES_PER_KEY)
    by_key = per_key is not None or rng.random() < 0.9
    settings = {"order": "key" if by_key else "queue", "max_reconsume_times": None}
    settings |= {"max_rate": rate} if rate else {}
    settings |= {"max_rate_per_key": per_key} if per_key else {}
    faults = []
    for _ in range(rng.choice([0, 1, 1, 2])):
        at = rng.uniform(1, 20)
        faults.append(Fault(at, "key pause", cast.member(), rng.choice([10.0, 40.0, 60.0])))
        harm = rng.choices(_HARM, k=rng.choice([0, 1, 2, 3]))
        faults += [cast.fault(kind, at + rng.uniform(0, 20)) for kind in harm]
    return {
        **_parked(cast, faults, by_key=by_key),
        "settings": settings,
        "messages": rng.choice([10, 20]),
        "seconds": rng.choice([5.0, 20.0]),
        "handling": rng.choice([0.0, 0.0, 0.01, 0.5]),
        "keys": rng.choice([1, 2, 3]),
        "bodies": rng.choice([64, 2]),
    }


def _parked(cast, faults, *, by_key):
    """With order by key, in one history of two: some messages are poison, and an operator acts."""
    if not by_key or cast.rng.random() < 0.5:
        return {"faults": faults}
    fixed = cast.rng.choice([10.0, 30.0])
    return {"faults": [*faults, *acts(cast, 60.0)], "poison": 0.3, "fixed": fixed}
