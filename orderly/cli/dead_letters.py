"""`orderly dlq list|replay`: a group's dead letters, Java's too; reading is in `monitoring`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.backlog.measuring import require_group
from orderly.cli.command import Group
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.output import (
    CommandOutput,
    Format,
    format_options,
    group_by_option,
    show,
    show_groups,
)
from orderly.cli.redacting import letter_without_key, redact_option
from orderly.cli.selection import complete_topic, group_argument
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import (
    ProgressLine,
    confirmed,
    json_body,
    preview,
    require_somebody,
    say,
    yes_option,
)
from orderly.errors import ConfigError
from orderly.foreign_text import escaped
from orderly.monitoring.texts import Cell, Column, ColumnKind, iso_time

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.dead_letters import DeadLetter, Replayed, ReplayPlan

LIST_SCHEMA = "orderly.dlq/v1"
GROUPS_SCHEMA = "orderly.dlq-groups/v1"
REPLAY_SCHEMA = "orderly.dlq-replay/v1"
PREVIEW = 60  # characters of a body
LIST = """\b
Examples:
  orderly dlq list shipping
  orderly dlq list shipping --redact-keys hash -o json
  orderly dlq list shipping --group-by topic
"""
REPLAY = """\b
Examples:
  orderly dlq replay shipping
  orderly dlq replay shipping --into orders-again --yes -o json
"""
GAP = (
    "the order of their keys has a gap: messages sent after a dead letter were consumed before it,"
    " and the dead letter now comes after them"
)


@click.group(cls=Group)
def dlq() -> None:
    """A group's dead letters (%DLQ%GROUP): list them, send them again.

    These commands delete nothing. The broker deletes dead letters by age.
    """


@dlq.command("list", epilog=LIST)
@group_argument
@group_by_option("topic", "tags", "key")
@redact_option
@format_options()
@common_options
@click.pass_context
def list_letters(
    ctx: click.Context, *, group: str, group_by: str | None, redact_keys: str | None, form: Format
) -> None:
    """Show the dead letters of GROUP: those of this library, of Java clients and of brokers.

    JSON and YAML have bodies of 64 MiB in all; `orderly tail %DLQ%GROUP -o json` writes every one.
    """
    settings = settings_of(ctx)
    group = settings.group(group)
    from orderly.monitoring.dead_letters import DeadLetters  # noqa: PLC0415  `--help` is quick

    redact = redact_keys is not None
    with settings.client() as client:
        dead = DeadLetters(client, group)
        held = group_by is None and not form.for_rows
        letters = _of_a_known_group(dead.list() if held else dead.each(), client, group)
        if group_by is not None:
            rows = [_named(letter, redact=redact) | {"messages": 1} for letter in letters]
            total = len(rows)
            show_groups(rows, group_by, {"schema": GROUPS_SCHEMA, "group": group}, form, settings)
        else:
            total = _show_letters(group, letters, form, settings, redact=redact)
    if total == 0:
        say(f"group {group} has no dead letters")


def _of_a_known_group(
    letters: Iterable[DeadLetter], client: Client, group: str
) -> Iterator[DeadLetter]:
    """Only a group that somebody knows has no dead letters; a deleted one may have some."""
    none = True
    for letter in letters:
        none = False
        yield letter
    if none:
        require_group(client, group)


def _shown(letter: DeadLetter, *, redact: bool) -> dict[str, Any]:
    """A body is not shown where keys are not: it may have the key in it."""
    fields = _named(letter, redact=redact)
    return fields if redact else fields | json_body(letter.message)


def _named(letter: DeadLetter, *, redact: bool) -> dict[str, Any]:
    """All but the body."""
    fields = _fields(letter)
    return letter_without_key(fields) if redact else fields


_LETTERS = (
    Column("stored"),
    Column("broker"),
    Column("offset", ColumnKind.NUMBER),
    Column("topic"),
    Column("key"),
    Column("tags"),
    Column("times", ColumnKind.COUNT),
    Column("message id"),
    Column("body"),
)


def _show_letters(
    group: str,
    letters: Iterable[DeadLetter],
    form: Format,
    settings: CommonOptions,
    *,
    redact: bool = False,
) -> int:
    """Print them, and return how many there are. Of a table only what it shows is kept."""
    if form.for_rows:
        rows = [_row(letter, redact=redact) for letter in letters]
        show(CommandOutput(_LETTERS, rows), form, settings)
        return len(rows)
    shown = [_shown(letter, redact=redact) for letter in letters]
    document = {"schema": LIST_SCHEMA, "group": group, "dead_letters": shown}
    show(CommandOutput(_LETTERS, [], lambda: document), form, settings)
    return len(shown)


def _row(letter: DeadLetter, *, redact: bool) -> tuple[Cell, ...]:
    body = None if redact else preview(letter.message, PREVIEW)
    return (*_cells(_named(letter, redact=redact)), body)


def _cells(fields: Mapping[str, Cell]) -> tuple[Cell, ...]:
    key = fields["key"]
    return tuple({**fields, "key": None if key is None else escaped(str(key))}.values())


def _fields(letter: DeadLetter) -> dict[str, Any]:
    message = letter.message
    return {
        "time": iso_time(message.store_time),
        "broker": message.queue.broker_name,
        "offset": message.queue_offset,
        "topic": letter.topic,
        "key": message.sharding_key,
        "tags": message.tags,
        "reconsume_times": message.reconsume_times,
        "message_id": letter.message_id,
    }


@dlq.command("replay", epilog=REPLAY)
@group_argument
@click.option(
    "--into",
    metavar="TOPIC",
    shell_complete=complete_topic,
    help="The topic to send them to. Default: the one each came from, if GROUP consumes it.",
)
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="ID",
    help="Only the message with this id, which `list` shows; may be given again.",
)
@yes_option
@format_options()
@common_options
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    group: str,
    into: str | None,
    ids: tuple[str, ...],
    yes: bool,
    form: Format,
) -> int:
    """Send dead letters of GROUP again, each as a new message at the end of its topic.

    The sharding key chooses the queue, and the dead letters keep their order. The order of a key
    still has a gap: the group consumed the key's later messages long ago. The dead letters also
    stay in place, so a second replay sends them a second time. Keep the output: it says what was
    sent.

    Anyone who can send to the group's topics can forge the topic name in a dead letter. So the
    command refuses a dead letter if nothing shows that GROUP consumes its topic, unless you give
    --into. It always refuses RocketMQ's own topics, retries, dead letters and state.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(into)
    form.require_answer(ctx, yes)
    from orderly.monitoring.dead_letters import DeadLetters  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        dead = DeadLetters(client, group)
        letters = _chosen(dead.list(), ids)
        if not letters:
            require_group(client, group)
            raise ConfigError(f"group {group} has no dead letters: nothing was sent")
        plan = dead.plan(letters, topic)
        if not (yes or _agreed(ctx, plan, group, form)):
            say("nothing was sent")
            return NOT_MEASURED
        outcomes: list[Replayed] = []
        try:
            _watch(dead.replay(plan), len(letters), outcomes)
        finally:  # the only account of what is stored twice if it is sent again
            _show_outcomes(group, outcomes, form, settings)
            _say_what_is_missing(outcomes, len(letters))
    return 0 if all(outcome.error is None for outcome in outcomes) else NOT_MEASURED


