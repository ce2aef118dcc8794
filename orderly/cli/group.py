"""`orderly group list|delete`: consumer groups as brokers know them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.backlog.measuring import require_groups
from orderly.cli.command import Group
from orderly.cli.commands import NOT_MEASURED
from orderly.cli.options import answers_option
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.selection import Names, group_argument, groups_options
from orderly.cli.settings import CommonOptions, common_options, settings_of
from orderly.cli.terminal import confirmed, say, say_unread, yes_option
from orderly.errors import ConfigError, OrderlyError
from orderly.monitoring.texts import Column, ColumnKind, counted, iso_time
from orderly.namespace import is_retry_topic

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import GroupStatus, Snapshot
    from orderly.monitoring.collecting.selection import Selection

LIST_SCHEMA = "orderly.groups/v1"
DELETE_SCHEMA = "orderly.group-delete/v1"
_EVERYBODY = 1_000_000  # groups whose members are asked for
LIST = """\b
Examples:
  orderly group list
  orderly group list -t orders           # who consumes it?
  orderly group list 'ship*' -o json
"""
DELETE = """\b
Examples:
  orderly group delete shipping --dry-run
  orderly group delete shipping
"""


@click.group(cls=Group)
def group() -> None:
    """Consumer groups: list them, delete them.

    `orderly backlog` shows how far behind they are; `orderly locks` shows which member has which
    queue.
    """


@group.command("list", epilog=LIST)
@groups_options()
@click.option("--all", "everything", is_flag=True, help="Also RocketMQ's own groups.")
@answers_option
@format_options()
@common_options
@click.pass_context
def list_groups(
    ctx: click.Context, *, names: Names, everything: bool, timeout: float, form: Format
) -> int:
    """List all groups, or only GROUP... (names or globs), with their members and topics.

    The list includes groups that have never committed an offset. TOPICS are the topics in which the
    group has an offset or a member consumes.
    """
    settings = settings_of(ctx)
    selection = names.selection(settings, system=everything)
    with settings.client(timeout) as client:
        for topic in selection.named_topics:
            client.routes.get(topic)  # or the topic does not exist
        snapshot = _look(client, selection, timeout)
    require_groups(snapshot, selection)
    found = [each for each in snapshot.groups.values() if each.topics or not selection.topics]
    listed = [_listed(each) for each in found]
    rows = [_row(each) for each in listed]
    errors = {name: it.error for name, it in snapshot.brokers.items() if it.error}
    heading = {"schema": LIST_SCHEMA, "time": iso_time(snapshot.at)}
    document = heading | {"groups": listed, "errors": errors}
    show(CommandOutput.of(_LISTED, rows, document), form, settings)
    say_unread(errors)
    return NOT_MEASURED if errors else 0


_LISTED = (
    Column("group"),
    Column("members", ColumnKind.COUNT),
    Column("order"),
    Column("model"),
    Column("topics"),
)


def _look(client: Client, selection: Selection, timeout: float) -> Snapshot:
    """Who is there, and what they consume; asks for nothing else."""
    from orderly.monitoring.collecting.budgets import Budgets  # noqa: PLC0415  `--help` is quick
    from orderly.monitoring.collecting.scan import ScanSettings  # noqa: PLC0415
    from orderly.monitoring.collecting.survey import survey  # noqa: PLC0415

    budgets = Budgets(groups=_EVERYBODY, members=_EVERYBODY, delays=0, heads=0, records=0)
    return survey(client, selection, settings=ScanSettings(deadline=timeout), budgets=budgets)


def _listed(found: GroupStatus) -> dict[str, Any]:
    return {
        "group": found.group,
        "members": None if found.members is None else list(found.members),
        "order": found.order or None,
        "model": found.model.lower() or None,
        "topics": [topic for topic in found.topics if not is_retry_topic(topic)],
    }


def _row(listed: dict[str, Any]) -> dict[str, Any]:
    members = listed["members"]
    return listed | {
        "members": None if members is None else len(members),
        "topics": ", ".join(listed["topics"]) or None,
    }


# --- delete ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Belongings:
    """What a group has at the brokers.

    Attributes:
        group: as it was seen.
        topics: that are its own: retries, dead letters, state, parked messages.
    """

    group: GroupStatus
    topics: tuple[str, ...]

    def uses(self) -> Iterator[str]:
        """Who uses it, and what would be lost with it."""
        members, sums, dead = self.group.members, self.group.sums, self.group.dead
        if members is None:
            yield "whether members are online is not known"
        elif members:
            yield f"{counted(len(members), 'member')} online, who would create it again"
        if sums.parked_keys:
            messages = counted(sums.parked_messages or 0, "message")
            yield f"{counted(sums.parked_keys, 'parked key')} with {messages}"
        if dead is not None and dead.messages:
            yield counted(dead.messages, "dead letter")
        for name, topic in self.group.topics.items():
            if is_retry_topic(name) and topic.sums.backlog:
                yield f"{counted(topic.sums.backlog, 'message')} to be retried"


@group.command("delete", epilog=DELETE)
@group_argument
@click.option(
    "--force",
    is_flag=True,
    help="Delete it even if it has members online, parked keys, dead letters or retries.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@yes_option
@format_options()
@common_options
@click.pass_context
def delete_group(
    ctx: click.Context, *, group: str, force: bool, dry_run: bool, yes: bool, form: Format
) -> int:
    """Delete GROUP: its settings, its offsets, and its own topics.

    Its own topics hold its retries and its dead letters; if members kept order by key, also their
    state and parked messages. The command refuses while the group is in use, unless you give
    --force. A member that starts later begins where its `consume_from` says.
    """
    settings = settings_of(ctx)
    group = settings.group(group)
    form.require_answer(ctx, yes, dry_run, otherwise="--yes or --dry-run")
    began = time.time()
    with settings.client() as client:
        found = _belongings(client, group)
        if form.for_reader:
            _show_plan(found, form, settings)
        uses = list(found.uses())
        if uses and not (force or dry_run):
            raise ConfigError(
                f"group {group} is in use: {'; '.join(uses)}. Nothing was deleted; --force deletes"
                " it anyway"
            )
        if not dry_run:
            if not (yes or confirmed(ctx, f"Delete group {group}?", "--yes (or --dry-run)")):
                say("nothing was deleted")
                return NOT_MEASURED
            client.housekeeping.delete_group(group)
            for topic in found.topics:
                client.housekeeping.delete_topic(topic)
            say(f"deleted {group}")
    if not form.for_reader:
        heading = {"schema": DELETE_SCHEMA, "time": iso_time(began), "dry_run": dry_run}
        document = heading | _listed(found.group) | {"uses": uses, "deletes": list(found.topics)}
        show(CommandOutput.of(_PLANNED, _planned(found), document), form, settings)
    return 0


def _belongings(client: Client, group: str) -> Belongings:
    """Look at a group.

    Raises:
        ConfigError: no such group.
        OrderlyError: a broker did not answer: it would keep its part of the group.
    """
    from orderly.monitoring.collecting.budgets import Budgets  # noqa: PLC0415  `--help` is quick
    from orderly.monitoring.collecting.selection import (  # noqa: PLC0415
        Selection,
        dead_letter_topic,
        retry_topic,
    )
    from orderly.monitoring.collecting.survey import survey  # noqa: PLC0415
    from orderly.ordering.topic_names import park_topic, state_topic  # noqa: PLC0415

    snapshot = survey(client, Selection((group,)), budgets=Budgets())
    for name, broker in snapshot.brokers.items():
        if broker.error:
            raise OrderlyError(f"broker {name} could not be read, nothing was done: {broker.error}")
    if group not in snapshot.groups:
        raise ConfigError(f"there is no group {group} (`orderly group list` shows all)")
    found, present = snapshot.groups[group], set(client.admin.topics())
    own = {retry_topic(group), dead_letter_topic(group)} | {
        name(group, topic) for topic in present | found.topics.keys() for name in
        (state_topic, park_topic)
    }  # fmt: skip
    return Belongings(found, tuple(sorted(own & present)))


def _show_plan(found: Belongings, form: Format, settings: CommonOptions) -> None:
    show(CommandOutput.of(_PLANNED, _planned(found), None), form, settings)
    say(f"its topics, deleted with it: {', '.join(found.topics) or 'none'}")
    for use in found.uses():
        say(f"it is in use: {use}")


_PLANNED = (
    Column("topic"),
    Column("queues", ColumnKind.COUNT),
    Column("backlog", ColumnKind.COUNT),
)


def _planned(found: Belongings) -> list[dict[str, Any]]:
    """Of each topic that it consumes, what its offsets say."""
    return [
        {"topic": name, "queues": topic.sums.queues, "backlog": topic.sums.backlog}
        for name, topic in found.group.topics.items()
        if not is_retry_topic(name)
    ]
