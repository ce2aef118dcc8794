"""Traffic through failing handlers in virtual time: keys in lanes, one message of a key at a time.

Seeded: the same scenario, rule and seed give the same run.
"""

import heapq
import itertools
import random
import zlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.poison_faults import BadPayload

WORK = 0.02  # seconds of a handler call
PROMPT, LONE, FEW, AFTER_OUTAGE, PATIENT = 5.0, 120.0, 180.0, 300.0, 1_200.0  # budgets, seconds


@dataclass(frozen=True, slots=True)
class Message:
    key: int
    number: int  # of its key, from 0
    offset: int


@dataclass(frozen=True, slots=True)
class Bad:
    """Messages that always fail: the first one of each key sent at `start` or later.

    Each is to be found within `budget` seconds from its first failure, or from `after` if that is
    later: the end of an outage. `held`: it need not be found, because many share it.
    """

    raises: Callable
    keys: tuple = (7,)
    start: float = 60.0
    budget: float = LONE
    after: float = 0.0
    held: bool = False


@dataclass(frozen=True, slots=True)
class Trouble:
    """Tries that fail because of something else, by `chance`, from `start` to `end` (seconds)."""

    raises: Callable
    start: float
    end: float
    chance: float = 1.0
    keys: Callable = lambda key: True
    up_of: tuple = (0.0, 1.0)  # up for the first seconds of each period of so many seconds
    kind: Callable = lambda message: True

    def hits(self, message, now, draw):
        up, period = self.up_of
        return (
            self.start <= now < self.end
            and now % period >= up
            and self.keys(message.key)
            and self.kind(message)
            and draw.random() < self.chance
        )


@dataclass(frozen=True, slots=True)
class Late:
    """Messages that fail for `seconds` after their first try, and then no more."""

    raises: Callable
    keys: tuple
    seconds: float
    start: float = 60.0


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    faults: tuple
    keys: int = 60
    rate: float = 6.0  # messages a second, of all keys
    seconds: float = 900.0
    fatal: tuple = ()
    transient: tuple = (ConnectionError, TimeoutError)


@dataclass(slots=True)
class Lane:
    waiting: deque = field(default_factory=deque)
    busy: bool = False
    parked: bool = False
    first_failed: float | None = None
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Parked:
    message: Message
    at: float
    tries: int


@dataclass(slots=True)
class Run:
    """What happened: `bad` is message -> (fault, its first failure)."""

    parked: list = field(default_factory=list)
    bad: dict = field(default_factory=dict)
    handled: int = 0
    tries: int = 0


class Simulation:
    """One run of a scenario under one rule."""

    def __init__(self, scenario, rule, seed=1):
        self.scenario, self.rule = scenario, rule
        self.draw = random.Random(zlib.crc32(scenario.name.encode()) + seed)
        self.lanes = [Lane() for _ in range(scenario.keys)]
        self.events, self.order = [], itertools.count()
        self.chosen, self.late_since, self.run = {}, {}, Run()

    def play(self):
        self._send_all()
        while self.events:
            now, _, step, *given = heapq.heappop(self.events)
            if now > self.scenario.seconds:
                break
            step(now, *given)
        return self.run

    def _at(self, when, step, *given):
        heapq.heappush(self.events, (when, next(self.order), step, *given))

    def _send_all(self):
        now, numbers = 0.0, [0] * self.scenario.keys
        for offset in itertools.count():
            now += self.draw.expovariate(self.scenario.rate)
            if now > self.scenario.seconds:
                return
            key = self.draw.randrange(self.scenario.keys)
            message = Message(key, numbers[key], offset)
            numbers[key] += 1
            self._choose(message, now)
            self._at(now, self._arrive, message)

    def _choose(self, message, now):
        """Make it one of the bad or late ones if it is the first of its key that can be."""
        for place, fault in enumerate(self.scenario.faults):
            if isinstance(fault, Trouble) or message.key not in fault.keys or now < fault.start:
                continue
            self.chosen.setdefault((place, message.key), message)

    def _arrive(self, now, message):
        lane = self.lanes[message.key]
        lane.waiting.append(message)
        if not lane.busy and not lane.parked:
            lane.busy = True
            self._begin(now, lane)

    def _begin(self, now, lane):
        wait = self.rule.admit(lane.waiting[0].key, now)
        if wait > 0:
            self._at(now + wait * self.draw.uniform(1.0, 1.1), self._begin, lane)
        else:
            self._at(now + WORK * self.draw.uniform(0.5, 1.5), self._end, lane)

    def _end(self, now, lane):
        message = lane.waiting[0]
        self.run.tries += 1
        lane.tries += 1
        try:
            self._handle(message, now)
        except Exception as error:  # noqa: BLE001 - as a consumer does
            self._failed(now, lane, message, error)
            return
        self.rule.succeeded(message.key, now)
        self.run.handled += 1
        self._next(now, lane)

    def _handle(self, message, now):
        for place, fault in enumerate(self.scenario.faults):
            if isinstance(fault, Trouble):
                if fault.hits(message, now, self.draw):
                    fault.raises(message, self.draw)
            elif self.chosen.get((place, message.key)) == message:
                if isinstance(fault, Bad):
                    self.run.bad.setdefault(message, (fault, now))
                elif now - self.late_since.setdefault(message, now) >= fault.seconds:
                    continue
                fault.raises(message, self.draw)

    def _failed(self, now, lane, message, error):
        wait = self.rule.failed(message.key, message.offset, error, now)
        if wait is None:
            self.run.parked.append(Parked(message, now, lane.tries))
            lane.parked = True
            self.rule.forget(message.key)
        else:
            self._at(now + wait * self.draw.uniform(0.75, 1.0), self._begin, lane)

    def _next(self, now, lane):
        lane.waiting.popleft()
        lane.tries = 0
        if lane.waiting:
            self._begin(now, lane)
        else:
            lane.busy = False


NAMED = (BadPayload, ValueError, KeyError, TypeError)
"""Classes that users name as fatal."""
