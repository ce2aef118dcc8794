"""What a listener remembers of one group's failing messages. Bounded for any traffic."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass

from orderly.listening.delivery import Delivery, Lane
from orderly.listening.trial import Failed
from orderly.ordering.context import Tenure
from orderly.ordering.latest import put_latest
from orderly.ordering.poison import Verdicts
from orderly.ordering.verdict import PoisonRules, Verdict

_MOST = 10_000  # messages; of one more, the one that failed longest ago begins anew
_SWEEP = 1.0  # seconds between two looks for queues that were lost


@dataclass(slots=True)
class Trying:
    """A message that failed and is not settled. Only its own call changes it.

    Attributes:
        offset: the message's.
        tenure: the ownership of its queue under which it failed.
        first_at: of its first failure.
        first_error: the text of that.
        waited: seconds it was made to wait by retries.
        suspended: how often it was suspended once they were used up.
        retrying: the next try is a retry.
        condemned: the fingerprint it was found poisoned with, and the verdict. It comes again only
            if it could not be set aside; then the verdict stands.
    """

    offset: int
    tenure: Tenure | None
    first_at: float
    first_error: str
    waited: float = 0.0
    suspended: int = 0
    retrying: bool = False
    condemned: tuple[str, Verdict] | None = None

    def about(self, delivery: Delivery) -> bool:
        """Whether it is that message, and the queue was ours all the time."""
        same = self.offset == delivery.message.queue_offset
        return same and self.tenure is delivery.context.tenure


@dataclass(frozen=True, slots=True)
class Case:
    """A failure: what is known of its message, and the verdict (None: nobody judges)."""

    trying: Trying
    verdict: Verdict | None


class Memory:
    """Thread-safe. Times are seconds of one clock that never goes back.

    Args:
        rules: of the verdict; None: there is none.
    """

    def __init__(self, rules: PoisonRules | None) -> None:
        self._verdicts = None if rules is None else Verdicts(rules)
        self._trying: OrderedDict[Lane, Trying] = OrderedDict()
        self._told: frozenset[str | None] = frozenset()
        self._swept_at = float("-inf")
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Entries held."""
        with self._lock:
            return len(self._trying) + (0 if self._verdicts is None else self._verdicts.size)

    def admit(self, lane: Lane, now: float) -> float:
        """Return 0.0, or the seconds to hold the lane back: see `Verdicts.admit`."""
        if self._verdicts is None:
            return 0.0
        with self._lock:
            return self._verdicts.admit(lane, now)

    def trying(self, delivery: Delivery) -> Trying | None:
        """Return what is known of a message that failed before."""
        with self._lock:
            trying = self._trying.get(delivery.lane)
        return trying if trying is not None and trying.about(delivery) else None

    def succeeded(self, lane: Lane, now: float) -> None:
        """The lane's message is handled."""
        with self._lock:
            self._trying.pop(lane, None)
            if self._verdicts is not None:
                self._verdicts.succeeded(lane, now)

    def failed(self, delivery: Delivery, failed: Failed, now: float) -> Case:
        """Note a failure and judge it."""
        lane, digest = delivery.lane, failed.fingerprint.digest
        with self._lock:
            self._sweep(now)
            trying = self._note(delivery, failed, now)
            if trying.condemned is not None and trying.condemned[0] == digest:
                return Case(trying, trying.condemned[1])
            if self._verdicts is None:
                return Case(trying, None)
            offset = delivery.message.queue_offset
            return Case(trying, self._verdicts.failed(lane, offset, digest, failed.kind, now))

    def untried(self, lane: Lane) -> None:
        """The lane was admitted, but its message not tried."""
        with self._lock:
            if self._verdicts is not None:
                self._verdicts.untried(lane)

    def passed(self, lane: Lane) -> None:
        """The lane's message is neither handled nor failed: that says nothing of the handler."""
        with self._lock:
            if self._verdicts is not None:
                self._verdicts.forget(lane)

    def settled(self, lane: Lane) -> None:
        """The lane's message was given up, and will not come again."""
        with self._lock:
            self._trying.pop(lane, None)
        self.passed(lane)

    @property
    def holding(self) -> bool:
        """Whether `changed_circuits` told of one that opened and not yet that it closed."""
        return bool(self._told)

    def changed_circuits(self) -> tuple[frozenset[str | None], frozenset[str | None]]:
        """Return which circuits opened and which closed since the last call.

        A circuit is named by the fingerprint whose keys it holds; None: it holds all keys.
        """
        if self._verdicts is None:
            return frozenset(), frozenset()
        with self._lock:
            before, self._told = self._told, self._verdicts.open_circuits
            return self._told - before, before - self._told

    def _note(self, delivery: Delivery, failed: Failed, now: float) -> Trying:
        trying = self._trying.get(delivery.lane)
        if trying is None or not trying.about(delivery):
            offset, tenure = delivery.message.queue_offset, delivery.context.tenure
            trying = Trying(offset, tenure, now, failed.text)
        put_latest(self._trying, delivery.lane, trying, _MOST)
        return trying

    def _sweep(self, now: float) -> None:
        """Forget the messages of queues that are no longer ours; nobody tells a handler of that."""
        if now - self._swept_at < _SWEEP:
            return
        self._swept_at = now
        over = [lane for lane, trying in self._trying.items() if _over(trying.tenure, now)]
        for lane in over:
            del self._trying[lane]
            if self._verdicts is not None:
                self._verdicts.forget(lane)


def _over(tenure: Tenure | None, now: float) -> bool:
    """Whether a queue was lost, or released: then its lock is renewed no more."""
    return tenure is not None and (tenure.lost.is_set() or tenure.deadline <= now)
