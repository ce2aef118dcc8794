"""Plots of what programs do: how their handlers answer, wait and end, and how they steer queues.

Quick handlers that touch nothing are called in bursts; others keep messages beside them, are
cancelled, lose their worker processes or extend their lease. Members end meanwhile.
"""

from tests.simulation.scenario import BACK, COMMIT, LOCK, SEND, SETTLED, Fault

_AT_ONCE = {"messages": 30, "burst": 20, "seconds": 10.0, "slow": 0.0}
_ENDS = ("kill", "kill at", "close", "close")
_QUICK = (0.0, 0.0, 0.0002, 0.0004)  # seconds a handler takes that is called in bursts


def _bursts(cast):
    """Quick handlers, with much to do, while members end, are cut off or brokers restart."""
    rng = cast.rng
    kinds = rng.choice([_ENDS, ("cut", "isolate", "pause"), ("broker restart", "broker freeze")])
    return {
        "faults": [cast.fault(rng.choice(kinds), rng.uniform(1, 12)) for _ in range(3)],
        "plain": True,
        "manual": 0.0,
        "handling": rng.choice(_QUICK),
        "keys": rng.choice([1, 3]),
        "settings": {"commit_interval": rng.choice([0.3, 1.0])},
        **_AT_ONCE,
    }


def _kept_beside_bursts(cast):
    """Some keys are committed by hand, others are quick successes; members end, or nothing does."""
    rng = cast.rng
    count = rng.choice([0, 1, 2])
    return {
        "faults": [cast.fault(rng.choice(_ENDS), rng.uniform(1, 15)) for _ in range(count)],
        "engine": rng.choice(["thread", "thread", "async"]),
        "plain": True,
        "manual": rng.choice([0.5, 0.5, 1.0]),
        "handling": rng.choice(_QUICK),
        "failing": rng.choice([0.1, 0.3]),
        "keys": rng.choice([2, 3, 3]),
        "queues": rng.choice([1, 1, 2]),
        "settings": {
            "order": rng.choice(["queue", "key", "key", "key"]),
            "batch_size": rng.choice([1, 1, 1, 3]),
        },
        **_AT_ONCE,
    }


def _burst_of_a_key_that_keeps(cast):
    """One queue, some quick keys and one that is kept, with all of its messages at hand at once."""
    rng = cast.rng
    return {
        "faults": [cast.fault(rng.choice(_ENDS), rng.uniform(2, 15))] if rng.random() < 0.4 else [],
        "engine": rng.choice(["thread", "thread", "async"]),
        "plain": True,
        "manual": rng.choice([0.3, 0.5]),
        "brokers": 1,
        "queues": 1,
        "keys": rng.choice([2, 3]),
        "messages": 40,
        "burst": 40,
        "seconds": 10.0,
        "handling": rng.choice(_QUICK),
        "slow": 0.0,
        "failing": rng.choice([0.0, 0.1]),
        "stuck": 0.0,
        "unwanted": 0.0,
        "bodies": 64,
        "settings": {
            "order": "key",
            "batch_size": 1,
            "max_span": 1_000_000,
            "pull_threshold": 1000,
            "pull_batch": 32,
        },
    }


def _cancelled(cast):
    """Coroutines that take long, while a lock is lost: not renewed in time, or another's."""
    rng = cast.rng
    at, who = rng.uniform(2, 15), cast.member()
    faults = {
        "away": [Fault(at, "isolate", who, rng.choice([35.0, 70.0]))],
        "unheard": [Fault(at, rng.choice(["lose answers", "lose requests"]), who, 62.0, LOCK)],
        "asleep": [Fault(at, "pause", who, rng.uniform(31, 72))],
        "forgotten": [
            Fault(at, "isolate", who, 12.0),
            Fault(at + 1, "broker restart", cast.broker(), 0.1),
        ],
    }
    return {
        "faults": faults[rng.choice(sorted(faults))],
        "engine": "async",
        "handling": rng.choice([0.5, 2.0]),
        "slow": 0.5,
        "messages": 20,
        "seconds": 20.0,
    }


def _dying_workers(cast):
    """Worker processes end, of themselves or because a close does not wait for them any longer."""
    rng = cast.rng
    count = rng.choice([0, 1, 2])
    return {
        "faults": [cast.fault(rng.choice(_ENDS), rng.uniform(2, 20)) for _ in range(count)],
        "engine": "process",
        "dying": rng.choice([0.1, 0.3, 0.5]),
        "slow": rng.choice([0.0, 0.3]),
    }


