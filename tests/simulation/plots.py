"""Plots: faults that meet. Some defects need two or three of them at the right moment.

Each plot is given a `Cast` and returns what it wants to be so in the scenario; `settings` are added
to those drawn.
"""

from tests.simulation.broker_plots import BROKER_PLOTS
from tests.simulation.cast import KINDS
from tests.simulation.parking_plots import PARKING_PLOTS
from tests.simulation.scenario import (
    BACK,
    COMMIT,
    PULL,
    QUERY,
    SEND,
    SEND_BATCH,
    SETTLED,
    TO_THE_END,
    Fault,
)


def _anything(cast):
    """Faults one by one."""
    rng = cast.rng
    kinds = rng.sample(KINDS, k=rng.randint(1, 4))
    count = rng.choice([1, 2, 3, 5])
    return {"faults": [cast.fault(rng.choice(kinds), rng.uniform(1, 25)) for _ in range(count)]}


def _comings_and_goings(cast):
    """Members come and go, queues are added, nothing is lost on the way."""
    rng = cast.rng
    kinds, count = ("kill", "kill at", "close", "close", "grow"), rng.choice([0, 1, 2, 3])
    return {"faults": [cast.fault(rng.choice(kinds), rng.uniform(1, 30)) for _ in range(count)]}


def _finished_ahead(cast):
    """Some keys are stuck while others go on; members end at a bad moment, or hand over."""
    rng = cast.rng
    kinds = rng.choice([("kill at",), ("close",), ("close", "grow"), ("kill", "kill at", "close")])
    faults = [
        cast.fault(rng.choice(kinds), rng.uniform(2, 25)) for _ in range(rng.choice([1, 2, 4]))
    ]
    return {
        "faults": faults,
        "stuck": rng.choice([20.0, 40.0]),
        "messages": 20,
        "keys": rng.choice([3, 8]),
        "handling": rng.choice([0.0, 0.01, 0.5]),
        "settings": {"order": "key", "commit_interval": rng.choice([5.0, 5.0, 0.3])},
    }


def _heir_without_messages(cast):
    """The heir of what is finished ahead gets no messages for a while, and hands it on as it is."""
    rng = cast.rng
    at, giver, heir = rng.uniform(8, 20), *_two(cast)
    faults = [
        Fault(at - 0.2, "lose requests", heir, 20.0, PULL),
        Fault(at, "close", giver, 40.0),
        Fault(at + 10, rng.choice(["close", "kill"]), heir, 1.0),
    ]
    return {"faults": faults, **_AHEAD}


def _late_record(cast):
    """A record is held up on its way until an heir has confirmed; then the heir is killed."""
    at, owner, heir = cast.rng.uniform(6, 15), *_two(cast)
    faults = [
        Fault(at, "close", heir, 6.0),
        Fault(at + 3, "pause at", owner, cast.rng.uniform(64, 75), SEND),
        Fault(at + 90, "kill", heir, 1.0),
    ]
    return {"faults": faults, **_AHEAD, "stuck": 150.0, "seconds": 30.0}


def _two(cast):
    """Two members, if there are so many."""
    return cast.rng.sample([f"member {index}" for index in range(cast.members)] * 2, k=2)


_AHEAD = {
    "stuck": 60.0,
    "messages": 20,
    "keys": 8,
    "handling": 0.0,
    "seconds": 10.0,
    "settings": {"order": "key", "commit_interval": 1.0},
}


def _overslept(cast):
    """A member with work at hand stands still, or is cut off, until its lease is over."""
    rng = cast.rng
    at, seconds, who = rng.uniform(1, 15), rng.uniform(61, 72), cast.member()
    kind = rng.choice(["pause", "pause at", "isolate", "partition"])
    code = rng.choice([QUERY, SEND, COMMIT]) if kind == "pause at" else 0
    faults = [Fault(at, kind, who, seconds, code)]
    faults.append(Fault(at + (15.0 if code else 0.5), "cut", who))  # so that the others notice
    if rng.random() < 0.3:
        faults.append(cast.fault(rng.choice(KINDS), at + rng.uniform(0, 60)))
    return {"faults": faults, **_backlog(rng)}


def _forgotten_locks(cast):
    """A broker forgets its locks while the owner is away for a while; another member takes over."""
    rng = cast.rng
    at = rng.uniform(4, 12)
    kind = rng.choice(["isolate", "isolate", "pause", "pause at"])
    code = rng.choice([QUERY, SEND]) if kind == "pause at" else 0
    away = Fault(at, kind, cast.member(), 12.0, code)
    forgets = Fault(at + rng.uniform(0, 2), "broker restart", cast.broker(), 0.1)
    more = {"stuck": 60.0} if rng.random() < 0.5 else {}
    return {"faults": [away, forgets], **_backlog(rng), **more}


