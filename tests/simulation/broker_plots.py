"""Plots of brokers that are killed, and of topics that are deleted, also those of the state."""

from tests.simulation.scenario import MADE_BY_HAND, MADE_BY_SENDS, PARK_TOPIC, Fault


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


def _topic_anew(cast):
    """The topic is deleted and made again while members and producers run."""
    rng = cast.rng
    if rng.random() < 0.2:
        return _as_many(rng)
    at, faults, seconds = rng.uniform(4, 20), [], rng.choice([20.0, 40.0])
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        faults.append(Fault(at, "topic anew", seconds=rng.choice([0.0, 1.0, 5.0, 20.0])))
        at = faults[-1].end + rng.uniform(2, 25)
    for _ in range(rng.choice([0, 0, 1, 2])):
        kinds = ["kill", "kill", "close", "pause", "cut", "broker restart", "broker kill"]
        faults.append(cast.fault(rng.choice(kinds), rng.uniform(2, at)))
    return {
        "faults": faults,
        "messages": rng.choice([20, 40]),
        "burst": rng.choice([1, 2, 5]),
        "seconds": seconds,
        "keys": 8,
        "queues": rng.choice([1, 1, 2]),
        "handling": rng.choice([0.0, 0.01, 0.5]),
        "failing": 0.0,
        "slow": 0.0,
        "stuck": rng.choice([0.0, 30.0, 60.0]),
        "manual": 0.0,
    }


def _as_many(rng):
    """The new topic gets just as many messages as all have handled of the former one."""
    burst = rng.choice([1, 5, 10])
    return {
        "faults": [Fault(rng.uniform(15, 25), "topic anew")],
        "messages": 2 * burst,
        "burst": burst,
        "seconds": 40.0,
        "keys": 1,
        "queues": 1,
        "handling": 0.0,
        "failing": 0.0,
        "slow": 0.0,
        "stuck": 0.0,
        "manual": 0.0,
    }


def _records_deleted(cast):
    """The group's state topic, or its park topic, is deleted while queues are owned."""
    rng = cast.rng
    at, faults = rng.uniform(3, 15), []
    for _ in range(rng.choice([1, 1, 2])):
        code = rng.choice([0, 0, MADE_BY_HAND, MADE_BY_SENDS]) | rng.choice([0, 0, 0, PARK_TOPIC])
        faults.append(Fault(at, "records deleted", "", rng.choice([0.0, 5.0, 20.0]), code))
        at = faults[-1].end + rng.uniform(2, 25)
    for _ in range(rng.choice([0, 1, 2])):
        kind = rng.choice(["kill", "close", "close", "pause", "cut", "broker restart"])
        faults.append(cast.fault(kind, rng.uniform(2, at)))
    return {"faults": faults, **_ahead(rng)}


def _records_lost(cast):
    """A broker's machine dies, and the last records of the group's state are lost with it."""
    rng = cast.rng
    at = rng.uniform(3, 25)
    seconds = rng.choice([0.1, 3.0, 20.0, 40.0])
    faults = [Fault(at, "records lost", cast.broker(), seconds, rng.choice([1, 2, 3]))]
    for _ in range(rng.choice([0, 1, 2])):
        kind = rng.choice(["kill", "kill", "close", "pause", "kill at", "broker restart"])
        faults.append(cast.fault(kind, at + rng.uniform(-5, 30)))
    return {"faults": faults, **_ahead(rng)}


def _ahead(rng):
    """Some keys are stuck while others go on, so that there is something to put on record."""
    return {
        "messages": 20,
        "burst": rng.choice([1, 5]),
        "seconds": rng.choice([20.0, 40.0]),
        "keys": 8,
        "handling": rng.choice([0.0, 0.01, 0.5]),
        "stuck": rng.choice([15.0, 40.0, 60.0]),
        "settings": {"order": "key", "commit_interval": rng.choice([5.0, 1.0, 0.3])},
    }


BROKER_PLOTS = (
    _old_offsets, _old_offsets,
    _a_new_group, _a_new_group,
    _topic_anew, _topic_anew,
    _records_deleted, _records_deleted,
    _records_lost,
)  # fmt: skip
