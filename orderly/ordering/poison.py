"""Is it the message, or is it everything? The verdict about a failing message.

A count of attempts does not show it, and neither does an exception's class. The other keys do:
they go through the same handler at the same time, so they are the control group. `Verdicts` has
the rules; its parts come first: circuits, what a verdict says, and what is remembered of tries.
`throttle` is about keys that have not failed.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from math import inf
from typing import final

from orderly.config.arguments import check_count, check_number
from orderly.config.fields import require
from orderly.ordering.backoff import doubled
from orderly.ordering.lru import put_latest
from orderly.ordering.throttle import AT_ONCE, Throttle

# --- a circuit as a value: closed, open, or half-open while one message probes --------------------
# It holds the keys that fail in one way. Open, they wait; after a growing wait one of them may try.
# If that fails the wait grows, if it succeeds the circuit is gone. Time is an argument (seconds).


class CircuitState(Enum):
    """Whether messages may pass."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


@final
@dataclass(frozen=True, slots=True)
class Circuit:
    """Immutable: each step returns the next circuit.

    Attributes:
        state: whether messages may pass.
        since: when it was opened.
        failed_probes: since it was opened.
        due: open: from when on a message may probe; half-open: from when on the probe counts as
            lost and another one may.
        probe: the key that probes, or probed, last.
        probes: keys whose message was let through as a probe and is not heard of yet. Several, if
            they take longer than a probe may before it counts as lost.
    """

    state: CircuitState
    since: float
    failed_probes: int = 0
    due: float = 0.0
    probe: Hashable | None = None
    probes: frozenset[Hashable] = frozenset()

    @property
    def closed(self) -> bool:
        """Whether everything passes."""
        return self.state is CircuitState.CLOSED

    def opened(self, now: float, first_wait: float) -> Circuit:
        """Open it; nothing changes if it is not closed."""
        if not self.closed:
            return self
        return Circuit(CircuitState.OPEN, now, due=now + first_wait)

    def waits(self, now: float) -> float:
        """Return for how many seconds nothing may pass; 0.0: the next one to ask probes."""
        return 0.0 if self.closed else max(0.0, self.due - now)

    def probing(self, key: Hashable, now: float, lost_after: float) -> Circuit:
        """`key`'s message probes now."""
        probes = self.probes | {key}
        due = now + lost_after
        return replace(self, state=CircuitState.HALF_OPEN, due=due, probe=key, probes=probes)

    def failed(self, key: Hashable, now: float, first_wait: float, longest_wait: float) -> Circuit:
        """A message failed. Only a probe's failure means anything: the next wait is longer."""
        if key not in self.probes:
            return self
        wait = doubled(self.failed_probes + 2, first_wait, longest_wait)
        failed_probes, probes = self.failed_probes + 1, self.probes - {key}
        return Circuit(CircuitState.OPEN, self.since, failed_probes, now + wait, key, probes)

    def given_back(self, key: Hashable, now: float) -> Circuit:
        """A probe came to nothing: the next one to ask probes in its place."""
        if key not in self.probes:
            return self
        rest = replace(self, probes=self.probes - {key})
        half = self.state is CircuitState.HALF_OPEN
        return replace(rest, state=CircuitState.OPEN, due=now) if half else rest


CLOSED = Circuit(CircuitState.CLOSED, since=-inf)
"""A circuit that holds nobody."""


# --- what a verdict says, and the numbers of the rules --------------------------------------------


class FailureKind(Enum):
    """What `on_error` says about a failure by its exception class."""

    ORDINARY = "no class says anything"
    FATAL = "retries do not help"
    TRANSIENT = "it is transient"


class Finding(Enum):
    """What a failing message needs."""

    RETRY = "try again"
    POISON = "the message is bad: retries do not help"
    OUTAGE = "something else is down: parking would hit good messages"


