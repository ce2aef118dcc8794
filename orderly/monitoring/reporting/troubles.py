"""Why groups are not in order, state by state, and what to do next. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from orderly.monitoring.backlog.advice import in_one_line, next_steps, parked_steps
from orderly.monitoring.backlog.judging import queues_text
from orderly.monitoring.backlog.meanings import MEANINGS
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus
from orderly.monitoring.backlog.states import QueueState, Verdict, severity
from orderly.monitoring.reporting.words import plural
from orderly.namespace import DEAD_PREFIX

_TOLD = 3  # queues of one state that are told one by one


@dataclass(frozen=True, slots=True)
class Judged:
    """A group, and how bad it is: its queues, parked keys, dead and lost messages together."""

    status: GroupStatus
    verdict: Verdict

    @property
    def meaning(self) -> str:
        """Its state in words."""
        sums = self.status.sums
        if sums.state is QueueState.OK:
            told = "consumes, and is behind" if sums.backlog else "no backlog"
            return f"{told}; keys are parked" if sums.parked_keys else told
        return MEANINGS[sums.state]


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong with a group.

    Attributes:
        verdict: how bad.
        name: a state, or what else it is.
        where: how much of the group.
        facts: sentences: of the worst queues, and how many more there are.
        next: what to do; "" if nothing.
    """

    verdict: Verdict
    name: str
    where: str
    facts: tuple[str, ...]
    next: str


def troubles(group: GroupStatus) -> tuple[Trouble, ...]:
    """All that is wrong with a group, worst first; () if it is in order."""
    bad = (row for row in group.rows() if row.state_verdict is not Verdict.OK)
    rows = sorted(bad, key=lambda row: (-severity(row.state_verdict), row.state))
    by_state = [_of_state(list(same)) for _, same in groupby(rows, key=lambda row: row.state)]
    return (*by_state, *_parked(group), *_dead(group), *_findings(group))


def _of_state(rows: list[QueueStatus]) -> Trouble:
    rows.sort(key=lambda row: -(row.backlog or 0))
    facts = [f"{row.queue}: {row.cause or MEANINGS[row.state]}" for row in rows[:_TOLD]]
    facts += _more(rows[_TOLD:])
    worst = rows[0]
    return Trouble(
        worst.state_verdict,
        str(worst.state),
        queues_text(len(rows)),
        tuple(facts),
        in_one_line(next_steps(worst)),
    )


def _more(rows: Sequence[QueueStatus]) -> Iterator[str]:
    if rows:
        behind = sum(row.backlog or 0 for row in rows)
        yield f"and {queues_text(len(rows))} more, with {plural(behind, 'message')}"


def _parked(group: GroupStatus) -> Iterator[Trouble]:
    sums = group.sums
    if sums.parked_keys:
        yield Trouble(
            Verdict.WARNING,
            "PARKED",
            plural(sums.parked_keys, "key"),
            (f"{plural(sums.parked_messages or 0, 'message')} wait until somebody releases them",),
            in_one_line(parked_steps(list(group.rows()))),
        )


def _dead(group: GroupStatus) -> Iterator[Trouble]:
    if group.dead is not None and group.dead.messages:
        yield Trouble(
            Verdict.WARNING,
            "DEAD",
            plural(group.dead.messages, "dead letter"),
            (f"stored in {DEAD_PREFIX}{group.group}",),
            f"Look at them, mend the cause, send them again: orderly dlq list"
            f" {shlex.quote(group.group)}",
        )


def _findings(group: GroupStatus) -> Iterator[Trouble]:
    if group.findings:
        yield Trouble(Verdict.WARNING, "ODD", "the group as a whole", group.findings, "")
