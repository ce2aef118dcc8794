"""`orderly parked list|show|export|keepalive|add|release|drop`: what is set aside.

The work is done in `orderly.monitoring`; here are options, texts and exit codes.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.command import Group, OrderlyCommand
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.options import Duration, gathered
from orderly.cli.output import (
    CommandOutput,
    Format,
    format_options,
    group_by_option,
    show,
    show_groups,
)
from orderly.cli.redacting import listing_without_keys, redact_option
from orderly.cli.selection import complete_topic, group_argument
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import ProgressLine, confirmed, json_body, preview, say, yes_option
from orderly.errors import ConfigError, OrderlyError
from orderly.foreign_text import escaped
from orderly.model import MessageQueue
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog.thresholds import queues_text
from orderly.monitoring.texts import Cell, Column, ColumnKind, counted, iso_time, key_command

if TYPE_CHECKING:
    from orderly.monitoring.park_command_sender import Ended, Outcome
    from orderly.monitoring.parked import Added, KeyReport, Listing
    from orderly.monitoring.parked_queues import Unknown
    from orderly.protocol.park_record import Parked


COMMAND_SCHEMA = "orderly.parked-command/v1"
ADD_SCHEMA = "orderly.parked-add/v1"
STOPPED = 1  # the verdict: a handler did not acknowledge a message, its key stays parked
OK = "ok"  # of a message that a dry run acknowledged
_IS_INT = f"{__name__}.int"
RELEASE = """\b
Examples:
  orderly parked release shipping order-17 --dry-run
  orderly parked release shipping order-17
  orderly parked release shipping --int 17
  orderly parked release shipping --max 1                           # the oldest: does it go well?
  orderly parked release shipping --fingerprint psycopg.OperationalError
  orderly parked release shipping --all -t orders --yes
"""
ADD = """\b
Examples:
  orderly parked add shipping order-17 --dry-run
  orderly parked add shipping order-17 -t orders
"""
DROP = """\b
Examples:
  orderly parked export shipping --out parked.jsonl
  orderly parked drop shipping order-17
