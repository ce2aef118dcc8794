"""Plots of brokers that are killed, and of topics that are deleted and made again."""

from tests.simulation.scenario import Fault


def _old_offsets(cast):
    """A broker is killed, and is back with offsets up to ten seconds old; members come and go."""
    rng = cast.rng
    at = rng.uniform(3, 30)
    faults = [Fault(at, "broker kill", cast.broker(), rng.choice([0.1, 3.0, 20.0, 70.0]))]
    for _ in range(rng.choice([0, 1, 2])):
        kind = rng.choice(["kill", "kill", "kill at", "close", "pause", "broker kill"])
        faults.append(cast.fault(kind, at + rng.uniform(-10, 15)))
    return {
        "faults": faults,
        "messages": 20,
        "burst": rng.choice([1, 5]),
        "seconds": rng.choice([20.0, 30.0]),
        "handling": rng.choice([0.0, 0.01, 0.5]),
        "stuck": rng.choice([0.0, 15.0, 40.0]),
        "settings": {
            "order": rng.choice(["queue", "key", "key"]),
            "commit_interval": rng.choice([5.0, 1.0, 0.3]),
        },
    }


def _a_new_group(cast):
    """A broker is killed before it has written where the group began, and stays away for long."""
    rng = cast.rng
    at = rng.uniform(1, 9)
    faults = [Fault(at, "broker kill", cast.broker(), rng.choice([3.0, 35.0, 50.0, 70.0]))]
    if rng.random() < 0.3:
        faults.append(cast.fault(rng.choice(["kill", "close"]), at + rng.uniform(-1, 60)))
    return {
        "faults": faults,
        "messages": 20,
        "burst": rng.choice([1, 5, 20]),
        "seconds": rng.choice([5.0, 10.0]),
        "handling": rng.choice([0.01, 0.5, 2.0]),
        "settings": {"consume_from": rng.choice(["last", "last", "first"])},
    }


BROKER_PLOTS = (_old_offsets, _old_offsets, _a_new_group, _a_new_group)
