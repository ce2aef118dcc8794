"""Plots of poison that is parked and released, and of messages that end processes.

A handler parks, or crashes, until a better one is deployed; an operator releases or drops keys
meanwhile, also too early, twice, or keys that nobody parked.
"""

from tests.simulation.scenario import (
    ACTS,
    BACK,
    COMMIT,
    FORGERIES,
    ONCE,
    PULL,
    SEND,
    SETTLED,
    TO_THE_END,
    TWICE,
    UNKNOWN,
    Fault,
)

_BY_KEY = {"order": "key", "max_reconsume_times": None}


def _poison_and_ends(cast):
    """Members end, or hand over, while keys are parked and released."""
    rng = cast.rng
    kinds = rng.choice([("kill at",), ("close", "grow"), ("kill", "kill at", "close")])
    count = rng.choice([1, 2, 4])
    return _parking(cast, [cast.fault(rng.choice(kinds), rng.uniform(2, 50)) for _ in range(count)])


def _poison_and_silence(cast):
    """Answers to records and parked messages are lost, brokers restart, leases run out."""
    rng, faults = cast.rng, []
    for _ in range(rng.choice([1, 2])):
        at = rng.uniform(2, 30)
        kind = rng.choice(
            ["answers", "requests", "requests", "restart", "broker", "asleep", "cut", "away"]
        )
        match kind:
            case "restart":
                faults.append(Fault(at, "broker restart", cast.broker(), rng.choice([0.1, 3.0])))
            case "broker":
                faults.append(Fault(at, "broker kill", cast.broker(), rng.choice([0.1, 3.0])))
            case "asleep":
                seconds, code = rng.uniform(61, 72), rng.choice([SEND, COMMIT])
                faults.append(Fault(at, "pause at", cast.member(), seconds, code))
            case "cut":
                faults.append(Fault(at, "cut", cast.member()))
            case "away":
                faults.append(Fault(at, "isolate", cast.member(), rng.choice([12.0, 65.0])))
            case _:
                seconds, everybody = rng.choice([5.0, 20.0]), range(cast.members)
                faults += [
                    Fault(at, f"lose {kind}", f"member {index}", seconds, SEND)
                    for index in everybody
                ]
    return _parking(cast, faults)


def _poison_and_old_offsets(cast):
    """Keys are parked one after the other, and then the broker forgets the offsets of seconds."""
    rng = cast.rng
    at = rng.uniform(3, 30)
    faults = [Fault(at, "broker kill", cast.broker(), rng.choice([0.1, 3.0, 20.0, 40.0]))]
    if rng.random() < 0.5:
        faults.append(cast.fault(rng.choice(["kill", "close"]), at + rng.uniform(0, 10)))
    return _parking(cast, faults, fixed=60.0) | {
        "poison": rng.choice([0.3, 0.6]),
        "messages": 20,
        "keys": 8,
        "burst": rng.choice([5, 20]),
        "stuck": 40.0,
        "handling": 0.0,
    }


def _poison_and_resets(cast):
    """The offset is set back, or on, while keys are parked."""
    rng = cast.rng
    where = rng.choice([BACK, 50, TO_THE_END, TO_THE_END])
    reset = Fault(SETTLED + rng.uniform(1, 15), "offset reset", code=where)
    more = [cast.fault("kill", rng.uniform(5, 60))] if rng.random() < 0.5 else []
    return _parking(cast, [reset, *more], fixed=70.0) | {
        "seconds": SETTLED,
        "keys": 3,
        "stuck": rng.choice([0.0, 60.0, 60.0]),
    }


def _lost_records(cast):
    """The records of what is parked are gone; the park topic tells it, too."""
    rng = cast.rng
    lost = Fault(rng.uniform(30, 50), "lose records", seconds=rng.choice([1.0, 10.0]))
    return _parking(cast, [lost], fixed=rng.choice([20.0, 120.0]), until=50.0)


def _release_in_the_stream(cast):
    """Keys are released, or dropped, while more of their messages come."""
    rng = cast.rng
    acts = [Fault(rng.uniform(20, 42), rng.choice(["release"] * 5 + ["drop"])) for _ in range(6)]
    if rng.random() < 0.7:
        acts += [
            Fault(5.0, "slow network", f"member {index}", 40.0, rng.choice([100, 400]))
            for index in range(cast.members)
        ]
    return _parking(cast, acts, fixed=20.0, until=40.0) | {
        "poison": 0.3,
        "messages": 30,
        "keys": 1,
        "queues": 1,
        "burst": rng.choice([1, 2, 5]),
        "seconds": 40.0,
        "handling": rng.choice([0.01, 0.5, 0.5]),
        "failing": 0.0,
        "slow": 0.0,
        "stuck": 0.0,
    }