class VerdictReason(Enum):
    """The reason; each is a rule of `Verdicts`."""

    TOO_EARLY = "not enough tries, or not far enough apart"
    NO_CONTROL = (
        "too few other keys succeeded meanwhile to know whether the message or the handler is bad"
    )
    FATAL = "retries do not help against a failure of this kind"
    SAME_FAILURE = "it fails in the same way each time, while other keys succeed"
    EXHAUSTED = "it has failed for too long, while other keys succeed"
    MOST_FAIL = "most other keys fail, too"
    SHARED = "other keys fail in the same way"
    UNPAID = "too few other keys succeeded since the last bad message: perhaps a bad deploy"
    BUDGET = "the limit of bad messages (most_poisoned) is reached"


@final
@dataclass(frozen=True, slots=True)
class Evidence:
    """The reasons of a verdict.

    Attributes:
        attempts: of this message, those too close together counted as one.
        same: the last ones of them, which failed in the same way.
        seconds: since the message failed first.
        others: other keys tried lately.
        failing: those of them whose last try failed.
        alike: those of them whose last try failed in the same way.
        sharing: other keys that fail in the same way now, or were poisoned by it lately.
        quiet: seconds since the last of those that fail now began to.
        control: other keys that succeeded since the message failed first; counted up to what
            `PoisonRules.control_keys` needs.
    """

    attempts: int
    same: int
    seconds: float
    others: int
    failing: int
    alike: int
    sharing: int
    quiet: float
    control: int


_NOT_COMPARED = Evidence(1, 1, 0.0, 0, 0, 0, 0, 0.0, 0)


@final
@dataclass(frozen=True, slots=True)
class PoisonVerdict:
    """About one failure.

    Attributes:
        finding: what the message needs.
        reason: the rule that decided.
        wait: seconds until the next try; 0.0 after POISON. Spread it by chance.
        evidence: its reasons.
        circuit: the one that holds the key; closed if none does.
    """

    finding: Finding
    reason: VerdictReason
    wait: float
    evidence: Evidence
    circuit: Circuit


@final
@dataclass(frozen=True, slots=True)
class PoisonRules:
    """The numbers of the rules; the rules are described at `Verdicts`.

    Attributes:
        attempts: tries of one message that fail in the same way.
        spacing: seconds; tries closer together count as one.
        span: seconds from the first to the last of them.
        patience: seconds instead of `span` where the tries prove little: for transient classes,
            failures that went away for other messages, and failures that change.
        control_keys: other keys that must succeed.
        shared_keys: if this many keys fail in the same way, this one included, it is an outage.
        outage_ratio: the part of the keys tried lately that must fail for everything to count as
            failing.
        window: how many seconds "lately" means.
        memory: seconds for which a poisoned message, or a failure that went away, is remembered.
        most_poisoned: messages per `memory` seconds. Besides, of those that cannot be read: in a
            row; each message that succeeds makes room for one more.
        first_wait: seconds after the first failure, doubled each time.
        longest_wait: seconds.

    Raises:
        ConfigError: a number outside its range, or two that contradict each other.
    """

    attempts: int = 5
    spacing: float = 0.5
    span: float = 60.0
    patience: float = 900.0
    control_keys: int = 5
    shared_keys: int = 5
    outage_ratio: float = 0.5
    window: float = 300.0
    memory: float = 3600.0
    most_poisoned: int = 20
    first_wait: float = 1.0
    longest_wait: float = 60.0

    def __post_init__(self) -> None:
        for name, low in _LEAST_COUNTS.items():
            check_count(name, getattr(self, name), low)
        for field in fields(self):
            if field.name not in _LEAST_COUNTS:
                check_number(field.name, getattr(self, field.name), 0)
        check_number("outage_ratio", self.outage_ratio, 0.1, 1.0)
        for shorter, longer in _ORDERED:
            require(
                0 < getattr(self, shorter) <= getattr(self, longer),
                f"{shorter} must be above 0 and not above {longer}",
            )


_LEAST_COUNTS = {"attempts": 2, "control_keys": 1, "shared_keys": 2, "most_poisoned": 1}
_ORDERED = (
    ("spacing", "first_wait"),  # or no try would count
    ("first_wait", "longest_wait"),
    ("longest_wait", "window"),  # or a waiting key would be forgotten between two tries
    ("span", "patience"),
    ("window", "memory"),
)