"""
F = TypeVar("F", bound=Callable[..., Any])
Key = str | int


def topic_option(command: F) -> F:
    """Add --topic as the argument `topic`."""
    return click.option(
        "-t",
        "--topic",
        metavar="TOPIC",
        shell_complete=complete_topic,
        help="Only messages of this source topic.",
    )(command)


def key_argument(*, required: bool = True) -> Callable[[F], F]:
    """Add KEY, and --int for a key that is a number, as the argument `key`."""
    number = click.option(
        "--int",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=lambda ctx, _, given: ctx.meta.update({_IS_INT: given}),
        help="KEY is a number, not a text.",
    )
    argument = click.argument("key", required=required, callback=_read_key)
    return lambda command: argument(number(command))


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


def _timeout_option(command: F) -> F:
    """Add --timeout as the argument `timeout`."""
    return click.option(
        "--timeout",
        type=Duration(1),
        default="60s",
        show_default=True,
        help="Give up if the queue's owner does not answer for this long.",
    )(command)


# --- which keys -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """Which keys are to be released: one, or several by what they have in common.

    Attributes:
        key: the one; None: several.
        fingerprint: how their first message failed, or how that begins; None: in any way.
        every: all of them.
        most: how many, those that were parked first; None: no limit.
    """

    key: Key | None
    fingerprint: str | None
    every: bool
    most: int | None

    def check(self, ctx: click.Context) -> None:
        """Refuse what says nothing, or two things."""
        several = self.fingerprint is not None or self.most is not None
        if [self.key is not None, several, self.every].count(True) != 1:
            raise click.UsageError(
                "give KEY, or --all, or --fingerprint and --max (one or both)", ctx
            )

    def of(self, keys: Iterable[KeyReport]) -> list[KeyReport]:
        """The chosen ones of those that are parked, whoever was parked first."""
        found = sorted(_failed_so(keys, self.fingerprint), key=_since)
        return found[: self.most]


def _failed_so(keys: Iterable[KeyReport], fingerprint: str | None) -> Iterator[KeyReport]:
    """Those whose first message failed so."""
    return (each for each in keys if fingerprint is None or _how(each).startswith(fingerprint))


def _how(report: KeyReport) -> str:
    details = None if report.first is None else report.first.details
    return "" if details is None else details.fingerprint or details.reason or ""


def _since(report: KeyReport) -> float:
    """When it was parked; one of which that is not known comes last."""
    return math.inf if report.first is None else report.first.details.parked_at


fingerprint_option = click.option(
    "--fingerprint",
    metavar="TEXT",
    help="Only keys whose first message failed this way: a fingerprint that `list --group-by"
    " fingerprint` shows, or its beginning.",
)
_CHOICE = (
    key_argument(required=False),
    fingerprint_option,
    click.option("--all", "every", is_flag=True, help="All parked keys."),
    click.option(
        "--max",
        "most",
        type=click.IntRange(1),
        metavar="N",
        help="At most N keys, the longest parked first.",
    ),
)


def choice_options(command: F) -> F:
    """Add KEY, --int, --fingerprint, --all and --max as the argument `choice`."""
    names = ("key", "fingerprint", "every", "most")
    return gathered(command, _CHOICE, names, Choice, "choice")


# --- release, add, drop ---------------------------------------------------------------------------


@click.command(
    cls=OrderlyCommand, short_help="Run the messages of parked keys, in order.", epilog=RELEASE
)
@group_argument
@choice_options
@click.option("--dry-run", is_flag=True, help="Try each message; acknowledge none.")
@yes_option
@_timeout_option
@topic_option
@format_options()
@common_options
@click.pass_context
def release(
    ctx: click.Context,
    /,
    *,
    group: str,
    choice: Choice,
    dry_run: bool,
    yes: bool,
    timeout: float,
    topic: str | None,
    form: Format,
) -> int:
    """Run the parked messages of KEY in GROUP in order; new ones then run as usual.

    The member that owns the key's queue runs them. New messages of the key are parked behind them
    meanwhile. If a message fails again, the release stops there, and the key stays parked from that
    message on. With --dry-run nothing is acknowledged, and only handlers that support a dry run are
    called.

    With --fingerprint, --max or --all you can release several keys. The command first shows how
    many keys are in which queue and how long they have been parked, and asks. Then it releases
    them: in each queue one by one, the longest parked first.
    """
    choice.check(ctx)
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    form.require_answer(ctx, yes, dry_run, choice.key is not None)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        parked = ParkedMessages(client, group, topic)
        if choice.key is not None:
            run = parked.try_ if dry_run else parked.release
            progress = ProgressLine("messages tried" if dry_run else "messages settled")
            done = run(choice.key, patience=timeout, on_progress=progress.reached, on_sent=say)
            _show_outcomes(group, done, form, settings)
            return _exit_code(done)
        listing = parked.list()
        chosen = choice.of(listing.keys)
        for line in _about_to(group, listing, chosen):
            say(line)
        if chosen and form.for_reader:
            show(CommandOutput.of(_CHOSEN, _by_queue(chosen, time.time()), None), form, settings)
        question = f"Release {counted(len(chosen), 'key')}?"
        if chosen and not (yes or dry_run or confirmed(ctx, question)):
            say("nothing was released")
            return NOT_MEASURED
        keys = [(report.queue, report.key) for report in chosen]
        ends = parked.release_each(keys, dry_run=dry_run, patience=timeout)
        what = "would be released" if dry_run else "released"
        code = _watch(group, ends, len(keys), what=what, form=form, settings=settings)
    return NOT_MEASURED if listing.unknown else code


def _watch(
    group: str,
    ends: Iterator[Ended],
    total: int,
    *,
    what: str,
    form: Format,
    settings: CommonOptions,
) -> int:
    """Show what becomes of several keys: of those that did not go well which, of all how many."""
    done, progress = list["Outcome"](), ProgressLine("keys", total)
    unknown: list[tuple[MessageQueue, Key, OrderlyError]] = []
    try:
        for queue, key, end in ends:
            if isinstance(end, OrderlyError):
                unknown.append((queue, key, end))
            else:
                done.append(end)
            progress.reached(len(done) + len(unknown))
    finally:
        bad = [outcome for outcome in done if _exit_code((outcome,))]
        if bad or not form.for_reader:
            _show_outcomes(group, bad if form.for_reader else done, form, settings, unknown)
        for queue, key, error in unknown:
            say(f"error: key {key!r} of {queue}: {error}")
        if total:
            settled = sum(outcome.settled for outcome in done if outcome not in bad)
            of_all = f"{len(done) - len(bad)} of {counted(total, 'key')}"
            say(f"{of_all} {what}, with {counted(settled, 'message')}")
    return NOT_MEASURED if unknown else _exit_code(done)


def _about_to(group: str, listing: Listing, chosen: Sequence[KeyReport]) -> Iterator[str]:
    """What is about to be released, and what is not."""
    for queue, error in listing.unknown:
        yield f"UNKNOWN {queue}: {error}"
    if not chosen:
        there = f"{counted(len(listing.keys), 'parked key')}, and none matches"
        yield f"nothing to release: group {group} has {there if listing.keys else 'no parked key'}"
        return
    messages = sum(report.messages for report in chosen)
    left = len(listing.keys) - len(chosen)
    stays = f"; {counted(left, 'other key')} of the group stay parked" if left else ""
    yield f"{counted(len(chosen), 'key')} with {counted(messages, 'message')} of {group}{stays}"
    alike = Counter(_how(report) for report in chosen)
    for how, count in alike.most_common(_FAILURES):
        yield f"  {counted(count, 'key')}: {how or 'how they failed is not known'}"
    if len(alike) > _FAILURES:
        yield f"  and {counted(len(alike) - _FAILURES, 'other failure')}"


_FAILURES = 5  # that a preview shows
_CHOSEN = (
    Column("topic"),
    Column("broker"),
    Column("queue", ColumnKind.NUMBER),
    Column("keys", ColumnKind.COUNT),
    Column("messages", ColumnKind.COUNT),
    Column("parked for", ColumnKind.SECONDS),
)


def _by_queue(chosen: Iterable[KeyReport], now: float) -> list[dict[str, Any]]:
    """A row a queue: how many keys and messages, and for how long the oldest is parked."""
    queues: dict[MessageQueue, list[KeyReport]] = defaultdict(list)
    for report in chosen:
        queues[report.queue].append(report)
    return [
        _queue_fields(queue)
        | {
            "keys": len(reports),
            "messages": sum(report.messages for report in reports),
            "parked_for": _age(min(map(_since, reports)), now),
        }
        for queue, reports in sorted(queues.items())
    ]


def _age(since: float, now: float) -> float | None:
    return None if math.isinf(since) else max(0.0, now - since)


@click.command(cls=OrderlyCommand, short_help="Park a key that blocks its queue.", epilog=ADD)
@group_argument
@key_argument()
@click.option("--dry-run", is_flag=True, help="Ask whether KEY can be parked; park nothing.")
@_timeout_option
@topic_option
@format_options()
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
    form: Format,
) -> int:
    """Park KEY of GROUP: its messages wait, in order, and the other keys go on.

    Use it for a key that blocks its queue. The member that owns the queue parks the messages of the
    key that wait now, even if the key waits after a failure or is suspended, and then all later
    ones. Nothing is lost: `orderly parked release` runs them.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        parked = ParkedMessages(client, group, topic)
        added = parked.add(key, dry_run=dry_run, patience=timeout, on_sent=say)
    fields = [_added_fields(outcome) for outcome in added.outcomes]
    unknown = [_queue_fields(queue) | {"error": str(why)} for queue, why in added.unknown]
    document = {"schema": ADD_SCHEMA, "group": group, "keys": fields, "unknown": unknown}
    rows = [each | {"key": key_text(key), "messages": each["parked"]} for each in fields]
    show(CommandOutput.of(_ADDED_COLUMNS, rows, document), form, settings)
    for line in _added_remarks(group, key, added, dry_run=dry_run):
        say(line)
    refused = any(outcome.refused for outcome in added.outcomes)
    return NOT_MEASURED if refused or added.unknown or not added.outcomes else 0


