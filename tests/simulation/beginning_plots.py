"""Plots of where a queue begins that has no offset: of a new group, and of a topic that grew."""

from tests.simulation.scenario import LOCK, WRITTEN, Fault

_LAST = {"consume_from": "last"}


def _a_later_queue(cast):
    """A topic gets a queue, and messages in it, while members are away, come back, or go on."""
    rng = cast.rng
    at = rng.uniform(8, 14)
    faults = [Fault(at, "grow", code=WRITTEN)]
    for index in range(cast.members):
        if rng.random() < 0.7:
            kind, away = rng.choice(["close", "close", "kill"]), rng.uniform(2, 12)
            faults.append(Fault(at + rng.uniform(-3, 2), kind, f"member {index}", away))
    if rng.random() < 0.3:
        kind = rng.choice(["broker freeze", "broker restart", "broker kill"])
        faults.append(cast.fault(kind, at + rng.uniform(0, 10)))
    return {
        "faults": faults,
        "seconds": 5.0,
        "messages": 20,
        "keys": 8,
        "unwanted": 0.0,
        "settings": _LAST,
    }


def _all_join_at_once(cast):
    """The members of a new group start together, when there are messages already."""
    rng = cast.rng
    joins = rng.uniform(4, 10)
    # One of them gets its queues late, when others have committed already.
    faults = [Fault(joins, "lose requests", cast.member(), 3.0, LOCK)]
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        kinds = ("kill", "close", "blind start", "broker freeze", "broker restart")
        faults.append(cast.fault(rng.choice(kinds), joins + rng.uniform(-0.5, 3)))
    return {
        "faults": faults,
        "joins": joins,
        "seconds": 20.0,
        "messages": 20,
        "burst": rng.choice([1, 5]),
        "settings": _LAST,
    }


BEGINNING_PLOTS = (_a_later_queue, _all_join_at_once)
