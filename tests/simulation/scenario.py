"""What happens in one simulated history, drawn from a seed, as plain data that can be cut down."""

import random
from dataclasses import dataclass, replace

QUIET = 130.0  # seconds from the start, after which no fault begins any more


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, or that somebody does, at a moment (seconds from the start)."""

    at: float
    kind: str
    member: int = 0
    seconds: float = 0.0
    code: int = 0

    def __str__(self):
        details = f" {self.seconds:.1f} s" if self.seconds else ""
        code = f" code {self.code}" if self.code else ""
        return f"{self.at:7.1f} {self.kind} member {self.member}{details}{code}"


@dataclass(frozen=True)
class Scenario:
    """One history.

    Attributes:
        seed: of the kernel's choices, and of the handlers' behaviour.
        members, queues, brokers: how many.
        messages: how many are sent, to random keys, over the time of the faults.
        burst: how many at once.
        seconds: how long a handler usually takes for a message.
        settings: of the consumers' configuration.
        failing, slow: share of first deliveries whose handler fails, or takes long.
        faults: what goes wrong.
    """

    seed: int
    members: int
    queues: int
    brokers: int
    messages: int
    keys: int
    burst: int
    seconds: float
    settings: tuple
    failing: float
    slow: float
    faults: tuple

    def without(self, fault):
        return replace(self, faults=tuple(f for f in self.faults if f is not fault))


LOCK, UNLOCK, COMMIT, QUERY, PULL, MEMBERS, SEND = 41, 42, 15, 14, 11, 38, 310
_CODES = (LOCK, UNLOCK, COMMIT, QUERY, PULL, MEMBERS, SEND)


def draw(seed):
    """The scenario of a seed."""
    rng = random.Random(f"scenario {seed}")
    members = rng.choice([1, 2, 2, 3, 3])
    kinds = rng.sample(list(_DRAWN), k=rng.randint(1, 4))
    faults = [
        _DRAWN[rng.choice(kinds)](rng, members) for _ in range(rng.choice([0, 1, 2, 3, 4, 6]))
    ]
    return Scenario(
        seed=seed,
        members=members,
        queues=rng.choice([1, 2, 3, 4]),
        brokers=rng.choice([1, 1, 1, 2]),
        messages=rng.choice([5, 30, 60]),
        burst=rng.choice([1, 5, 20]),
        seconds=rng.choice([0.0, 0.01, 0.5, 2.0]),
        keys=rng.choice([1, 3, 8]),
        settings=(
            ("batch_size", rng.choice([1, 1, 1, 3])),
            ("max_reconsume_times", rng.choice([None, None, None, 2])),
            ("max_workers", rng.choice([1, 2, 20])),
        ),
        failing=rng.choice([0.0, 0.0, 0.1, 0.3]),
        slow=rng.choice([0.0, 0.0, 0.05, 0.2]),
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
    )


def _moment(rng):
    return rng.uniform(1.0, QUIET)


def _long(rng):
    return rng.choice([5.0, 20.0, 70.0])


def _kill(rng, members):
    return Fault(_moment(rng), "kill", rng.randrange(members), rng.uniform(1, 90))


def _blind_start(rng, members):
    """A member comes back and is not told where the group is."""
    return Fault(_moment(rng), "blind start", rng.randrange(members), rng.uniform(1, 20))


def _isolate(rng, members):
    """A member is cut off for longer than the lease, and comes back."""
    return Fault(_moment(rng), "isolate", rng.randrange(members), rng.uniform(20, 100))


def _close(rng, members):
    return Fault(_moment(rng), "close", rng.randrange(members), rng.uniform(0.1, 30))


def _pause(rng, members):
    seconds = rng.choice([rng.uniform(0.1, 5), rng.uniform(29, 40), rng.uniform(58, 100)])
    return Fault(_moment(rng), "pause", rng.randrange(members), seconds)


def _cut(rng, members):
    return Fault(_moment(rng), "cut", rng.randrange(members))


def _partition(rng, members):
    seconds = rng.choice([rng.uniform(0.5, 10), rng.uniform(29, 60), rng.uniform(60, 100)])
    return Fault(_moment(rng), "partition", rng.randrange(members), seconds)


def _slow_network(rng, members):
    return Fault(_moment(rng), "slow network", rng.randrange(members), rng.uniform(0.5, 20))


def _lose_answers(rng, members):
    return Fault(
        _moment(rng), "lose answers", rng.randrange(members), _long(rng), rng.choice(_CODES)
    )


def _lose_requests(rng, members):
    return Fault(
        _moment(rng), "lose requests", rng.randrange(members), _long(rng), rng.choice(_CODES)
    )


def _restart(rng, members):
    return Fault(_moment(rng), "broker restart", 0, rng.choice([0.1, 3.0, 20.0]))


def _freeze(rng, members):
    return Fault(_moment(rng), "broker freeze", 0, rng.choice([1.0, 8.0, 45.0, 70.0]))


def _name_server(rng, members):
    return Fault(_moment(rng), "name server down", 0, rng.uniform(1, 40))


def _grow(rng, members):
    return Fault(_moment(rng), "grow")


_DRAWN = {
    "kill": _kill,
    "close": _close,
    "blind start": _blind_start,
    "isolate": _isolate,
    "pause": _pause,
    "cut": _cut,
    "partition": _partition,
    "slow network": _slow_network,
    "lose answers": _lose_answers,
    "lose requests": _lose_requests,
    "broker restart": _restart,
    "broker freeze": _freeze,
    "name server down": _name_server,
    "grow": _grow,
}