_AT = (Column("topic"), Column("broker"), Column("queue", ColumnKind.NUMBER), Column("key"))
_ADDED_COLUMNS = (*_AT, Column("messages", ColumnKind.COUNT), Column("reason"))


def _added_fields(outcome: Outcome) -> dict[str, Any]:
    fields = {"key": outcome.key, "parked": outcome.settled, "reason": outcome.reason}
    return _queue_fields(outcome.queue) | fields


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
            yield f"when the cause is fixed: {release}"
    for queue, why in added.unknown:
        yield f"UNKNOWN {queue}: {why}"
    if not added.outcomes:
        asked = queues_text(len(added.read))
        yield (
            f"error: no message of {about} waits in {asked} whose owners answered; if the key is"
            " a number, give --int"
        )


@click.command(cls=OrderlyCommand, short_help="Discard a key's parked messages.", epilog=DROP)
@group_argument
@key_argument()
@yes_option
@_timeout_option
@topic_option
@format_options()
@common_options
@click.pass_context
def drop(
    ctx: click.Context,
    /,
    *,
    group: str,
    key: Key,
    yes: bool,
    timeout: float,
    topic: str | None,
    form: Format,
) -> int:
    """Discard the parked messages of KEY in GROUP: they never run; new ones run as usual.

    All of them go, also those that never failed and only wait behind the one that did. The command
    says how many these are, and asks first. Use `orderly parked export` to keep a copy.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    form.require_answer(ctx, yes)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        parked = ParkedMessages(client, group, topic)
        listing = parked.list(key)
        if not yes:
            show(_answer(group, listing), form, settings)
        for report in listing.keys:
            for line in _given_up(group, report):
                say(line)
        if not (yes or confirmed(ctx, "Discard these messages? They never run")):
            say("nothing was dropped")
            return NOT_MEASURED
        progress = ProgressLine("messages settled")
        done = parked.drop(key, patience=timeout, on_progress=progress.reached, on_sent=say)
    untried = {report.queue: report.untried for report in listing.keys}
    _show_outcomes(group, done, form, settings, untried=untried)
    return _exit_code(done)


def _given_up(group: str, report: KeyReport) -> Iterator[str]:
    """What a drop throws away that would run if it had not to wait."""
    about = f"key {report.key!r} of {report.queue}"
    yield f"{about}: all of its {counted(report.messages, 'message')} are discarded"
    if report.untried:
        yield (
            f"{about}: {report.untried} of them never failed; no command gives up the bad one alone"
            f" yet; to keep a copy of all: orderly parked export {group} --out FILE"
        )


def _show_outcomes(
    group: str,
    outcomes: Sequence[Outcome],
    form: Format,
    settings: CommonOptions,
    unknown: Sequence[tuple[MessageQueue, Key, OrderlyError]] = (),
    *,
    untried: Mapping[MessageQueue, int] | None = None,
) -> None:
    fields = [_outcome_fields(outcome) for outcome in outcomes]
    if untried is not None:
        fields = [
            each | {"untried": untried.get(o.queue)}
            for each, o in zip(fields, outcomes, strict=True)
        ]
    rows = [each | {"key": key_text(each["key"])} for each in fields]
    not_known = [_queue_fields(q) | {"key": key, "error": str(why)} for q, key, why in unknown]
    document = {"schema": COMMAND_SCHEMA, "group": group, "keys": fields, "unknown": not_known}
    show(CommandOutput.of(_OUTCOMES, rows, document), form, settings)
    tried = [(key_text(o.key), offset, text) for o in outcomes for offset, text in o.outcomes]
    if tried and form.for_reader:  # a document has them in it
        show(CommandOutput(_TRIED, tried), form, settings)
    for line in _remarks(outcomes):
        say(line)


_OUTCOMES = (
    *_AT,
    Column("settled", ColumnKind.COUNT),
    Column("failed at", ColumnKind.NUMBER),
    Column("reason"),
)
_TRIED = (Column("key"), Column("offset", ColumnKind.NUMBER), Column("outcome"))


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


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
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


# --- list, show, export, keepalive ----------------------------------------------------------------


LIST_SCHEMA = "orderly.parked/v1"
GROUPS_SCHEMA = "orderly.parked-groups/v1"
SHOW_SCHEMA = "orderly.parked-key/v1"
PREVIEW = 60  # characters of a body
LIST = """\b
Examples:
  orderly parked list shipping
  orderly parked list shipping -t orders --redact-keys hash -o json
  orderly parked list shipping --group-by fingerprint
  orderly parked list shipping --fingerprint psycopg.OperationalError
