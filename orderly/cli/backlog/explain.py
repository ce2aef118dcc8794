"""`orderly backlog explain`: why groups are behind, in plain sentences, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import fill

import click

from orderly.cli.backlog.listing import Level, ListingOptions, lines_of, listing, unread
from orderly.cli.backlog.measuring import Pace, measure, pace_options
from orderly.cli.command import OrderlyCommand
from orderly.cli.output import OF_BACKLOGS, Format, format_options, show
from orderly.cli.redacting import redact_option, redacted
from orderly.cli.selection import Names, groups_options
from orderly.cli.settings import common_options, settings_of
from orderly.cli.terminal import printable
from orderly.foreign_text import escaped, shell_word
from orderly.monitoring.backlog.advice import Steps, next_steps, parked_steps
from orderly.monitoring.backlog.reading import Head
from orderly.monitoring.backlog.snapshot import GroupStatus, QueueStatus, Snapshot
from orderly.monitoring.backlog.states import Verdict, severity
from orderly.monitoring.backlog.thresholds import queues_text
from orderly.monitoring.texts import counted, duration

_SHOWN = 3  # queues of one state that are shown one by one
_WIDTH = 100


def explanation(snapshot: Snapshot) -> list[str]:
    """A paragraph for each group that is not in order, worst first; then the rest in one line."""
    groups = sorted(snapshot.groups.values(), key=_rank, reverse=True)
    bad = [group for group in groups if _in_trouble(group)]
    paragraphs = [
        _broker(name, broker.error) for name, broker in snapshot.brokers.items() if broker.error
    ]
    paragraphs += [_paragraph(group) for group in bad]
    if fine := len(groups) - len(bad):
        paragraphs.append(_fine([group for group in groups if group not in bad], fine))
    return paragraphs


def _rank(group: GroupStatus) -> tuple[int, int]:
    return severity(group.sums.verdict), group.sums.backlog or 0


def _in_trouble(group: GroupStatus) -> bool:
    return group.sums.verdict is not Verdict.OK or bool(group.findings) or bool(_dead(group))


def _broker(name: str, error: str) -> str:
    return printable(f"Broker {name} could not be read: {error}. Its queues are UNKNOWN.")


def _fine(groups: Sequence[GroupStatus], count: int) -> str:
    if count > _SHOWN:
        return f"{count} groups are in order."
    return "\n".join(
        f"{printable(group.group)} is in order: {_behind(group)}{_not_known(group)}."
        for group in groups
    )


def _not_known(group: GroupStatus) -> str:
    """Note that the owner of waiting messages is not known: a dead member can be."""
    rows = [row for row in group.rows() if row.backlog and row.owner is None]
    return f"; the owner of {queues_text(len(rows))} is not known" if rows else ""


def _behind(group: GroupStatus) -> str:
    sums = group.sums
    if sums.backlog is None:
        return "how far it is behind is not known"
    parked = f"{_messages(sums.parked_messages)} parked" if sums.parked_messages else ""
    if not sums.backlog:
        text = f"nothing waits but {parked}" if parked else "nothing waits"
        if not sums.unknown:
            return text
        measured, queues = sums.queues - sums.unknown, queues_text(sums.queues)
        return f"{text} in {measured} of {queues}; the others could not be measured"
    behind = [row for row in group.rows() if row.backlog]
    text = _waits(sums.backlog, behind) + (f" and {parked}" if parked else "")
    if sums.head_age:
        text += f", the oldest for {duration(sums.head_age)}"
    if sums.drain_eta is not None:
        text += f"; at this rate {_worked_off(sums.drain_eta)}"
    return text


def _worked_off(eta: float) -> str:
    return "never cleared" if eta == float("inf") else f"cleared in {duration(eta)}"


def _paragraph(group: GroupStatus) -> str:
    word = group.sums.verdict.name if group.sums.verdict is not Verdict.OK else "WARNING"
    lines = [f"{printable(group.group)}: {word}. {_sentence(_behind(group))}"]
    rows = sorted(_troubled(group), key=lambda row: (-severity(row.state_verdict), row.state))
    for _, same in groupby(rows, key=lambda row: row.state):
        lines += _of_state(list(same))
    lines += _in_order(group)
    lines += _parked(group)
    lines += [_indented(f"- {text}") for text in group.findings]
    if dead := _dead(group):
        lines.append(_indented(f"- {_messages(dead)} in %DLQ%{group.group}. Next:"))
        lines.append(_command(f"orderly dlq list {shell_word(group.group)}"))
    return "\n".join(lines)


def _troubled(group: GroupStatus) -> Iterator[QueueStatus]:
    return (row for row in group.rows() if row.state_verdict is not Verdict.OK)


def _in_order(group: GroupStatus) -> Iterator[str]:
    """The other waiting messages, so that the numbers add up."""
    rows = [row for row in group.rows() if row.backlog and row.state_verdict is Verdict.OK]
    owned = [row for row in rows if row.owner is not None]
    nobodys = [row for row in rows if row.owner is None]
    if owned:
        yield _indented(f"- in order, with an owner: {_waits(_together(owned), owned)}.")
    if nobodys:
        yield _indented(f"- {_waits(_together(nobodys), nobodys)} whose owner is not known.")
        yield from _next(("Find their owners:", (f"orderly locks {shell_word(group.group)}",)))


def _together(rows: Sequence[QueueStatus]) -> int:
    return sum(row.backlog or 0 for row in rows)


def _waits(count: int, rows: Sequence[QueueStatus]) -> str:
    verb = "waits" if count == 1 else "wait"
    return f"{_messages(count)} {verb} in {queues_text(len(rows))}"


def _parked(group: GroupStatus) -> Iterator[str]:
    sums = group.sums
    if sums.parked_keys:
        keys, waiting = counted(sums.parked_keys, "key"), _messages(sums.parked_messages or 0)
        age = f", the oldest {duration(sums.parked_age)} old" if sums.parked_age else ""
        yield _indented(f"- PARKED {keys} with {waiting}{age}.")
        yield from _next(parked_steps(list(group.rows())))


def _of_state(rows: list[QueueStatus]) -> Iterator[str]:
    """The worst queues of one state, how many more there are, and what to do."""
    rows.sort(key=lambda row: row.backlog or 0, reverse=True)
    for row in rows[:_SHOWN]:
        yield _indented(f"- {row.state} {row.queue}: {_queue(row)}")
    if len(rows) > _SHOWN:
        more = rows[_SHOWN:]
        behind = f", backlog {_together(more):,}" if _together(more) else ""
        yield _indented(f"  and {len(more)} more: {rows[0].state}{behind}.")
    yield from _next(next_steps(rows[0]))


def _next(steps: Steps) -> Iterator[str]:
    text, commands = steps
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
    said = row.backlog is None or counted(row.backlog, "message") in row.cause
    return ", ".join(filter(None, ("" if said else f"backlog {row.backlog:,}", age)))


def _first(head: Head, cause: str) -> str:
    text = f"the first is offset {head.offset}"
    text += f", key {escaped(head.key)}" if head.key is not None else ", without a key"
    if head.attempts:
        text += ", tried once" if head.attempts == 1 else f", tried {head.attempts} times"
    if head.fingerprint and head.fingerprint not in cause:
        text += f", failure {printable(head.fingerprint)}"
    if head.because:
        text += f", not given up yet: {printable(head.because)}"
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


EXAMPLES = """\b
Examples:
  orderly backlog explain
  orderly backlog explain shipping --samples 3 --interval 60s
"""


@click.command(cls=OrderlyCommand, epilog=EXAMPLES)
@groups_options()
@redact_option
@pace_options
@format_options(*OF_BACKLOGS)
@common_options
@click.pass_context
def explain(
    ctx: click.Context,
    *,
    names: Names,
    redact_keys: str | None,
    pace: Pace,
    form: Format,
) -> int:
    """Say in plain sentences why all groups, or only GROUP..., are behind, and what to do next.

    The worst comes first. Members that run this library report what fails, how often and how.
    Java members report only RocketMQ's own figures. With --samples 3 --interval 60s the command
    also finds queues that do not move for no visible reason.
    """
    settings = settings_of(ctx)
    snapshot = redacted(measure(settings, names, pace), redact_keys)
    if form.for_reader:
        click.echo("\n\n".join(explanation(snapshot)) or "no group has committed an offset")
    else:
        cut = ListingOptions(Level.QUEUE, only_bad=True, retry=True)
        show(listing(snapshot, lines_of(snapshot, cut), cut), form, settings)
    return int(Verdict.UNKNOWN if unread(snapshot) else Verdict.OK)
