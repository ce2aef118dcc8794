"""What is remembered of tries to tell a bad message from an outage. Bounded for any traffic."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from orderly.ordering.circuit import CLOSED, Circuit
from orderly.ordering.latest import put_latest

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


class Failing:
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
        """Return when the last other key that fails with it began to; -inf: there is none."""
        sharers = self._sharers.get(fingerprint, {})
        return next((sharers[k] for k in reversed(sharers) if k != key), float("-inf"))

    def _tries(self, key: Hashable, since: float) -> Iterator[tuple[float, str | None]]:
        for other, (at, how) in reversed(self._seen.items()):
            if at < since:
                return
            if other != key:
                yield at, how