# --- what is remembered of tries, bounded for any traffic -----------------------------------------


_SEEN = 100  # keys tried last: enough for a ratio, few enough to be scanned at each failure
_SUSPECTS = AT_ONCE  # keys whose message fails now; of one more, the one that failed longest ago
# is forgotten, and counts as one that has not failed
_FINGERPRINTS = 256
_MOST_ROOM = 100  # messages that succeeded, each of which makes room for one that cannot be read


@dataclass(slots=True)
class Suspect:
    """A message that fails.

    Attributes:
        offset: the message's.
        behind: messages poisoned by the same fingerprint before this one failed.
        first_at: of its first failure that counts.
        fingerprint: of its last failure.
        same_since: since when it is that one.
        last_at: of its last failure.
        counted_at: of the last one that was not too close to the one before.
        attempts: those that count.
        same: the last ones of them, with this fingerprint.
        failures: all of them, for the waits.
        poisoned: it was found poisoned.
    """

    offset: int
    behind: int
    first_at: float
    fingerprint: str
    same_since: float
    last_at: float
    counted_at: float
    attempts: int = 1
    same: int = 1
    failures: int = 1
    poisoned: bool = False

    def again(self, fingerprint: str, now: float, spacing: float) -> None:
        """It failed once more."""
        if fingerprint != self.fingerprint:
            self.fingerprint, self.same_since, self.same = fingerprint, now, 0
        self.last_at = now
        if now - self.counted_at >= spacing or self.same == 0:
            self.attempts += now - self.counted_at >= spacing
            self.failures += now - self.counted_at >= spacing
            self.same += 1
            self.counted_at = now

    def restart(self, now: float) -> None:
        """What was counted proves nothing: it failed while everything, or many others, did."""
        self.first_at = self.same_since = self.counted_at = now
        self.attempts = self.same = 1


@dataclass(frozen=True, slots=True)
class Poisoned:
    """A message that was found poisoned."""

    at: float
    key: Hashable
    fingerprint: str


