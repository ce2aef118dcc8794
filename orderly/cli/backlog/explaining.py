"""Why groups are behind, in plain sentences, worst first, and what to do next. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import fill

from orderly.cli.text import printable
from orderly.foreign_text import escaped
from orderly.monitoring.backlog.advice import next_steps
from orderly.monitoring.backlog.judging import queues_text
from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus, Snapshot
from orderly.monitoring.backlog.states import Verdict, severity
from orderly.monitoring.texts import counted, duration

_TOLD = 3  # queues of one state that are told one by one
_WIDTH = 100


def explanation(snapshot: Snapshot) -> list[str]:
    """A paragraph for each group that is not in order, worst first; then the rest in one line."""
    groups = sorted(snapshot.groups.values(), key=_rank, reverse=True)
    bad = [group for group in groups if _in_trouble(group)]
    told = [
        _broker(name, broker.error) for name, broker in snapshot.brokers.items() if broker.error
    ]
    told += [_paragraph(group) for group in bad]
    if fine := len(groups) - len(bad):
        told.append(_fine([group for group in groups if group not in bad], fine))
    return told


def _rank(group: GroupStatus) -> tuple[int, int]:
    return severity(group.sums.verdict), group.sums.backlog or 0


def _in_trouble(group: GroupStatus) -> bool:
    return group.sums.verdict is not Verdict.OK or bool(group.findings) or bool(_dead(group))


def _broker(name: str, error: str) -> str:
    return printable(f"Broker {name} could not be read: {error}. Its queues are UNKNOWN.")


def _fine(groups: Sequence[GroupStatus], count: int) -> str:
    if count > _TOLD:
        return f"{count} groups are in order."
    return "\n".join(f"{printable(group.group)} is in order: {_behind(group)}." for group in groups)


def _behind(group: GroupStatus) -> str:
    sums = group.sums
    if sums.backlog is None:
        return "how far it is behind is not known"
    if not sums.backlog:
        return "nothing waits"
    verb = "waits" if sums.backlog == 1 else "wait"
    behind = sum(bool(row.backlog) for row in group.rows())
    text = f"{_messages(sums.backlog)} {verb} in {queues_text(behind)}"
    if sums.head_age:
        text += f", the oldest for {duration(sums.head_age)}"
    if sums.drain_eta is not None:
        text += f"; at this pace {_worked_off(sums.drain_eta)}"
    return text


def _worked_off(eta: float) -> str:
    return "never worked off" if eta == float("inf") else f"worked off in {duration(eta)}"


def _paragraph(group: GroupStatus) -> str:
    word = group.sums.verdict.name if group.sums.verdict is not Verdict.OK else "WARNING"
    lines = [f"{printable(group.group)}: {word}. {_sentence(_behind(group))}"]
    rows = sorted(_troubled(group), key=lambda row: (-severity(row.verdict), row.state))
    for _, same in groupby(rows, key=lambda row: row.state):
        lines += _of_state(list(same))
    lines += [_indented(f"- {text}") for text in group.findings]
    if dead := _dead(group):
        lines.append(_indented(f"- {_messages(dead)} in %DLQ%{group.group}. Next:"))
        lines.append(_command(f"orderly dlq list {shlex.quote(group.group)}"))
    return "\n".join(lines)


def _troubled(group: GroupStatus) -> Iterator[QueueStatus]:
    return (row for row in group.rows() if row.verdict is not Verdict.OK)


def _of_state(rows: list[QueueStatus]) -> Iterator[str]:
    """The worst queues of one state, how many more there are, and what to do."""
    rows.sort(key=lambda row: row.backlog or 0, reverse=True)
    for row in rows[:_TOLD]:
        yield _indented(f"- {row.state} {row.queue}: {_queue(row)}")
    if len(rows) > _TOLD:
        yield _indented(f"  and {len(rows) - _TOLD} more: {rows[0].state}.")
    text, commands = next_steps(rows[0])
    yield _indented(f"  Next: {text}")
    yield from map(_command, commands)


def _queue(row: QueueStatus) -> str:
    parts = [printable(row.cause), _waiting(row)]
    if row.head is not None:
        parts.append(_first(row.head, row.cause))
    return " ".join(_sentence(part) for part in parts if part)


def _waiting(row: QueueStatus) -> str:
    """How much and how long, without what the cause says already."""
    age = f"the oldest {duration(row.head_age)} old" if row.head_age else ""
    told = row.backlog is None or str(row.backlog) in row.cause
    return ", ".join(filter(None, ("" if told else f"backlog {row.backlog:,}", age)))


def _first(head: Head, cause: str) -> str:
    text = f"the first is offset {head.offset}"
    text += f", key {escaped(head.key)}" if head.key is not None else ", without a key"
    if head.attempts:
        text += ", tried once" if head.attempts == 1 else f", tried {head.attempts} times"
    if head.fingerprint and head.fingerprint not in cause:
        text += f", failure {printable(head.fingerprint)}"
    return text


def _sentence(text: str) -> str:
    """With a capital and a full stop."""
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""


def _messages(count: int) -> str:
    return counted(count, "message", f"{count:,}")


def _dead(group: GroupStatus) -> int:
    return group.dead.messages if group.dead is not None else 0


def _command(text: str) -> str:
    """On a line of its own, however long: it is to be copied."""
    return f"      {printable(text)}"


def _indented(text: str) -> str:
    """Within 100 columns; names and commands are not broken."""
    return fill(
        printable(text),
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
