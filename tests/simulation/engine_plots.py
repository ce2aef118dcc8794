"""Plots of members whose event loop something blocks: they give their queues up, and come back."""

from tests.simulation.scenario import Fault

_HARM = ("close", "close", "kill", "isolate", "cut", "broker restart", "seek")


def blocked(cast):
    """Coroutines, and one that blocks their loop: shorter and longer than a lock is trusted."""
    rng = cast.rng
    faults = []
    for _ in range(rng.choice([1, 1, 2])):
        at = rng.uniform(2, 20)
        faults.append(Fault(at, "block loop", cast.member(), rng.choice([10.0, 45.0, 70.0, 130.0])))
        harm = rng.choices(_HARM, k=rng.choice([0, 0, 1, 2]))
        faults += [cast.fault(kind, at + rng.uniform(0, 60)) for kind in harm]
    return {
        "faults": faults,
        "engine": "async",
        "messages": 20,
        "seconds": 20.0,
        "handling": rng.choice([0.01, 0.5, 2.0, 5.0]),
        "slow": rng.choice([0.0, 0.3]),
        "killers": 0,
    }