"""
SHOW = """\b
Examples:
  orderly parked show shipping order-17
  orderly parked show shipping order-17 --limit 5 -o json
"""
EXPORT = """\b
Examples:
  orderly parked export shipping --out parked.jsonl
"""
KEEPALIVE = """\b
Examples:
  orderly parked keepalive shipping
  orderly parked keepalive shipping --older-than 24h
"""


@click.group(cls=Group)
def parked() -> None:
    """Parked keys, which a group has set aside: list, show, add, release, drop, export, keep.

    The number 7 and the text "7" are different keys: give --int for the number. Put a key that
    begins with "-" behind "--", as in: orderly parked release --int GROUP -- -7
    """


parked.add_command(add)
parked.add_command(release)
parked.add_command(drop)


@parked.command("list", short_help="The parked keys of a group.", epilog=LIST)
@group_argument
@topic_option
@fingerprint_option
@group_by_option("fingerprint", "class", "queue")
@redact_option
@format_options()
@common_options
@click.pass_context
def list_keys(
    ctx: click.Context,
    *,
    group: str,
    topic: str | None,
    fingerprint: str | None,
    group_by: str | None,
    redact_keys: str | None,
    form: Format,
) -> int:
    """Show the parked keys of GROUP. No member needs to be running."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        listing = ParkedMessages(client, group, topic).list()
    listing = replace(listing, keys=tuple(_failed_so(listing.keys, fingerprint)))
    if redact_keys:
        listing = listing_without_keys(listing)
    if group_by is not None:
        rows = map(_to_group, listing.keys)
        show_groups(rows, group_by, _document_head(GROUPS_SCHEMA, group, listing), form, settings)
        for queue, error in listing.unknown:
            say(f"UNKNOWN {queue}: {error}")
    else:
        show(_answer(group, listing), form, settings)
    brokers = ", ".join(sorted({queue.broker_name for queue in listing.read})) or "no broker"
    for report in listing.keys:
        _say_gone(f"key {report.key!r} of {report.queue}", report.gone)
    count = "1 parked key" if len(listing.keys) == 1 else f"{len(listing.keys)} parked keys"
    say(f"{count} of group {group} in {queues_text(len(listing.read))} read on {brokers}")
    return NOT_MEASURED if listing.unknown else 0


