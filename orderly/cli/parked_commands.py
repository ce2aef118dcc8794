"""`orderly parked add|release|drop`: what becomes of keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.command import Command
from orderly.cli.durations import Finite
from orderly.cli.output import Table, print_json, print_table
from orderly.cli.progress import Progress
from orderly.cli.selection import complete_topic, group_argument
from orderly.cli.settings import common_options, output_option, settings_of
from orderly.cli.text import printable
from orderly.foreign_text import escaped
from orderly.model import MessageQueue
from orderly.monitoring.backlog.judging import queues_text
from orderly.monitoring.texts import counted, key_command

if TYPE_CHECKING:
    from orderly.monitoring.parked import ParkedMessages
    from orderly.monitoring.parking.commands import OnProgress, Outcome
    from orderly.monitoring.parking.reports import Added

SCHEMA = "orderly.parked-command/v1"
ADD_SCHEMA = "orderly.parked-add/v1"
STOPPED = 1  # the verdict: a handler did not acknowledge a message, its key stays parked
OK = "ok"  # of a message that a dry run acknowledged
_IS_INT = f"{__name__}.int"
RELEASE = """\b
Examples:
  orderly parked release shipping order-17 --dry-run
  orderly parked release shipping order-17
  orderly parked release shipping --all -t orders
  orderly parked release shipping --int 17
"""
ADD = """\b
Examples:
  orderly parked add shipping order-17 --dry-run
  orderly parked add shipping order-17 -t orders
"""
DROP = """\b
Examples:
  orderly parked export shipping parked.jsonl
  orderly parked drop shipping order-17 --yes
"""
F = TypeVar("F", bound=Callable[..., Any])
Key = str | int
Act = Callable[["ParkedMessages", Key, "OnProgress"], "tuple[Outcome, ...]"]
Targets = Sequence[tuple[str | None, Key]]
"""Topic (None: not known) and key."""


def topic_option(command: F) -> F:
    """Add --topic as the argument `topic`."""
    return click.option(
        "-t",
        "--topic",
        metavar="TOPIC",
        shell_complete=complete_topic,
        help="Only of this source topic.",
    )(command)


def key_argument(command: F) -> F:
    """Add KEY, and --int for a key that is a number, as the argument `key`."""
    return _with_key(command, required=True)


def keys_options(command: F) -> F:
    """Add KEY, --int and --all as the arguments `key` and `every`."""
    every = click.option("--all", "every", is_flag=True, help="All parked keys, one by one.")
    return _with_key(every(command), required=False)


def _with_key(command: F, *, required: bool) -> F:
    number = click.option(
        "--int",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, given: ctx.meta.update({_IS_INT: given}),
        help="KEY is a number, not its text.",
    )
    return click.argument("key", required=required, callback=_read_key)(number(command))


def _read_key(ctx: click.Context, param: click.Parameter, text: str | None) -> Key | None:
    if text is None or not ctx.meta.get(_IS_INT):
        return text
    try:
        return int(text)
    except ValueError as error:
        raise click.BadParameter("with --int it must be a whole number", ctx, param) from error


def key_text(key: Key) -> str:
    """A key in a table: as it is to be given; two keys never look the same."""
    return escaped(key) if isinstance(key, str) else f"--int {key}"


def say(text: str) -> None:
    """Print a line on stderr."""
    click.echo(printable(text), err=True)


def _timeout_option(command: F) -> F:
    """Add --timeout as the argument `timeout`."""
    return click.option(
        "--timeout",
        type=Finite(1),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="Wait so long for a word of the queue's owner.",
    )(command)


@click.command(
    cls=Command, short_help="Have a key run by its owner; it goes on live.", epilog=RELEASE
)
@group_argument
@keys_options
@click.option("--dry-run", is_flag=True, help="Try each message, acknowledge none.")
@_timeout_option
@topic_option
@output_option
@common_options
@click.pass_context
def release(
    ctx: click.Context, /, *, dry_run: bool, timeout: float, output: str, **chosen: Any
) -> int:
    """Have the parked messages of KEY in GROUP run in order; then the key goes on live.

    The member that owns the key's queue runs them, while later messages of the key go on being
    parked behind. At the first message that fails again it stops: the key stays parked from there
    on. With --dry-run nothing is acknowledged; only handlers that say they can are called so.
    """

    def act(parked: ParkedMessages, key: Key, told: OnProgress) -> tuple[Outcome, ...]:
        run = parked.try_ if dry_run else parked.release
        return run(key, patience=timeout, on_progress=told, on_sent=say)

    what = "messages tried" if dry_run else "messages settled"
    return _carry_out(ctx, act, output, what=what, **chosen)


@click.command(cls=Command, short_help="Have a key parked that blocks.", epilog=ADD)
@group_argument
@key_argument
@click.option("--dry-run", is_flag=True, help="Ask whether it would be parked; park nothing.")
@_timeout_option
@topic_option
@output_option
@common_options
@click.pass_context
def add(
    ctx: click.Context,
    /,
    *,
    group: str,
    key: Key,
    dry_run: bool,
    timeout: float,
    topic: str | None,
    output: str,
) -> int:
    """Have KEY of GROUP parked: its messages wait, in order, and the other keys go on.

    For a key that blocks. The member that owns its queue parks what waits of it now, also while it
    waits after a failure or is suspended, and all its later messages behind. Nothing is lost:
    release brings them back.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        parked = ParkedMessages(client, group, topic)
        added = parked.add(key, dry_run=dry_run, patience=timeout, on_sent=say)
    if output == "json":
        fields = [_added_fields(outcome) for outcome in added.outcomes]
        unknown = [_queue_fields(queue) | {"error": str(why)} for queue, why in added.unknown]
        print_json({"schema": ADD_SCHEMA, "group": group, "keys": fields, "unknown": unknown})
    else:
        rows = [tuple(_added_fields(o).values()) for o in added.outcomes]
        print_table(Table(_ADDED_COLUMNS, [(*row[:3], key_text(key), *row[4:]) for row in rows]))
    for line in _added_remarks(group, key, added, dry_run=dry_run):
        say(line)
    refused = any(outcome.refused for outcome in added.outcomes)
    return NOT_MEASURED if refused or added.unknown or not added.outcomes else 0


