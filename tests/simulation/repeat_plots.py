"""Plots of sends that reach a broker twice: the second copy may stand behind later messages."""

import random

from tests.simulation.cast import Cast
from tests.simulation.scenario import COPIES, FIND, NO_INDEX, RETRIES, SETTLED, Fault

_PATIENT = 60  # retries
_BESIDE = 0.12  # share of all histories in which copies come beside all else
_INDEX = (0.0, 0.0, 0.0, 0.0, 0.5, 3.0, NO_INDEX, NO_INDEX)


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


def _asked_for(cast):
    """Programs, and an operator, let a queue go on from among its copies."""
    rng, who = cast.rng, cast.member()
    faults = [Fault(rng.uniform(2, 30), "late copy") for _ in range(rng.choice([12, 25]))]
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(["seek", "seek", "offset reset"])
        code = rng.choice([50, 80, 90, 95])
        at = rng.uniform(5, 25) + (SETTLED if rng.random() < 0.5 else 0.0)
        faults.append(Fault(at, kind, who if kind == "seek" else "", code=code))
    if rng.random() < 0.3:
        faults.append(cast.fault(rng.choice(["kill", "close"]), rng.uniform(10, 50)))
    return {
        "faults": faults,
        **_sends(rng, 20.0),
        "retries": RETRIES,
        "sent_again": rng.choice([0.0, 0.5]),
        "keys": rng.choice([1, 3]),
        "queues": 1,
        "failing": 0.0,
        "slow": 0.0,
        "settings": {"commit_interval": rng.choice([1.0, 0.3])},
    }


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
        "index": rng.choice(_INDEX),
    }


def copies_beside(seed, members, seconds):
    """What some histories have beside all else: copies that come at any time; or None."""
    rng = random.Random(f"copies {seed}")
    if rng.random() > _BESIDE:
        return None
    cast = Cast(rng, members, 1, 1)
    until = seconds + rng.choice([0.0, 10.0, 40.0])
    faults = [
        Fault(rng.uniform(1, until), rng.choice([*COPIES, "late copy", "late copy"]))
        for _ in range(rng.choice([1, 3, 6, 12, 25]))
    ]
    if rng.random() < 0.2:  # nobody can look for a copy
        kind = rng.choice(["lose answers", "lose requests"])
        faults.append(Fault(rng.uniform(1, until), kind, cast.member(), 15.0, FIND))
    return {
        "faults": faults,
        "sent_again": rng.choice([0.0, 0.3, 1.0]),
        "index": rng.choice(_INDEX),
    }


REPEAT_PLOTS = (_stood_still, _stood_still, _cut_off, _asked_for)