def _say_gone(what: str, count: int) -> None:
    if count > 0:
        say(
            f"{what}: up to {count} parked messages can be gone: the broker deleted a part of the"
            " park topic by its age, or it is damaged"
        )


_CLASS = re.compile(r"(answered )?[\w.]+")  # a fingerprint begins with it


def _to_group(report: KeyReport) -> dict[str, Any]:
    """A row for `grouped`: a key counts as its first message, which is the one that failed."""
    found = _fields(report)
    queue, how = report.queue, found["fingerprint"]
    named = None if how is None else _CLASS.match(how)
    return found | {
        "time": found["since"],
        "fingerprint": how or found["reason"],
        "class": None if named is None else named[0],
        "queue": f"{queue.topic}/{queue.broker_name}/{queue.queue_id}",
    }


def _document_head(schema: str, group: str, listing: Listing) -> dict[str, Any]:
    return {
        "schema": schema,
        "time": iso_time(time.time()),
        "group": group,
        "read": [str(queue) for queue in listing.read],
        "unknown": [
            {"topic": q.topic, "broker": q.broker_name, "queue": q.queue_id, "error": str(error)}
            for q, error in listing.unknown
        ],
    }


def _fields(report: KeyReport) -> dict[str, Any]:
    queue, first = report.queue, report.first
    details = None if first is None else first.details
    return {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queue": queue.queue_id,
        "key": report.key,
        "messages": report.messages,
        "bytes": report.size,
        "untried": report.untried,
        "recorded": report.recorded,
        "gone": report.gone,
        "first_offset": None if first is None else first.offset,
        "last_offset": report.last_offset,
        "since": None if details is None else iso_time(details.parked_at),
        "attempts": None if details is None else details.attempts,
        "reason": (details.reason or None) if details is not None else None,
        "fingerprint": None if details is None else details.fingerprint,
        "first_error": None if details is None else details.first_error,
        "last_error": None if details is None else details.last_error,
        "kept_until": None if report.expires is None else iso_time(report.expires),
    }


_COLUMNS = (
    Column("topic"),
    Column("broker"),
    Column("queue", ColumnKind.NUMBER),
    Column("key"),
    Column("messages", ColumnKind.COUNT),
    Column("since", ColumnKind.TIME),
    Column("kept until", ColumnKind.TIME),
    Column("why"),
)


def _answer(group: str, listing: Listing) -> CommandOutput:
    keys = [_fields(report) for report in listing.keys]
    shown = [each | {"key": key_text(each["key"]), "why": _why(each)} for each in keys]
    rows = [[each[column.name] for column in _COLUMNS] for each in shown]
    document = _document_head(LIST_SCHEMA, group, listing) | {"keys": keys}
    return CommandOutput(_COLUMNS, [*rows, *_unknown_rows(listing.unknown)], lambda: document)