_ADDED_COLUMNS = ("topic", "broker", "queue", "key", "parked", "reason")


def _added_fields(outcome: Outcome) -> dict[str, Any]:
    told = {"key": outcome.key, "parked": outcome.settled, "reason": outcome.reason}
    return _queue_fields(outcome.queue) | told


def _added_remarks(group: str, key: Key, added: Added, *, dry_run: bool) -> Iterator[str]:
    about = f"key {key!r}"
    for outcome in added.outcomes:
        at = f"{about} of {outcome.queue}"
        if outcome.refused:
            yield f"error: {at}: {outcome.reason}"
        elif dry_run:
            yield f"{at}: {counted(outcome.settled, 'message')} would be parked"
        else:
            yield f"{at}: {counted(outcome.settled, 'message')} parked, later ones go behind"
            release = key_command("release", group, outcome.queue.topic, key)
            yield f"when its cause is mended: {release}"
    for queue, why in added.unknown:
        yield f"UNKNOWN {queue}: {why}"
    if not added.outcomes:
        asked = queues_text(len(added.read))
        yield (
            f"error: no message of {about} waits in {asked} whose owners answered; a number is"
            " another key than its text (--int)"
        )


@click.command(cls=Command, short_help="Give a key's messages up; it goes on live.", epilog=DROP)
@group_argument
@key_argument
@click.option("-y", "--yes", is_flag=True, help="Yes, give them up.")
@_timeout_option
@topic_option
@output_option
@common_options
@click.pass_context
def drop(ctx: click.Context, /, *, yes: bool, timeout: float, output: str, **chosen: Any) -> int:
    """Give the parked messages of KEY in GROUP up: they are never run; the key goes on live."""
    if not yes:
        raise click.UsageError("dropped messages are never run: export them first, give --yes", ctx)

    def act(parked: ParkedMessages, key: Key, told: OnProgress) -> tuple[Outcome, ...]:
        return parked.drop(key, patience=timeout, on_progress=told, on_sent=say)

    return _carry_out(ctx, act, output, every=False, **chosen)


