"""Is it the message, or is it everything? The verdict about a failing message.

A count of attempts does not show it, and neither does an exception's class. The other keys do:
they go through the same handler at the same time, so they are the control group. `Verdicts` has
the rules; its parts come first: circuits, what a verdict says, and what is remembered of tries.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import final

from orderly.config.arguments import check_count, check_number
from orderly.config.fields import require
from orderly.ordering.backoff import doubled
from orderly.ordering.lru import put_latest

# --- a circuit as a value: closed, open, or half-open while one message probes --------------------
# Open, everything behind it waits; after a growing wait one message may try. If it fails the wait
# grows, if it succeeds the circuit is closed. Time is an argument (seconds).


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
        since: when it was opened, or closed again.
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

    def succeeded(self, key: Hashable, now: float) -> Circuit:
        """A message succeeded: a probe closes it, a straggler from before it opened does not."""
        if key not in self.probes:
            return self
        return CLOSED if now < self.since else replace(CLOSED, since=now)


CLOSED = Circuit(CircuitState.CLOSED, since=float("-inf"))
"""A circuit that never was open."""


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
        most_poisoned: messages per `memory` seconds.
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
_SUSPECTS = 1024  # keys whose message fails now; beyond, it is an outage
_FINGERPRINTS = 256


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

    def forget(self, key: Hashable) -> None:
        """`key` is somebody else's business now."""
        self.settle(key)
        self._seen.pop(key, None)

    def heal(self, fingerprint: str, now: float) -> None:
        """A message that failed so succeeded."""
        put_latest(self._healed, fingerprint, now, _FINGERPRINTS)
        self._circuits.pop(fingerprint, None)

    def healed(self, fingerprint: str, since: float) -> bool:
        """Whether that happened since then."""
        return self._healed.get(fingerprint, float("-inf")) >= since

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
        return next((sharers[k] for k in reversed(sharers) if k != key), float("-inf"))

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
        failed. The circuit of all keys opens. Parking would move everything, so one message is
        tried after growing waits to see when the outage is over.
    2.  SHARED, an outage: `shared_keys` keys fail in the same way (or were lately poisoned by the
        same failure), or most of the others do. A bad message fails alone; a failure that many
        keys share is a dependency, a deploy or a tenant. The circuit of that fingerprint opens and
        holds only these keys, unless the failure went away for others within the window: then each
        key waits alone. Tries counted in an outage prove nothing afterwards, so counting starts
        over.
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

    All errors go in one direction: a bad message that is taken for an outage waits, and holds up
    only its own key; nothing is lost or moved.

    Not thread-safe. Memory is bounded for any number of keys and fingerprints. Times are seconds
    of a clock that does not jump; a time earlier than the last one counts as the last one.
    """

    __slots__ = ("_circuit", "_failing", "_now", "_rules", "_succeeded_at")

    def __init__(self, rules: PoisonRules | None = None) -> None:
        self._rules = PoisonRules() if rules is None else rules
        self._failing = RecentTries(
            self._rules.window, self._rules.memory, self._rules.most_poisoned
        )
        self._circuit = CLOSED
        self._now = self._succeeded_at = float("-inf")

    @property
    def circuit(self) -> Circuit:
        """The circuit of all keys."""
        return self._circuit

    @property
    def open_circuits(self) -> frozenset[str | None]:
        """Those that are not closed: by the fingerprint whose keys it holds; None: all keys."""
        held = self._failing.open_circuits
        return held if self._circuit.closed else held | {None}

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
            `forget` or `untried` must follow. Otherwise the seconds after which to ask again.
        """
        if self._circuit.closed and key not in self._failing.suspects:
            return 0.0
        now = self._tick(now)
        if not self._circuit.closed:
            self._circuit, wait = self._probe(self._circuit, key, now)
            return wait
        fingerprint = self._failing.suspects[key].fingerprint
        circuit, wait = self._probe(self._failing.circuit(fingerprint), key, now)
        self._failing.set_circuit(fingerprint, circuit)
        return wait

    def succeeded(self, key: Hashable, now: float) -> None:
        """The message of `key` in hand is done: the handler acknowledged it."""
        now = self._succeeded_at = self._tick(now)
        suspect = self._failing.settle(key)
        if suspect is not None:
            self._failing.heal(suspect.fingerprint, now)
        self._failing.saw(key, None, now)
        self._circuit = self._circuit.succeeded(key, now)

    def failed(
        self, key: Hashable, offset: int, fingerprint: str, kind: FailureKind, now: float
    ) -> PoisonVerdict:
        """Judge a failure.

        Args:
            key: as for `admit`.
            offset: the message's.
            fingerprint: its digest.
            kind: what the named classes say of it.
            now: seconds.
        """
        now = self._tick(now)
        self._leave(key, fingerprint)
        suspect = self._failing.failed(key, offset, fingerprint, now, self._rules.spacing)
        self._failing.saw(key, fingerprint, now)
        self._failing.expire(now)
        evidence = self._evidence(key, suspect, kind, now)
        self._probe_failed(key, fingerprint, now)
        outage = self._outage(evidence)
        if outage is not None:
            return self._hold(key, suspect, outage, evidence, now)
        self._failing.set_circuit(fingerprint, CLOSED)
        finding, reason = self._judge(key, suspect, kind, evidence, now)
        if finding is Finding.RETRY:
            return PoisonVerdict(
                finding, reason, self._wait(suspect, evidence, now), evidence, CLOSED
            )
        if not suspect.poisoned:
            suspect.poisoned = True
            self._failing.poisoned.append(Poisoned(now, key, fingerprint))
        return PoisonVerdict(finding, reason, 0.0, evidence, CLOSED)

    def forget(self, key: Hashable) -> None:
        """The message in hand is settled otherwise: parked, a dead letter, or the queue is lost.

        It says nothing about the handler.
        """
        self.untried(key)
        self._failing.forget(key)

    def untried(self, key: Hashable) -> None:
        """The message in hand was admitted, but not tried: another one may probe in its place."""
        self._circuit = self._circuit.given_back(key, self._now)
        self._leave(key)

    def _tick(self, now: float) -> float:
        self._now = max(self._now, now)
        return self._now

    def _leave(self, key: Hashable, fingerprint: str | None = None) -> None:
        """`key` no longer probes for its failure until now, unless that is `fingerprint`."""
        suspect = self._failing.suspects.get(key)
        if suspect is not None and suspect.fingerprint != fingerprint:
            circuit = self._failing.circuit(suspect.fingerprint).given_back(key, self._now)
            self._failing.set_circuit(suspect.fingerprint, circuit)

    def _probe(self, circuit: Circuit, key: Hashable, now: float) -> tuple[Circuit, float]:
        wait = circuit.waits(now)
        if circuit.closed or wait > 0:
            return circuit, wait
        return circuit.probing(key, now, self._rules.longest_wait), 0.0

    def _probe_failed(self, key: Hashable, fingerprint: str, now: float) -> None:
        waits = self._rules.first_wait, self._rules.longest_wait
        self._circuit = self._circuit.failed(key, now, *waits)
        circuit = self._failing.circuit(fingerprint).failed(key, now, *waits)
        self._failing.set_circuit(fingerprint, circuit)

    def _evidence(self, key: Hashable, suspect: Suspect, kind: FailureKind, now: float) -> Evidence:
        rules = self._rules
        others = self._failing.others(key, max(now - rules.window, self._circuit.since))
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

    def _outage(self, evidence: Evidence) -> VerdictReason | None:
        """Rules 1 and 2."""
        rules = self._rules
        enough = evidence.others >= rules.control_keys
        if not self._circuit.closed or (
            enough and evidence.failing >= rules.outage_ratio * evidence.others
        ):
            return VerdictReason.MOST_FAIL
        most = 2 * evidence.alike >= evidence.others
        if (evidence.alike and most) or evidence.sharing + 1 >= rules.shared_keys:
            return VerdictReason.SHARED
        return None

    def _hold(
        self, key: Hashable, suspect: Suspect, reason: VerdictReason, evidence: Evidence, now: float
    ) -> PoisonVerdict:
        rules, fingerprint = self._rules, suspect.fingerprint
        suspect.restart(now)
        own = doubled(suspect.failures, rules.first_wait, rules.longest_wait)
        if reason is VerdictReason.MOST_FAIL:
            circuit = self._circuit = self._circuit.opened(now, rules.first_wait)
        elif self._failing.healed(fingerprint, now - rules.window):
            return PoisonVerdict(Finding.OUTAGE, reason, own, evidence, CLOSED)
        else:
            circuit = self._failing.circuit(fingerprint).opened(now, rules.first_wait)
            self._failing.set_circuit(fingerprint, circuit)
        wait = max(circuit.waits(now), rules.first_wait)
        if circuit.probe == key:
            wait *= 2  # the next probe is another key's: this message may be bad itself
        return PoisonVerdict(Finding.OUTAGE, reason, wait, evidence, circuit)

    def _judge(
        self, key: Hashable, suspect: Suspect, kind: FailureKind, evidence: Evidence, now: float
    ) -> tuple[Finding, VerdictReason]:
        """Rules 3 to 7."""
        proof = self._proof(suspect, kind, evidence, now)
        if proof is None:
            return Finding.RETRY, VerdictReason.TOO_EARLY
        if suspect.poisoned:
            return Finding.POISON, proof
        rules = self._rules
        if evidence.others >= rules.control_keys and evidence.control < rules.control_keys:
            return Finding.RETRY, VerdictReason.NO_CONTROL
        if not self._paid(key, evidence, now):
            return Finding.RETRY, VerdictReason.UNPAID
        if len(self._failing.poisoned) == rules.most_poisoned:
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

    def _paid(self, key: Hashable, evidence: Evidence, now: float) -> bool:
        """Rule 6."""
        poisoned = self._failing.poisoned
        if not poisoned or poisoned[-1].at < now - self._rules.window:
            return True
        if evidence.others == 0:
            return self._succeeded_at > poisoned[-1].at
        price = min(self._rules.control_keys, max(1, evidence.others - 1))
        return self._failing.succeeded(key, poisoned[-1].at, price) == price
