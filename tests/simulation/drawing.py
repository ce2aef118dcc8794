"""From a seed to a scenario: most histories are short, and each kind of trouble has its share.

A plot says which faults meet: some defects need two of them at the right moment, which faults
drawn one by one would almost never bring about.
"""

import random

from tests.simulation.scenario import (
    BACK,
    COMMIT,
    LOCK,
    MEMBERS,
    PULL,
    QUERY,
    SEND,
    SEND_BATCH,
    SETTLED,
    TO_THE_END,
    UNLOCK,
    Fault,
    Scenario,
)

_CODES = (LOCK, UNLOCK, COMMIT, QUERY, PULL, MEMBERS, SEND)


def draw(seed):
    """The scenario of a seed."""
    rng = random.Random(f"scenario {seed}")
    members = rng.choice([1, 2, 2, 3])
    producers, brokers = rng.choice([1, 1, 1, 2]), rng.choice([1, 1, 1, 2])
    plot = rng.choice(_PLOTS)
    changes = plot(_Cast(rng, members, producers, brokers))
    drawn = {
        "seed": seed,
        "members": members,
        "producers": producers,
        "brokers": brokers,
        "queues": rng.choice([1, 2, 2, 4]),
        "messages": rng.choice([5, 10, 20]),
        "keys": rng.choice([1, 3, 8]),
        "burst": rng.choice([1, 5, 20]),
        "seconds": rng.choice([5.0, 10.0, 20.0]),
        "handling": rng.choice([0.0, 0.01, 0.5, 2.0]),
        "settings": {
            "order": rng.choice(["queue", "key"]),
            "batch_size": rng.choice([1, 1, 1, 3]),
            "max_reconsume_times": rng.choice([None, None, None, 2]),
            "concurrency": rng.choice([1, 2, 4, 8]),
            "commit_interval": rng.choice([5.0, 5.0, 1.0, 0.3]),
            "max_suspend": rng.choice([2.0, 10.0, 60.0]),
            "max_span": rng.choice([1_000_000, 1_000_000, 3, 10]),
            "pull_threshold": rng.choice([1000, 1000, 1000, 4]),
            "pull_batch": rng.choice([32, 32, 3]),
        },
        "failing": rng.choice([0.0, 0.0, 0.1, 0.3]),
        "slow": rng.choice([0.0, 0.0, 0.0, 0.1]),
        "unwanted": rng.choice([0.0, 0.0, 0.0, 0.3]),
        "stuck": rng.choice([0.0, 0.0, 0.0, 15.0, 40.0]),
        "keyless": rng.choice([0.0, 0.0, 0.0, 0.2]),
        "bodies": rng.choice([64, 64, 2]),
    }
    settings = drawn["settings"] | changes.pop("settings", {})
    drawn |= changes
    drawn["settings"] = tuple(settings.items())
    drawn["faults"] = tuple(sorted(drawn.get("faults", ()), key=lambda fault: fault.at))
    return Scenario(**drawn)


