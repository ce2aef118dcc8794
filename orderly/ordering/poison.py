"""Is it the message, or is it everything? The verdict about a failing message.

A count of attempts cannot tell, and neither can an exception's class. The other keys can: they go
through the same handler at the same time, so they are the control group.
"""

from __future__ import annotations

from collections.abc import Hashable

from orderly.ordering.backoff import doubled
from orderly.ordering.circuit import CLOSED, Circuit
from orderly.ordering.failing import Failing, Poisoned, Suspect
from orderly.ordering.verdict import Evidence, Finding, Kind, PoisonRules, Reason, Verdict

_GROWTH = 4.0


class Verdicts:
    """Judges the failures of one handler, over all keys of one member.

    The rules, the first that applies decides (names in capitals: `Reason`):

    1.  MOST_FAIL, an outage: `outage_ratio` of at least `control_keys` keys tried lately failed.
        The circuit of all keys opens. Parking would move everything; one message after growing
        waits shows when it is over.
    2.  SHARED, an outage: `shared_keys` keys fail in the same way (or were poisoned by it of
        late), or most of the others do. A message is bad by itself; what many share is a
        dependency, a deploy, a tenant. The circuit of that fingerprint opens and holds these keys
        only, unless the failure went away for others within the window: then each waits for
        itself. What was counted in an outage proves nothing afterwards and is counted anew.
    3.  A message that was found poisoned and comes again, because parking failed, needs its proof
        again, but none of the rules 5 to 7.
    4.  Enough of a proof, or TOO_EARLY:
        FATAL: at once, for the user vouches for it; but if another key shows the same failure,
        after `span` and not while it spreads, for a bad deploy raises fatal classes, too.
        SAME_FAILURE: `attempts` tries with one fingerprint over `span` seconds. Tries in quick
        succession see the same short trouble, so those within `spacing` are one. Not while the
        failure spreads: another key that began to fail so within `span` says that the next ones
        may follow, and that it will be seen as shared. For each message
        this fingerprint has poisoned before, `span` is four times as long: so an outage that
        reaches one slow key after the other is seen as shared before the next one is parked.
        EXHAUSTED: twice the tries over `patience` seconds, for transient classes, for
        fingerprints that went away for another message within `memory`, for failures that change,
        and where the grown `span` is longer. A count alone never condemns the first two: they
        need a full control group.
    5.  NO_CONTROL: with `control_keys` other keys tried lately, as many must have succeeded since
        the message failed first (a fatal one: within the window). With fewer nobody can tell, and
        the tries, their spacing and the fatal classes decide.
    6.  UNPAID: since the last poisoned message in the window, `control_keys` other keys (as many
        as there are, but one) must have succeeded; without others, this one. So whatever fails
        everything, with whatever class, parks one message at most.
    7.  BUDGET: `most_poisoned` messages per `memory` seconds.

    All that is wrong in one direction: a bad message that is taken for an outage waits, and holds
    up its own key only; nothing is lost or moved.

    Not thread-safe. Memory is bounded whatever the number of keys and fingerprints. Times are
    seconds of a clock that does not jump; an earlier time than the last one counts as that one.
    """

    __slots__ = ("_circuit", "_failing", "_now", "_rules", "_succeeded_at")

    def __init__(self, rules: PoisonRules | None = None) -> None:
        self._rules = PoisonRules() if rules is None else rules
        self._failing = Failing(self._rules.window, self._rules.memory, self._rules.most_poisoned)
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
        self, key: Hashable, offset: int, fingerprint: str, kind: Kind, now: float
    ) -> Verdict:
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
            return Verdict(finding, reason, self._wait(suspect, evidence, now), evidence, CLOSED)
        if not suspect.poisoned:
            suspect.poisoned = True
            self._failing.poisoned.append(Poisoned(now, key, fingerprint))
        return Verdict(finding, reason, 0.0, evidence, CLOSED)

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

    def _evidence(self, key: Hashable, suspect: Suspect, kind: Kind, now: float) -> Evidence:
        rules = self._rules
        others = self._failing.others(key, max(now - rules.window, self._circuit.since))
        fatal = kind is Kind.FATAL
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

    def _outage(self, evidence: Evidence) -> Reason | None:
        """Rules 1 and 2."""
        rules = self._rules
        enough = evidence.others >= rules.control_keys
        if not self._circuit.closed or (
            enough and evidence.failing >= rules.outage_ratio * evidence.others
        ):
            return Reason.MOST_FAIL
        most = 2 * evidence.alike >= evidence.others
        if (evidence.alike and most) or evidence.sharing + 1 >= rules.shared_keys:
            return Reason.SHARED
        return None

    def _hold(
        self, key: Hashable, suspect: Suspect, reason: Reason, evidence: Evidence, now: float
    ) -> Verdict:
        rules, fingerprint = self._rules, suspect.fingerprint
        suspect.restart(now)
        own = doubled(suspect.failures, rules.first_wait, rules.longest_wait)
        if reason is Reason.MOST_FAIL:
            circuit = self._circuit = self._circuit.opened(now, rules.first_wait)
        elif self._failing.healed(fingerprint, now - rules.window):
            return Verdict(Finding.OUTAGE, reason, own, evidence, CLOSED)
        else:
            circuit = self._failing.circuit(fingerprint).opened(now, rules.first_wait)
            self._failing.set_circuit(fingerprint, circuit)
        wait = max(circuit.waits(now), rules.first_wait)
        if circuit.probe == key:
            wait *= 2  # the next probe is another key's: this message may be bad itself
        return Verdict(Finding.OUTAGE, reason, wait, evidence, circuit)

    def _judge(
        self, key: Hashable, suspect: Suspect, kind: Kind, evidence: Evidence, now: float
    ) -> tuple[Finding, Reason]:
        """Rules 3 to 7."""
        proof = self._proof(suspect, kind, evidence, now)
        if proof is None:
            return Finding.RETRY, Reason.TOO_EARLY
        if suspect.poisoned:
            return Finding.POISON, proof
        rules = self._rules
        if evidence.others >= rules.control_keys and evidence.control < rules.control_keys:
            return Finding.RETRY, Reason.NO_CONTROL
        if not self._paid(key, evidence, now):
            return Finding.RETRY, Reason.UNPAID
        if len(self._failing.poisoned) == rules.most_poisoned:
            return Finding.RETRY, Reason.BUDGET
        return Finding.POISON, proof

    def _proof(self, suspect: Suspect, kind: Kind, evidence: Evidence, now: float) -> Reason | None:
        """Rule 4."""
        rules = self._rules
        longer = _GROWTH**suspect.behind
        spreads = evidence.quiet < rules.span
        over_span = evidence.seconds >= rules.span and not spreads
        if kind is Kind.FATAL and (evidence.sharing == 0 or over_span):
            return Reason.FATAL
        if spreads:
            return None
        passes = kind is Kind.TRANSIENT or self._failing.healed(
            suspect.fingerprint, now - rules.memory
        )
        same_for = now - suspect.same_since
        if not passes and evidence.same >= rules.attempts and same_for >= rules.span * longer:
            return Reason.SAME_FAILURE
        full = evidence.others >= rules.control_keys
        long = evidence.attempts >= 2 * rules.attempts and evidence.seconds >= rules.patience
        return Reason.EXHAUSTED if long and (full or not passes) else None

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