def _carry_out(
    ctx: click.Context,
    act: Act,
    output: str,
    *,
    group: str,
    key: Key | None,
    every: bool,
    topic: str | None,
    what: str = "messages settled",
) -> int:
    """Do one thing with one key or all, tell what became of it, and give the exit code."""
    settings = settings_of(ctx)
    if (key is None) != every:
        raise click.UsageError("give KEY, or --all", ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    progress, done = Progress(what), list["Outcome"]()
    with settings.client() as client:
        if key is not None:
            targets: Targets = [(topic, key)]
        else:
            targets = ParkedMessages(client, group, topic).keys()

        def run(of_topic: str | None, each: Key) -> tuple[Outcome, ...]:
            return act(ParkedMessages(client, group, of_topic), each, progress.reached)

        try:
            missed = _each(targets, run, done, every=every)
        finally:
            if done or not targets:
                _print_outcomes(group, done, output)
    return NOT_MEASURED if missed else _exit_code(done)


def _each(
    targets: Targets,
    run: Callable[[str | None, Key], tuple[Outcome, ...]],
    done: list[Outcome],
    *,
    every: bool,
) -> int:
    """Take one key after the other; returns how many of all were not parked any more."""
    from orderly.monitoring.parking.queues import NotParked  # noqa: PLC0415  `--help` is quick

    left, missed = deque(targets), 0
    try:
        while left:
            try:
                done += run(*left[0])
            except NotParked as error:  # somebody else was faster
                if not every:
                    raise
                say(f"error: {error}")
                missed += 1
            left.popleft()
    finally:
        if len(left) > 1:
            say(f"{len(left) - 1} more keys were not tried")
    return missed


def _print_outcomes(group: str, outcomes: Sequence[Outcome], output: str) -> None:
    if output == "json":
        fields = [_fields(outcome) for outcome in outcomes]
        print_json({"schema": SCHEMA, "group": group, "keys": fields})
    else:
        print_table(Table(_COLUMNS, [_row(outcome) for outcome in outcomes]))
        tried = [(key_text(o.key), offset, text) for o in outcomes for offset, text in o.outcomes]
        if tried:
            print_table(Table(("key", "offset", "outcome"), tried))
    for line in _remarks(outcomes):
        say(line)


_COLUMNS = ("topic", "broker", "queue", "key", "settled", "failed at", "reason")


def _row(outcome: Outcome) -> tuple[str | int | None, ...]:
    topic, broker, queue, _, *rest = list(_fields(outcome).values())[: len(_COLUMNS)]
    return (topic, broker, queue, key_text(outcome.key), *rest)


def _remarks(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What stderr says of it, too."""
    for outcome in outcomes:
        about = f"key {outcome.key!r} of {outcome.queue}"
        if outcome.outcomes:
            failed = sum(text != OK for _, text in outcome.outcomes)
            yield f"{about}: {failed} of {len(outcome.outcomes)} messages tried fail"
        if outcome.refused:
            yield f"error: {about}: {outcome.reason}"


def _queue_fields(queue: MessageQueue) -> dict[str, Any]:
    return {"topic": queue.topic, "broker": queue.broker_name, "queue": queue.queue_id}


def _fields(outcome: Outcome) -> dict[str, Any]:
    return _queue_fields(outcome.queue) | {
        "key": outcome.key,
        "settled": outcome.settled,
        "failed_at": outcome.failed_at,
        "reason": outcome.reason,
        "outcomes": [{"offset": offset, "outcome": text} for offset, text in outcome.outcomes],
    }


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    if any(outcome.refused for outcome in outcomes):
        return NOT_MEASURED
    failed = any(outcome.failed_at is not None for outcome in outcomes)
    cured = all(text == OK for outcome in outcomes for _, text in outcome.outcomes)
    return STOPPED if failed or not cured else 0