def _why(fields: dict[str, Any]) -> str | None:
    """How the first message failed; the reason, if that is all that is known."""
    why: str | None = fields["first_error"] or fields["fingerprint"] or fields["reason"]
    return why


def _unknown_rows(unknown: Unknown) -> Iterator[list[Cell]]:
    nothing = (None,) * (len(_COLUMNS) - 4)
    for queue, error in unknown:
        at = (queue.topic, queue.broker_name, queue.queue_id)
        yield [*at, *nothing, f"{QueueState.UNKNOWN}: {error}"]


@parked.command("show", short_help="The messages of a parked key.", epilog=SHOW)
@group_argument
@key_argument()
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1, 1_000_000_000),
    default=100,
    show_default=True,
    metavar="N",
    help="Show only the first N messages.",
)
@topic_option
@format_options()
@common_options
@click.pass_context
def show_key(
    ctx: click.Context, *, group: str, key: str | int, limit: int, topic: str | None, form: Format
) -> None:
    """Show the parked messages of KEY in GROUP, in the order in which a release runs them."""
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        messages = iter(ParkedMessages(client, group, topic).show(key))
        found = list(islice(messages, limit))
        more = next(messages, None) is not None
    messages_shown = [_message(each) | json_body(each.original) for each in found]
    document = {"schema": SHOW_SCHEMA, "group": group, "key": key, "messages": messages_shown}
    rows = [
        fields | {"why": _why(fields), "body": preview(each.original, PREVIEW)}
        for fields, each in zip(messages_shown, found, strict=True)
    ]
    show(CommandOutput.of(_MESSAGES, rows, document), form, settings)
    if more:
        say(f"only the first {limit} messages are shown (--limit)")


_MESSAGES = (
    Column("broker"),
    Column("queue", ColumnKind.NUMBER),
    Column("offset", ColumnKind.NUMBER),
    Column("stored"),
    Column("attempts", ColumnKind.COUNT),
    Column("why"),
    Column("body"),
)


def _message(found: Parked) -> dict[str, Any]:
    source, details = found.original, found.details
    return {
        "topic": source.queue.topic,
        "broker": source.queue.broker_name,
        "queue": source.queue.queue_id,
        "offset": source.queue_offset,
        "message_id": source.message_id,
        "tags": source.tags,
        "stored": iso_time(source.store_time),
        "parked": iso_time(details.parked_at),
        "attempts": details.attempts,
        "reason": details.reason,
        "fingerprint": details.fingerprint,
        "first_error": details.first_error,
        "last_error": details.last_error,
    }


@parked.command("export", short_help="Write all parked messages to a file.", epilog=EXPORT)
@group_argument
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write them. An existing file is replaced.",
)
@topic_option
@common_options
@click.pass_context
def export(ctx: click.Context, *, group: str, out: Path, topic: str | None) -> None:
    """Write all parked messages of GROUP to a file: JSON lines, bodies in base64.

    The file appears only when it is complete.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        try:
            exported = ParkedMessages(client, group, topic).export(out)
        except OrderlyError:  # a broker's silence is an OSError, too
            raise
        except OSError as error:
            raise ConfigError(f"{out} cannot be written: {error.strerror or error}") from error
    say(f"{exported.messages} messages written to {out}")
    _say_gone("not in it", exported.gone)


@parked.command("keepalive", short_help="Store old messages again; for cron.", epilog=KEEPALIVE)
@group_argument
@click.option(
    "--older-than",
    type=Duration(),
    help="Only messages stored longer ago than this. Default: half of the broker's retention.",
)
@topic_option
@common_options
@click.pass_context
def keepalive(
    ctx: click.Context, *, group: str, older_than: float | None, topic: str | None
) -> int:
    """Store the parked messages of GROUP again before the broker deletes them by their age.

    Running members do this on their own. Run it from cron while no member runs.
    """
    settings = settings_of(ctx)
    group, topic = settings.group(group), settings.topic(topic)
    from orderly.monitoring.parked import ParkedMessages  # noqa: PLC0415  `--help` is quick

    with settings.client() as client:
        progress = ProgressLine("appended")
        renewal = ParkedMessages(client, group, topic).keepalive(older_than, progress.reached)
    say(f"{renewal.appended} messages appended again")
    for queue, error in renewal.unknown:
        say(f"UNKNOWN {queue}: {error}")
    return NOT_MEASURED if renewal.unknown else 0