class RecentTries:
    """The tries of late. Not thread-safe; times must not fall.

    Args:
        window: seconds after which a key's last try is forgotten.
        memory: seconds after which a poisoned message, or a failure that went away, is.
        most_poisoned: messages remembered as poisoned.

    Attributes:
        suspects: by key, the one that failed last at the end.
        poisoned: the newest at the end.
    """

    __slots__ = (
        "_circuits",
        "_healed",
        "_memory",
        "_seen",
        "_sharers",
        "_window",
        "poisoned",
        "suspects",
    )

    def __init__(self, window: float, memory: float, most_poisoned: int) -> None:
        self._window = window
        self._memory = memory
        self._seen: OrderedDict[Hashable, tuple[float, str | None]] = OrderedDict()
        self._healed: OrderedDict[str, float] = OrderedDict()
        self._circuits: OrderedDict[str, Circuit] = OrderedDict()
        self._sharers: dict[str, dict[Hashable, float]] = {}  # key -> since when it fails so
        self.suspects: OrderedDict[Hashable, Suspect] = OrderedDict()
        self.poisoned: deque[Poisoned] = deque(maxlen=most_poisoned)

    @property
    def size(self) -> int:
        """Entries held."""
        small = len(self._healed) + len(self._circuits) + len(self.poisoned)
        return len(self._seen) + len(self.suspects) + small

    def saw(self, key: Hashable, fingerprint: str | None, now: float) -> None:
        """`key` was tried; None: it succeeded."""
        put_latest(self._seen, key, (now, fingerprint), _SEEN)
        while next(iter(self._seen.values()))[0] < now - self._window:
            self._seen.popitem(last=False)

    def failed(
        self, key: Hashable, offset: int, fingerprint: str, now: float, spacing: float
    ) -> Suspect:
        """`key`'s message failed; tries within `spacing` seconds count as one."""
        suspect = self.suspects.get(key)
        if suspect is None or suspect.offset != offset:
            self.settle(key)
            behind = sum(p.fingerprint == fingerprint for p in self.poisoned)
            suspect = Suspect(offset, behind, now, fingerprint, now, now, now)
        else:
            if suspect.fingerprint != fingerprint:
                self._leave(key, suspect.fingerprint)
            suspect.again(fingerprint, now, spacing)
        self._sharers.setdefault(fingerprint, {}).setdefault(key, now)
        self.suspects[key] = suspect
        self.suspects.move_to_end(key)
        if len(self.suspects) > _SUSPECTS:
            self.settle(next(iter(self.suspects)))
        return suspect

    def settle(self, key: Hashable) -> Suspect | None:
        """Take `key`'s message, if there is one, off the suspects and return it."""
        suspect = self.suspects.pop(key, None)
        if suspect is not None:
            self._leave(key, suspect.fingerprint)
        return suspect

    def _leave(self, key: Hashable, fingerprint: str) -> None:
        sharers = self._sharers[fingerprint]
        del sharers[key]
        if not sharers:
            del self._sharers[fingerprint]

    def expire(self, now: float) -> None:
        """Forget what is too old to prove anything."""
        while self.poisoned and self.poisoned[0].at < now - self._memory:
            self.poisoned.popleft()
        silent = now - 2 * self._window  # a waiting key fails again in time
        while self.suspects:
            key, suspect = next(iter(self.suspects.items()))
            if suspect.last_at >= silent:
                return
            self.settle(key)

    def unsee(self, key: Hashable) -> None:
        """How `key` was tried last says nothing of the others."""
        self._seen.pop(key, None)

    def forget(self, key: Hashable) -> None:
        """`key` is somebody else's business now."""
        self.settle(key)
        self.unsee(key)

    def heal(self, fingerprint: str, now: float) -> None:
        """A message that failed so succeeded."""
        put_latest(self._healed, fingerprint, now, _FINGERPRINTS)
        self._circuits.pop(fingerprint, None)

    def healed(self, fingerprint: str, since: float) -> bool:
        """Whether that happened since then."""
        return self._healed.get(fingerprint, -inf) >= since

    def circuit(self, fingerprint: str) -> Circuit:
        """The one that holds the keys which fail so."""
        return self._circuits.get(fingerprint, CLOSED)

    @property
    def open_circuits(self) -> frozenset[str | None]:
        """The fingerprints whose keys are held."""
        return frozenset(self._circuits)

    def set_circuit(self, fingerprint: str, circuit: Circuit) -> None:
        """Keep it, or drop it if it is closed."""
        if circuit.closed:
            self._circuits.pop(fingerprint, None)
        else:
            put_latest(self._circuits, fingerprint, circuit, _FINGERPRINTS)

    def others(self, key: Hashable, since: float) -> list[str | None]:
        """Return how the last try of each other key ended since then, the latest first."""
        return [how for _, how in self._tries(key, since)]

    def succeeded(self, key: Hashable, since: float, most: int) -> int:
        """Count other keys whose last try succeeded after `since`, up to `most`."""
        count = 0
        for at, how in self._tries(key, since):
            if count == most:
                break
            count += how is None and at > since
        return count

    def sharing(self, key: Hashable, fingerprint: str, since: float) -> int:
        """Count other keys that fail with it now, or were poisoned by it since then."""
        sharers = self._sharers.get(fingerprint, {})
        of_late = {p.key for p in self.poisoned if p.fingerprint == fingerprint and p.at >= since}
        return len(sharers) - (key in sharers) + sum(k != key and k not in sharers for k in of_late)

    def newest(self, key: Hashable, fingerprint: str) -> float:
        """Return when the last other key that fails with it began to; -inf if there is none."""
        sharers = self._sharers.get(fingerprint, {})
        return next((sharers[k] for k in reversed(sharers) if k != key), -inf)

    def _tries(self, key: Hashable, since: float) -> Iterator[tuple[float, str | None]]:
        for other, (at, how) in reversed(self._seen.items()):
            if at < since:
                return
            if other != key:
                yield at, how