def _chosen(letters: Sequence[DeadLetter], ids: Collection[str]) -> Sequence[DeadLetter]:
    """Those asked for, or all; one of them that is not there is refused."""
    missing = set(ids) - {letter.message_id for letter in letters}
    if missing:
        named = ", ".join(sorted(missing))
        raise ConfigError(f"no dead letter has these ids: {named}; nothing was sent")
    return [letter for letter in letters if letter.message_id in ids] if ids else letters


def _agreed(ctx: click.Context, plan: ReplayPlan, group: str, form: Format) -> bool:
    """What is refused is shown afterwards; if that is all, there is no question to ask."""
    if not plan.due:
        return True
    require_somebody(ctx, "--yes")
    _show_letters(group, [letter for _, letter in plan.due], form, settings_of(ctx))
    if plan.refused:
        say(f"note: {len(plan.refused)} more are refused")
    say(f"note: {GAP}")
    where = ", ".join(sorted({topic for topic, _ in plan.due}))
    return confirmed(ctx, f"Send {len(plan.due)} messages to {where}?")


def _watch(outcomes: Iterator[Replayed], total: int, done: list[Replayed]) -> None:
    progress = ProgressLine("sent", total)
    for outcome in outcomes:
        done.append(outcome)
        progress.reached(len(done))


_REPLAYED = (
    Column("message id"),
    Column("key"),
    Column("sent to"),
    Column("broker"),
    Column("queue", ColumnKind.NUMBER),
    Column("offset", ColumnKind.NUMBER),
    Column("new id"),
    Column("error"),
)


def _show_outcomes(
    group: str, outcomes: Sequence[Replayed], form: Format, settings: CommonOptions
) -> None:
    results = [_outcome(outcome) for outcome in outcomes]
    document = {"schema": REPLAY_SCHEMA, "group": group, "messages": results}
    show(
        CommandOutput(_REPLAYED, [_cells(each) for each in results], lambda: document),
        form,
        settings,
    )


def _say_what_is_missing(outcomes: Sequence[Replayed], total: int) -> None:
    failed = sum(outcome.error is not None for outcome in outcomes)
    say(f"{len(outcomes) - failed} of {total} sent; {GAP}")
    if len(outcomes) < total:
        unknown = total - len(outcomes)
        say(f"the replay ended early: it is not known whether {unknown} more were sent")
    keyless = sum(outcome.letter.message.sharding_key is None for outcome in outcomes)
    if keyless:
        say(f"{keyless} have no sharding key: they went to any queue")


def _outcome(outcome: Replayed) -> dict[str, Any]:
    result = outcome.result
    return {
        "message_id": outcome.letter.message_id,
        "key": outcome.letter.message.sharding_key,
        "topic": None if result is None else result.queue.topic,
        "broker": None if result is None else result.queue.broker_name,
        "queue": None if result is None else result.queue.queue_id,
        "offset": None if result is None else result.queue_offset,
        "new_message_id": None if result is None else result.message_id,
        "error": None if outcome.error is None else str(outcome.error.__cause__ or outcome.error),
    }