def _extended(cast):
    """Long work renews the lease itself, while brokers stand still or cannot be reached."""
    rng, faults = cast.rng, []
    for _ in range(rng.choice([1, 2])):
        at, who = rng.uniform(2, 40), cast.member()
        faults += rng.choice(
            [
                [Fault(at, "broker freeze", cast.broker(), rng.choice([8.0, 33.0, 62.0]))],
                [Fault(at, "isolate", who, rng.choice([10.0, 35.0, 70.0]))],
                [Fault(at, "lose answers", who, rng.choice([20.0, 62.0]), LOCK)],
                [Fault(at, "lose requests", who, rng.choice([20.0, 62.0]), LOCK)],
                [Fault(at, "pause", who, rng.uniform(31, 72))],
                [Fault(at, "pause", who, rng.uniform(31, 72))],
                [Fault(at, "broker restart", cast.broker(), rng.choice([0.1, 3.0]))],
            ]
        )
    return {"faults": faults, "extending": 0.8, "slow": 0.5, "messages": 10, "seconds": 20.0}


def _sought(cast):
    """A program seeks, back and on, while nothing else goes wrong; some handlers take long."""
    rng = cast.rng
    codes = rng.choice([(BACK,), (50,), (150,), (200,), (50, 200), (150, BACK), (150, 200)])
    ats = [SETTLED + rng.uniform(1, 15) for _ in codes]
    return {
        "faults": [
            Fault(at, "seek", cast.member(), code=c) for at, c in zip(ats, codes, strict=True)
        ],
        "seconds": SETTLED,
        "messages": 20,
        "queues": rng.choice([1, 1, 2]),
        "handling": rng.choice([0.0, 0.5, 4.0, 4.0]),
        "stuck": rng.choice([0.0, 60.0]),
        "manual": 0.0,
    }


def _sought_amid_faults(cast):
    """A program seeks, and is killed, cut off or closed around that."""
    rng, at = cast.rng, cast.rng.uniform(3, 25)
    who = cast.member()
    harm = rng.choice(
        [
            Fault(at - rng.uniform(0, 10), "isolate", who, rng.choice([10.0, 35.0, 70.0])),
            Fault(at + rng.uniform(0, 1), "kill", who, 5.0),
            Fault(at - 1, "kill at", who, 10.0, rng.choice([SEND, COMMIT])),
            Fault(at + rng.uniform(0, 1), "close", who, 5.0),
            Fault(at - 0.5, "broker freeze", cast.broker(), 8.0),
        ]
    )
    seek = Fault(at, "seek", who, code=rng.choice([BACK, 50, 90, 150, 200]))
    return {"faults": [harm, seek], "messages": 20, "handling": rng.choice([0.01, 0.5, 2.0])}


def _held_back(cast):
    """A program pauses its queues, while they go from member to member."""
    rng, at, who = cast.rng, cast.rng.uniform(1, 20), cast.member()
    faults = [Fault(at, "program pause", who, rng.choice([20.0, 60.0]))]
    for _ in range(rng.choice([1, 2, 3])):
        kind = rng.choice(["close", "close", "kill", "isolate", "broker restart", "seek"])
        fault = cast.fault(kind, at + rng.uniform(0, 20))
        faults.append(fault)
    return {"faults": faults, "messages": 20, "seconds": 40.0, "killers": 0}


def storm(cast):
    """Most keys fail at a listener, for minutes; the others never do."""
    rng = cast.rng
    return {
        "faults": [],
        "engine": rng.choice(["thread", "thread", "async"]),
        "plain": True,
        "manual": 0.0,
        "extending": 0.0,
        "storm": rng.choice([0.6, 0.8, 0.9]),
        "stuck": rng.choice([80.0, 120.0]),
        "failing": 0.0,
        "slow": 0.0,
        "keyless": 0.0,
        "handling": rng.choice([0.0, 0.01, 0.1]),
        "keys": 30,
        "messages": 40,
        "burst": rng.choice([5, 40]),
        "settings": {
            "order": "key",
            "max_reconsume_times": None,
            "max_span": 1_000_000,
            "pull_threshold": 1000,
        },
    }


PROGRAM_PLOTS = (
    _bursts, _bursts,
    _kept_beside_bursts, _kept_beside_bursts,
    _burst_of_a_key_that_keeps, _burst_of_a_key_that_keeps,
    _cancelled, _cancelled, _cancelled,
    _dying_workers,
    _extended, _extended, _extended,
    _sought, _sought, _sought,
    _sought_amid_faults,
    _held_back, _held_back, _held_back,
)  # fmt: skip