# --- the rules ------------------------------------------------------------------------------------


_GROWTH = 4.0


class Verdicts:
    """Judges the failures of one handler, over all keys of one member.

    These are the rules. The first one that applies decides (names in capitals: `VerdictReason`):

    1.  MOST_FAIL, an outage: of at least `control_keys` keys tried lately, the part `outage_ratio`
        failed. Parking would move everything. Until a message succeeds or no key fails any more,
        keys that have not failed are tried at a limited rate (`throttle`): one that fails then
        waits, all others go on.
    2.  SHARED, an outage: `shared_keys` keys fail in the same way (or were lately poisoned by the
        same failure), or most of the others do. A bad message fails alone; a failure that many
        keys share is a dependency, a deploy or a tenant.
        In both, the circuit of the failure's fingerprint opens and holds only the keys that fail
        so, unless the failure went away for others within the window: then each key waits alone.
        Tries counted in an outage prove nothing afterwards, so counting starts over.
        Fatal classes open no circuit and are no evidence of an outage: the user says that no retry
        helps. If many keys share such a failure, each waits alone; if they are not most of the
        keys, only for `patience` seconds. Then the user's word counts.
    3.  A message that was found poisoned and comes again, because parking failed, needs its proof
        again, but none of the rules 5 to 7.
    4.  Enough of a proof, or TOO_EARLY:
        FATAL: at once, because the user names the class as fatal. But if another key shows the
        same failure, only after `span` and not while the failure spreads, since a bad deploy also
        raises fatal classes.
        SAME_FAILURE: `attempts` tries with one fingerprint over `span` seconds. Tries in quick
        succession see the same short trouble, so those within `spacing` count as one. Not while
        the failure spreads: if another key began to fail with it within `span`, the next ones can
        follow, and the failure will be seen as shared. For each message that this fingerprint has
        poisoned before, `span` is four times as long. So an outage that reaches one slow key after
        the other is seen as shared before the next one is parked.
        EXHAUSTED: twice the tries over `patience` seconds, for transient classes, for fingerprints
        that went away for another message within `memory`, for failures that change, and where the
        grown `span` is longer. A count alone never condemns the first two: they need a full control
        group.
    5.  NO_CONTROL: if `control_keys` other keys were tried lately, as many must have succeeded
        since the message first failed (for a fatal class: within the window). With fewer other
        keys there is no comparison, and the tries, their spacing and the fatal classes decide.
    6.  UNPAID: since the last poisoned message in the window, `control_keys` other keys (or all
        there are, except one) must have succeeded; without other keys, this one. So a failure of
        everything, with any class, parks one message at most.
    7.  BUDGET: `most_poisoned` messages per `memory` seconds.

    Parking can be undone, and `ParkLimits` bounds it. So where a fatal class is to park, the user's
    word counts at once. Of all these rules only 5 and 6 apply, and one success of any key pays.

    What the bytes alone decide, because a body or its decoder fails whenever it is read, needs no
    comparison and is no evidence (`unreadable`). But the decoder may be the wrong one. So
    `most_poisoned` such messages in a row are poison, and then wait alone (BUDGET) until others
    succeed: each makes room for one more, up to a hundred, and so do `window` seconds.

    All errors go in one direction: a bad message that is taken for an outage waits, and holds up
    only its own key; nothing is lost or moved.

    Not thread-safe. Memory is bounded for any number of keys and fingerprints. Times are seconds
    of a clock that does not jump; a time earlier than the last one counts as the last one.
    """

    __slots__ = (
        "_failing",
        "_now",
        "_parked_at",
        "_room",
        "_room_at",
        "_rules",
        "_succeeded_at",
        "_throttle",
    )

    def __init__(self, rules: PoisonRules | None = None) -> None:
        self._rules = PoisonRules() if rules is None else rules
        self._failing = RecentTries(
            self._rules.window, self._rules.memory, self._rules.most_poisoned
        )
        self._throttle = Throttle(self._rules.longest_wait)
        self._room = float(self._rules.most_poisoned)  # for messages that cannot be read
        self._now = self._room_at = self._succeeded_at = self._parked_at = -inf

    def failing_since(self, now: float) -> float | None:
        """Since when most keys fail and none succeeds (seconds); None: it is not so."""
        self._failing.expire(self._tick(now))
        if not self._failing.suspects:  # all were settled otherwise, or are others' now
            self._throttle.turn_off(self._now)
        return self._throttle.since

    @property
    def open_circuits(self) -> frozenset[str | None]:
        """What is held back: by fingerprint the keys that fail so; None: keys that did not fail."""
        held = self._failing.open_circuits
        return held | {None} if self._throttle.holds else held

    @property
    def size(self) -> int:
        """Entries in memory."""
        return self._failing.size

    def admit(self, key: Hashable, now: float) -> float:
        """Ask before each call of the handler.

        Args:
            key: names the queue and the key within it.
            now: seconds.

        Returns:
            0.0: go on, as the probe if a circuit holds the key; then `succeeded`, `failed`,
            `unreadable`, `forget` or `untried` must follow. Otherwise the seconds after which to
            ask again.
        """
        suspect = self._failing.suspects.get(key)
        if suspect is None:
            if self._throttle.since is None or self.failing_since(now) is None:
                return 0.0
            return self._throttle.admit(self._now)
        now, circuit = self._tick(now), self._failing.circuit(suspect.fingerprint)
        wait = circuit.waits(now)
        if not circuit.closed and wait == 0.0:
            probing = circuit.probing(key, now, self._rules.longest_wait)
            self._failing.set_circuit(suspect.fingerprint, probing)
        return wait

    def succeeded(self, key: Hashable, now: float) -> None:
        """The message of `key` in hand is done: the handler acknowledged it."""
        now = self._succeeded_at = self._tick(now)
        suspect = self._failing.settle(key)
        if suspect is not None:
            self._failing.heal(suspect.fingerprint, now)
        self._failing.saw(key, None, now)
        self._throttle.turn_off(now)
        self._room = min(self._room + 1, self._rules.most_poisoned + _MOST_ROOM)

    def failed(
        self,
        key: Hashable,
        offset: int,
        fingerprint: str,
        kind: FailureKind,
        now: float,
        *,
        parks: bool = False,
    ) -> PoisonVerdict:
        """Judge a failure.

        Args:
            key: as for `admit`.
            offset: the message's.
            fingerprint: its digest.
            kind: what the named classes say of it.
            now: seconds.
            parks: whether a message that is poison is parked.
        """
        now, fatal = self._tick(now), kind is FailureKind.FATAL
        parks = parks and fatal
        self._leave(key, fingerprint)
        suspect = self._failing.failed(key, offset, fingerprint, now, self._rules.spacing)
        if fatal:
            self._failing.unsee(key)
        else:
            self._failing.saw(key, fingerprint, now)
        self._failing.expire(now)
        evidence = self._evidence(key, suspect, kind, now)
        self._probe_failed(key, fingerprint, now)
        outage = None if parks else self._outage(key, suspect, evidence, now, fatal=fatal)
        if outage is not None:
            return self._hold(key, suspect, outage, evidence, now, fatal=fatal)
        self._failing.set_circuit(fingerprint, CLOSED)
        finding, reason = self._judge(key, suspect, kind, evidence, now, parks=parks)
        if finding is Finding.RETRY:
            return PoisonVerdict(
                finding, reason, self._wait(suspect, evidence, now), evidence, CLOSED
            )
        if parks:
            self._parked_at = now
        elif not suspect.poisoned:
            self._failing.poisoned.append(Poisoned(now, key, fingerprint))
        suspect.poisoned = True
        return PoisonVerdict(finding, reason, 0.0, evidence, CLOSED)

    def unreadable(
        self, key: Hashable, failures: int, now: float, *, stays: bool = False
    ) -> PoisonVerdict:
        """Judge a failure that the bytes alone decide.

        Args:
            key: as for `admit`.
            failures: of the message, this one included.
            now: seconds.
            stays: whether a message that is poison stays where it is; then it needs no room.
        """
        now, rules = self._tick(now), self._rules
        self.untried(key)
        since = max(self._room_at, now - rules.window * rules.most_poisoned)
        self._room += min((now - since) / rules.window, max(0.0, rules.most_poisoned - self._room))
        self._room_at = now
        if self._room < 1 and not stays:
            wait = doubled(failures, rules.first_wait, rules.longest_wait)
            reason = VerdictReason.BUDGET
            return PoisonVerdict(Finding.RETRY, reason, wait, _NOT_COMPARED, CLOSED)
        self._room -= not stays
        return PoisonVerdict(Finding.POISON, VerdictReason.FATAL, 0.0, _NOT_COMPARED, CLOSED)

    def forget(self, key: Hashable) -> None:
        """The message in hand is settled otherwise: parked, a dead letter, or the queue is lost.

        It says nothing about the handler.
        """
        self._leave(key)
        self._failing.forget(key)

    def untried(self, key: Hashable) -> None:
        """The message in hand was admitted, but not tried: another key may try in its place."""
        self._leave(key)
        if key not in self._failing.suspects:
            self._throttle.untried()

    def _tick(self, now: float) -> float:
        self._now = max(self._now, now)
        return self._now

    def _leave(self, key: Hashable, fingerprint: str | None = None) -> None:
        """`key` no longer probes for its failure until now, unless that is `fingerprint`."""
        suspect = self._failing.suspects.get(key)
        if suspect is not None and suspect.fingerprint != fingerprint:
            circuit = self._failing.circuit(suspect.fingerprint).given_back(key, self._now)
            self._failing.set_circuit(suspect.fingerprint, circuit)

    def _probe_failed(self, key: Hashable, fingerprint: str, now: float) -> None:
        waits = self._rules.first_wait, self._rules.longest_wait
        circuit = self._failing.circuit(fingerprint).failed(key, now, *waits)
        self._failing.set_circuit(fingerprint, circuit)

    def _evidence(self, key: Hashable, suspect: Suspect, kind: FailureKind, now: float) -> Evidence:
        rules = self._rules
        others = self._failing.others(key, now - rules.window)
        fatal = kind is FailureKind.FATAL
        began = now - rules.window if fatal else suspect.first_at
        remembered = now - (rules.window if fatal else rules.memory)
        return Evidence(
            attempts=suspect.attempts,
            same=suspect.same,
            seconds=now - suspect.first_at,
            others=len(others),
            failing=len(others) - others.count(None),
            alike=others.count(suspect.fingerprint),
            sharing=self._failing.sharing(key, suspect.fingerprint, remembered),
            quiet=now - self._failing.newest(key, suspect.fingerprint),
            control=self._failing.succeeded(key, began, rules.control_keys),
        )

    def _outage(
        self, key: Hashable, suspect: Suspect, evidence: Evidence, now: float, *, fatal: bool
    ) -> VerdictReason | None:
        """Rules 1 and 2."""
        rules = self._rules
        shared = evidence.sharing + 1 >= rules.shared_keys
        if fatal:
            # Who fails so fatally is not among the others; who fails so in another way is.
            alike = self._failing.sharing(key, suspect.fingerprint, inf)
            most = alike > 0 and alike + evidence.alike >= evidence.others
            patient = shared and evidence.seconds < rules.patience
            return VerdictReason.SHARED if most or patient else None
        if self._most_fail(key, now):
            self._throttle.turn_on(now)
            return VerdictReason.MOST_FAIL
        most = 2 * evidence.alike >= evidence.others
        return VerdictReason.SHARED if shared or (evidence.alike and most) else None

    def _most_fail(self, key: Hashable, now: float) -> bool:
        """Whether most keys fail; what failed before it was last seen to be over does not count."""
        if self._throttle.since is not None:
            return True
        rules = self._rules
        lately = self._failing.others(key, max(now - rules.window, self._throttle.off_since))
        failing = len(lately) - lately.count(None)
        return len(lately) >= rules.control_keys and failing >= rules.outage_ratio * len(lately)

    def _hold(
        self,
        key: Hashable,
        suspect: Suspect,
        reason: VerdictReason,
        evidence: Evidence,
        now: float,
        *,
        fatal: bool,
    ) -> PoisonVerdict:
        rules, fingerprint = self._rules, suspect.fingerprint
        own = doubled(suspect.failures, rules.first_wait, rules.longest_wait)
        if not fatal:
            suspect.restart(now)
        if fatal or self._failing.healed(fingerprint, now - rules.window):
            return PoisonVerdict(Finding.OUTAGE, reason, own, evidence, CLOSED)
        circuit = self._failing.circuit(fingerprint).opened(now, rules.first_wait)
        self._failing.set_circuit(fingerprint, circuit)
        wait = max(circuit.waits(now), rules.first_wait)
        if circuit.probe == key:
            wait *= 2  # the next probe is another key's: this message may be bad itself
        return PoisonVerdict(Finding.OUTAGE, reason, wait, evidence, circuit)

    def _judge(
        self,
        key: Hashable,
        suspect: Suspect,
        kind: FailureKind,
        evidence: Evidence,
        now: float,
        *,
        parks: bool,
    ) -> tuple[Finding, VerdictReason]:
        """Rules 3 to 7."""
        proof = VerdictReason.FATAL if parks else self._proof(suspect, kind, evidence, now)
        if proof is None:
            return Finding.RETRY, VerdictReason.TOO_EARLY
        if suspect.poisoned:
            return Finding.POISON, proof
        rules = self._rules
        if evidence.others >= rules.control_keys and evidence.control < rules.control_keys:
            return Finding.RETRY, VerdictReason.NO_CONTROL
        if not self._paid(key, evidence, now, parks=parks):
            return Finding.RETRY, VerdictReason.UNPAID
        if not parks and len(self._failing.poisoned) == rules.most_poisoned:
            return Finding.RETRY, VerdictReason.BUDGET
        return Finding.POISON, proof

    def _proof(
        self, suspect: Suspect, kind: FailureKind, evidence: Evidence, now: float
    ) -> VerdictReason | None:
        """Rule 4."""
        rules = self._rules
        longer = _GROWTH**suspect.behind
        spreads = evidence.quiet < rules.span
        over_span = evidence.seconds >= rules.span and not spreads
        if kind is FailureKind.FATAL and (evidence.sharing == 0 or over_span):
            return VerdictReason.FATAL
        if spreads:
            return None
        passes = kind is FailureKind.TRANSIENT or self._failing.healed(
            suspect.fingerprint, now - rules.memory
        )
        same_for = now - suspect.same_since
        if not passes and evidence.same >= rules.attempts and same_for >= rules.span * longer:
            return VerdictReason.SAME_FAILURE
        full = evidence.others >= rules.control_keys
        long = evidence.attempts >= 2 * rules.attempts and evidence.seconds >= rules.patience
        return VerdictReason.EXHAUSTED if long and (full or not passes) else None

    def _wait(self, suspect: Suspect, evidence: Evidence, now: float) -> float:
        """Return the wait: not far beyond the moment at which another try could prove more."""
        rules = self._rules
        own = doubled(suspect.failures, rules.first_wait, rules.longest_wait)
        left = max(
            rules.span * _GROWTH**suspect.behind - (now - suspect.same_since),
            rules.span - evidence.quiet,
        )
        # Twice what is left, for a wait that is spread by chance may be half as long.
        return min(own, max(2 * left, rules.first_wait)) if left > 0 else own

    def _paid(self, key: Hashable, evidence: Evidence, now: float, *, parks: bool) -> bool:
        """Rule 6."""
        poisoned = self._failing.poisoned
        last = max(self._parked_at, poisoned[-1].at if poisoned else self._parked_at)
        if last < now - self._rules.window:
            return True
        if parks or evidence.others == 0:
            return self._succeeded_at > last
        price = min(self._rules.control_keys, max(1, evidence.others - 1))
        return self._failing.succeeded(key, last, price) == price