class _Cast:
    """Who may be struck, and the draws that plots share."""

    def __init__(self, rng, members, producers, brokers):
        self.rng = rng
        self.members = members
        self._producers = producers
        self._brokers = brokers

    def member(self):
        return f"member {self.rng.randrange(self.members)}"

    def producer(self):
        return f"producer {self.rng.randrange(self._producers)}"

    def broker(self):
        return f"broker {self.rng.randrange(self._brokers)}"

    def fault(self, kind, at):
        """A fault of this kind, of a length that matters."""
        return getattr(self, "_" + kind.replace(" ", "_"))(at)

    def _kill(self, at):
        return Fault(at, "kill", self.member(), self.rng.choice([1.0, 10.0, 50.0]))

    def _kill_at(self, at):
        armed = self.rng.choice([5.0, 20.0])
        return Fault(at, "kill at", self.member(), armed, self.rng.choice([SEND, SEND, COMMIT]))

    def _pause_at(self, at):
        rng = self.rng
        seconds, code = rng.choice([12.0, rng.uniform(61, 72)]), rng.choice([QUERY, SEND, COMMIT])
        return Fault(at, "pause at", self.member(), seconds, code)

    def _blind_start(self, at):
        return Fault(at, "blind start", self.member(), self.rng.uniform(1, 20))

    def _isolate(self, at):
        return Fault(at, "isolate", self.member(), self.rng.choice([10.0, 35.0, 70.0]))

    def _close(self, at):
        return Fault(at, "close", self.member(), self.rng.uniform(0.1, 20))

    def _pause(self, at):
        rng = self.rng
        seconds = rng.choice([rng.uniform(0.1, 5), rng.uniform(29, 40), rng.uniform(58, 75)])
        return Fault(at, "pause", self.member(), seconds)

    def _cut(self, at):
        return Fault(at, "cut", self.rng.choice([self.member(), self.producer()]))

    def _partition(self, at):
        rng = self.rng
        return Fault(at, "partition", self.member(), rng.choice([5.0, 31.0, rng.uniform(58, 70)]))

    def _slow_network(self, at):
        who = self.rng.choice([self.member(), self.producer()])
        return Fault(at, "slow network", who, self.rng.uniform(0.5, 20))

    def _lose_answers(self, at):
        return Fault(at, "lose answers", self.member(), self._long(), self.rng.choice(_CODES))

    def _lose_requests(self, at):
        return Fault(at, "lose requests", self.member(), self._long(), self.rng.choice(_CODES))

    def _long(self):
        return self.rng.choice([5.0, 20.0, 62.0])

    def _broker_restart(self, at):
        return Fault(at, "broker restart", self.broker(), self.rng.choice([0.1, 3.0, 20.0]))

    def _broker_freeze(self, at):
        return Fault(at, "broker freeze", self.broker(), self.rng.choice([1.0, 8.0, 33.0, 62.0]))

    def _name_server_down(self, at):
        return Fault(at, "name server down", "", self.rng.uniform(1, 40))

    def _grow(self, at):
        return Fault(at, "grow")


_KINDS = (
    "kill", "kill at", "close", "blind start", "isolate", "pause", "pause at", "cut", "partition", "slow network",
    "lose answers", "lose requests", "broker restart", "broker freeze", "name server down", "grow",
)  # fmt: skip


# --- plots: each returns what it wants to be so ---------------------------------------------------


def _anything(cast):
    """Faults one by one."""
    rng = cast.rng
    kinds = rng.sample(_KINDS, k=rng.randint(1, 4))
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
    faults = [cast.fault(rng.choice(kinds), rng.uniform(2, 25)) for _ in range(rng.choice([1, 2, 4]))]
    return {
        "faults": faults,
        "stuck": rng.choice([20.0, 40.0]),
        "messages": 20,
        "keys": rng.choice([3, 8]),
        "handling": rng.choice([0.0, 0.01, 0.5]),
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
        faults.append(cast.fault(rng.choice(_KINDS), at + rng.uniform(0, 60)))
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
    backlog = {"bodies": 2, "handling": 2.0, "messages": 20, "keys": rng.choice([1, 3])}
    return {"faults": faults, "seconds": SETTLED, **(backlog if rng.random() < 0.5 else {})}


def _resets_and_more(cast):
    """An operator resets the group's offsets, and other things go wrong, too."""
    rng, more = cast.rng, _anything(cast)
    reset = Fault(rng.uniform(5, 25), "offset reset", code=rng.choice([BACK, 50, TO_THE_END]))
    return {"faults": [reset, *more["faults"]]}


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


_PLOTS = (
    _anything, _anything, _anything,
    _comings_and_goings,
    _finished_ahead, _finished_ahead,
    _heir_without_messages,
    _late_record,
    _overslept,
    _forgotten_locks, _forgotten_locks,
    _late_start,
    _resets,
    _resets_and_more,
    _rough_sends, _rough_sends,
)  # fmt: skip