def _orphans(cast):
    """A member is killed between a copy and its record, and a release comes before the message."""
    rng = cast.rng
    at, everybody = rng.uniform(2, 10), [f"member {index}" for index in range(cast.members)]
    faults = [Fault(at, "kill at", who, 20.0, SEND) for who in everybody]
    faults += [Fault(at + 58, "lose requests", who, 25.0, PULL) for who in everybody]
    faults += [Fault(at + rng.uniform(85, 100), "release") for _ in range(3)]
    return _parking(cast, faults, fixed=40.0) | {"messages": 20, "burst": 5, "keys": 1}


def _killers(cast):
    """One or two messages end each process that handles them."""
    rng = cast.rng
    fixed = rng.choice([100.0, 400.0, 700.0])
    faults = acts(cast, 400.0) if rng.random() < 0.5 else []
    if fixed == 700.0:  # time enough for a release to end processes, again and again
        faults.append(Fault(rng.uniform(260, 350), "release"))
    if rng.random() < 0.3:
        faults.append(
            cast.fault(rng.choice(["kill", "close", "pause", "cut"]), rng.uniform(1, 200))
        )
    return {
        "faults": faults,
        "killers": rng.choice([1, 1, 2]),
        "fixed": fixed,
        "settings": _BY_KEY,
        "messages": rng.choice([5, 10]),
        "seconds": rng.choice([5.0, 60.0]),
        "handling": rng.choice([0.01, 0.5, 2.0]),
        "stuck": rng.choice([0.0, 300.0]),
    }


def _parking(cast, faults, fixed=None, until=60.0):
    """Some messages are poison; faults, and what an operator does in the first seconds."""
    rng = cast.rng
    return {
        "faults": [*faults, *acts(cast, until)],
        "poison": rng.choice([0.1, 0.3]),
        "fixed": fixed or rng.choice([10.0, 30.0, 60.0]),
        "settings": _BY_KEY | {"commit_interval": rng.choice([5.0, 1.0])},
        "messages": rng.choice([10, 20]),
        "keys": rng.choice([1, 3]),
        "seconds": rng.choice([10.0, 40.0]),
        "handling": rng.choice([0.0, 0.01, 0.5]),
    }


def acts(cast, until):
    """What an operator does about parked keys."""
    rng = cast.rng
    verbs = (*ACTS, "release", "drop", "add", "add")
    return [
        Fault(
            rng.uniform(3, until),
            rng.choice(verbs),
            code=rng.choice([ONCE, ONCE, TWICE, UNKNOWN, UNKNOWN]),
        )
        for _ in range(rng.choice([0, 1, 3, 6]))
    ]


def forged(cast):
    """Somebody without the members' secret forges records, while members come and go."""
    rng = cast.rng
    kinds = rng.sample(range(len(FORGERIES)), k=rng.choice([1, 1, 2, 4]))
    faults = [
        Fault(rng.uniform(2, 60), "forge", code=rng.choice(kinds))
        for _ in range(rng.choice([3, 10, 20]))
    ]
    for _ in range(rng.choice([1, 2, 4])):
        kind = rng.choice(["kill", "kill", "kill at", "close", "cut", "broker restart"])
        faults.append(cast.fault(kind, rng.uniform(3, 60)))
    faults += [Fault(rng.uniform(10, 60), "release") for _ in range(rng.choice([0, 2]))]
    return {
        "faults": faults,
        "secrets": "known to members",
        "poison": rng.choice([0.1, 0.3]),
        "fixed": rng.choice([10.0, 30.0]),
        "settings": _BY_KEY | {"commit_interval": rng.choice([5.0, 1.0])},
        "messages": rng.choice([10, 20]),
        "keys": rng.choice([1, 3]),
        "seconds": rng.choice([10.0, 40.0]),
        "handling": rng.choice([0.0, 0.01, 0.5]),
        "stuck": rng.choice([0.0, 30.0]),
        "manual": 0.0,
        "engine": "thread",
        "dying": 0.0,
    }


PARKING_PLOTS = (
    _poison_and_ends,
    _poison_and_silence,
    _poison_and_old_offsets,
    _poison_and_resets,
    _lost_records,
    _release_in_the_stream, _release_in_the_stream,
    _orphans, _orphans,
    _killers, _killers,
)  # fmt: skip