def _backlog(rng):
    """Much to do at once, slowly: what a member has cached is not soon done."""
    handling, slow = rng.choice([0.5, 1.0, 2.0]), rng.choice([0.0, 0.1])
    return {"messages": 20, "burst": 20, "seconds": 5.0, "handling": handling, "slow": slow}


def _unanswered_commits(cast):
    """Commits are stored, and nobody is told so."""
    at, who = cast.rng.uniform(2, 8), cast.member()
    fault = Fault(at, "lose answers", who, 20.0, COMMIT)
    return {"faults": [fault], "messages": 20, "seconds": 20.0, "handling": 0.5}


def _late_start(cast):
    """A member comes back when much is stored, and may not be told where the group is."""
    rng = cast.rng
    kinds = ("blind start", "blind start", "kill", "lose answers")
    count = rng.choice([1, 2])
    faults = [cast.fault(rng.choice(kinds), rng.uniform(5, 15)) for _ in range(count)]
    return {"faults": faults, "seconds": 20.0, "burst": 5}


def _resets(cast):
    """An operator resets the group's offsets, while nothing else goes wrong."""
    rng = cast.rng
    where = rng.choice([(BACK, 50), (BACK,), (50, 50), (TO_THE_END,)])
    faults = [Fault(SETTLED + rng.uniform(1, 15), "offset reset", code=code) for code in where]
    more = {}
    if rng.random() < 0.5:  # while bodies are pulled again
        more = {"bodies": 2, "handling": 2.0, "messages": 20, "settings": {"order": "key"}}
    return {"faults": faults, "seconds": SETTLED, **more}


def _resets_and_more(cast):
    """An operator resets the group's offsets, and other things go wrong, too."""
    rng, more = cast.rng, _anything(cast)
    reset = Fault(rng.uniform(5, 25), "offset reset", code=rng.choice([BACK, 50, TO_THE_END]))
    return {"faults": [reset, *more["faults"]]}


def resets_in_a_row(cast):
    """An operator resets the offsets again, before all members have followed the reset before."""
    rng = cast.rng
    at, faults = SETTLED + rng.uniform(0.5, 3), []
    for code in rng.choices([BACK, 50, 50, TO_THE_END], k=rng.choice([2, 2, 3])):
        faults.append(Fault(at, "offset reset", code=code))
        at += rng.choice([0.1, rng.uniform(0.1, 2), rng.uniform(2, 8)])
    return {
        "faults": faults,
        "messages": 20,
        "burst": rng.choice([1, 5]),
        "seconds": SETTLED,
        "handling": rng.choice([0.5, 2.0, 2.0]),
        "failing": rng.choice([0.1, 0.3]),
        "stuck": rng.choice([15.0, 40.0]),
        "settings": {"order": rng.choice(["queue", "key", "key"])},
    }


def reset_while_away(cast):
    """All members close; then the group's offsets are set, and no pull is told of it."""
    rng = cast.rng
    where = rng.choice([BACK, BACK, 50, TO_THE_END])
    at, seconds = SETTLED + rng.uniform(1, 15), rng.choice([2.0, 10.0])
    return {
        "faults": [Fault(at, "reset while away", seconds=seconds, code=where)],
        "seconds": rng.choice([5.0, SETTLED]),
        "messages": 20,
        "stuck": rng.choice([0.0, 60.0]),
        "manual": 0.0,
    }


def _rough_sends(cast):
    """Producers are cut off, not answered, slowed; brokers go and come."""
    rng = cast.rng
    faults = []
    for _ in range(rng.choice([1, 2, 4])):
        at, who = rng.uniform(1, 20), cast.producer()
        code = rng.choice([SEND, SEND_BATCH])
        seconds = rng.choice([1.0, 5.0, 15.0])
        kind = rng.choice(
            ["lose answers", "lose answers", "lose requests", "lose requests", "cut", "isolate",
             "pause", "slow network", "broker restart", "broker freeze"]
        )  # fmt: skip
        if kind.startswith("broker"):
            who = cast.broker()
        faults.append(
            Fault(at, kind, who, 0.0 if kind == "cut" else seconds, code if "lose" in kind else 0)
        )
    return {
        "faults": faults,
        "messages": 30,
        "seconds": 20.0,
        "handling": 0.0,
        "keys": rng.choice([1, 3]),
    }


PLOTS = (
    _anything, _anything, _anything, _anything,
    _comings_and_goings, _comings_and_goings,
    _finished_ahead, _finished_ahead,
    _heir_without_messages,
    _late_record,
    _overslept, _overslept,
    _forgotten_locks, _forgotten_locks,
    _unanswered_commits, _unanswered_commits,
    _late_start,
    _resets, _resets,
    _resets_and_more,
    _rough_sends, _rough_sends, _rough_sends,
    *PARKING_PLOTS,
    *BROKER_PLOTS,
)  # fmt: skip
