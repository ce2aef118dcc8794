"""What happens in one simulated history, as plain data that can be cut down."""

import dataclasses
import random
from dataclasses import dataclass, replace

LOCK, UNLOCK, COMMIT, QUERY, PULL, MEMBERS, SEND, SEND_BATCH = 41, 42, 15, 14, 11, 38, 310, 320
ENDS, FIND = 202, 12
NO_INDEX = 1e9  # seconds
COPIES = ("late copy", "send again")  # what comes once more, from a producer or another program
RETRIES = 2  # of a producer that nothing is said of
BACK, TO_THE_END = 0, 100  # where an offset reset goes, percent of what is committed
ONCE, TWICE, UNKNOWN = 0, 1, 2  # an operator's command: so often, or about a key that is not parked
MADE_BY_HAND, MADE_BY_SENDS, PARK_TOPIC = 1, 2, 4  # of a topic of records: how it comes back, which
WRITTEN = 1  # a queue that a topic grows by gets messages
ACTS = ("release", "drop", "try", "add", "look")  # what an operator does about parked keys
FORGERIES = (  # what somebody appends who may write records; methods of `forgers.Forger`
    "state again", "park again", "another queues",
    "changed entry", "takeover", "damage", "parked message", "line",
)  # fmt: skip
_STUCK = 0.4  # share of the keys that fail for a while, where some do and there is no storm
SETTLED = 30.0  # seconds after which members that nothing disturbs have shared the queues

_SHARES = (
    "failing", "slow", "unwanted", "stuck", "keyless", "poison", "manual", "dying", "extending",
    "storm", "sent_again",
)  # fmt: skip


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, or that somebody does.

    A seek goes to `code` percent of what is committed, up to 100; beyond, so much of what is not.

    Attributes:
        at: seconds from the start.
        kind: what; a method of `strikes.Strikes` has its name.
        who: "member 1", "producer 0" or "broker 0"; "" for none of them.
        seconds: how long.
        code: the request it is about; of an offset reset: where to, in percent (one
            while no member runs, too); of an operator's command: ONCE, TWICE or UNKNOWN (an add is
            about a key that waits, or any); of deleted records: flags, as MADE_BY_HAND; of lost
            ones, also in a power cut: how many at most; of a slow network: milliseconds at most; of
            forged records: which of FORGERIES; of a topic that grows: WRITTEN, or only to be read.
            A kill at SEND is one at a record or a parked message.
    """

    at: float
    kind: str
    who: str = ""
    seconds: float = 0.0
    code: int = 0

    @property
    def end(self):
        return self.at + self.seconds

    def __str__(self):
        seconds = f"for {self.seconds:.1f} s" if self.seconds else ""
        code = f"({self.code})" if self.code else ""
        return " ".join(filter(None, (self.kind, code, self.who, seconds)))


@dataclass(frozen=True)
class Scenario:
    """One history.

    Attributes:
        seed: of the kernel's choices, and of the handlers' behaviour.
        members, producers, brokers: how many.
        queues: per broker.
        messages: how many each producer sends, to `keys` keys of its own, within `seconds`.
        burst: how many of them at once.
        retries: of a producer; with more than usual it is also patient for as long as it takes.
        handling: seconds a handler usually takes for a message.
        settings: of the consumers' configuration; their `order` is in it.
        failing, slow: share of messages whose first handling fails, or takes long.
        stuck: seconds from the start for which some keys fail, whatever is done.
        storm: share of the keys that do so at a listener; 0: the handlers are no listeners.
        keyless: share of messages without a key.
        bodies: messages that a lane keeps with their bodies.
        unwanted: share of messages with a tag that the group does not subscribe to.
        poison: share of messages with a key for which the handler answers Park, until `fixed`.
        killers: how many messages end the process that handles them, until `fixed`.
        fixed: seconds from the start at which a better handler is deployed.
        engine: what runs the handlers: "thread", "async" or "process".
        plain: handlers touch nothing of their context, so that quick ones are called in bursts.
        manual: share of the keys whose messages are committed by the handler, until the faults are
            over; then a handler is deployed that keeps nothing.
        dying: share of calls in which the worker process ends, with `engine` "process".
        extending: share of messages for which the handler extends the lease.
        secrets: of the members and the operator, for their records.
        sent_again: share of the messages whose first attempt is late, if it ever comes.
        index: seconds until a broker finds a message by its id; `NO_INDEX`: it never does.
        joins: seconds from the start at which all members start at once; 0: soon, one by one.
        faults: what goes wrong, by time.
    """

    seed: int
    members: int
    producers: int
    brokers: int
    queues: int
    messages: int
    keys: int
    burst: int
    retries: int
    seconds: float
    handling: float
    settings: tuple
    failing: float
    slow: float
    unwanted: float
    stuck: float
    storm: float
    keyless: float
    bodies: int
    poison: float
    killers: int
    fixed: float
    engine: str
    plain: bool
    manual: float
    dying: float
    extending: float
    secrets: str
    sent_again: float
    index: float
    joins: float
    faults: tuple

    @property
    def end(self):
        """Seconds from the start after which no fault is left."""
        better = self.fixed if self.poison or self.killers else 0.0
        return max(
            [self.seconds, self.joins, self.stuck, better, *(fault.end for fault in self.faults)]
        )

    @property
    def forged(self):
        """Whether somebody forges records: then a history is judged by what is handled alone."""
        return self._has(("forge",))

    @property
    def repeats(self):
        """Whether copies of messages are stored, for all that is known."""
        return bool(self.sent_again) or self.retries != RETRIES or self._has(COPIES)

    def _has(self, kinds):
        return any(fault.kind in kinds for fault in self.faults)

    def is_stuck(self, key):
        """Whether the key is one of those that fail for a while."""
        drawn = random.Random(f"{self.seed} stuck {key}").random()
        return self.stuck > 0 and drawn < (self.storm or _STUCK)

    def smaller(self):
        """Scenarios with less in them."""
        for fault in self.faults:
            yield replace(self, faults=tuple(f for f in self.faults if f is not fault))
        for name in ("members", "producers", "brokers", "queues", "messages", "keys"):
            value = getattr(self, name)
            for less in dict.fromkeys((1, value // 2, value - 1)):
                if 1 <= less < value:
                    yield _of_those_that_exist(replace(self, **{name: less}))
        for name in _SHARES:
            if getattr(self, name):
                yield replace(self, **{name: 0.0})
        if self.engine != "thread":
            yield replace(self, engine="thread", dying=0.0)
        if self.plain and not self.manual:
            yield replace(self, plain=False)
        for fewer in range(self.killers):
            yield replace(self, killers=fewer)

    def __str__(self):
        fields = [f.name for f in dataclasses.fields(self) if f.name != "faults"]
        told = [", ".join(f"{name}={getattr(self, name)}" for name in fields)]
        return "\n".join(told + [f"  {fault.at:7.1f} s  {fault}" for fault in self.faults])


def _of_those_that_exist(scenario):
    """Leave out the faults of members, producers and brokers that are no longer there."""
    known = {""} | {
        f"{role} {index}"
        for role in ("member", "producer", "broker")
        for index in range(getattr(scenario, f"{role}s"))
    }
    return replace(scenario, faults=tuple(f for f in scenario.faults if f.who in known))
