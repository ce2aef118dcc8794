"""Plots of sends that reach a broker twice: the second copy may stand behind later messages."""

from tests.simulation.scenario import Fault

_PATIENT = 60  # retries


def _stood_still(cast):
    """A broker stands still, longer than a producer waits for a word of it, and goes on."""
    rng = cast.rng
    at, seconds = rng.uniform(1, 8), rng.choice([8.0, 12.0, 15.0, 25.0, 40.0])
    faults = [Fault(at, "broker freeze", cast.broker(), seconds)]
    if rng.random() < 0.3:
        faults.append(
            Fault(at + seconds + rng.uniform(1, 10), "broker freeze", cast.broker(), 12.0)
        )
    return {"faults": faults + _more(cast, at, at + seconds + 10), **_sends(rng, at + seconds)}


def _cut_off(cast):
    """A producer's connections are slow, and end while its sends are under way."""
    rng = cast.rng
    faults, at, who = [], rng.uniform(1, 4), cast.producer()
    for _ in range(rng.choice([1, 2, 4])):
        faults.append(Fault(at, "slow network", who, 4.0))
        faults += [Fault(at + rng.uniform(0.2, 4), "cut", who) for _ in range(rng.choice([1, 3]))]
        at += rng.uniform(4, 8)
    return {"faults": faults + _more(cast, 2, at + 5), **_sends(rng, at)}


def _more(cast, begin, end):
    """What happens to the members meanwhile."""
    rng = cast.rng
    kinds = ("kill", "kill at", "close", "close", "pause", "cut", "seek", "broker restart")
    count = rng.choice([0, 0, 1, 2])
    return [cast.fault(rng.choice(kinds), rng.uniform(begin, end)) for _ in range(count)]


def _sends(rng, until):
    return {
        "retries": rng.choice([2, _PATIENT, _PATIENT]),
        "messages": rng.choice([20, 40]),
        "burst": rng.choice([1, 1, 2, 5]),
        "keys": rng.choice([1, 3, 8]),
        "seconds": until + 5.0,
        "handling": rng.choice([0.0, 0.0, 0.01, 0.5]),
    }


REPEAT_PLOTS = (_stood_still, _stood_still, _cut_off)
