"""Which groups and topics a command is about: -g, -t and -r; and completion of their names."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.options import gathered
from orderly.cli.settings import CommonOptions, settings_of
from orderly.namespace import unwrap, wrap

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.monitoring.collecting.selection import Selection

F = TypeVar("F", bound=Callable[..., Any])
_WILD = re.compile(r"[*?\[]")
_PATIENCE = 1.0  # seconds that completion of a name may take


@dataclass(frozen=True, slots=True)
class Names:
    """What -g, -t and -r say.

    Attributes:
        groups, topics: names, globs, or with `regex` regular expressions; () means all.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    regex: bool = False

    def selection(self, settings: CommonOptions) -> Selection:
        """The same over the names that brokers know, in the namespace of the settings.

        Raises:
            ConfigError: not a regular expression, or a name that no broker takes.
        """
        from orderly.monitoring.collecting.selection import Selection  # noqa: PLC0415

        namespace = settings.namespace_name()
        if self.regex:
            groups = tuple(_regex(namespace, text) for text in self.groups)
            topics = tuple(_regex(namespace, text) for text in self.topics)
        else:
            groups = tuple(_glob(namespace, text, settings.group) for text in self.groups)
            topics = tuple(_glob(namespace, text, settings.topic) for text in self.topics)
        if namespace and not groups:
            groups = (_regex(namespace, ".*") if self.regex else wrap(namespace, "*"),)
        return Selection(groups, topics, regex=self.regex)

    def with_group(self, group: str | None) -> Names:
        """The same, and a group that was named as an argument."""
        return self if group is None else replace(self, groups=(*self.groups, group))


def _glob(namespace: str, text: str, name: Callable[[str], str]) -> str:
    return wrap(namespace, text) if _WILD.search(text) else name(text)


def _regex(namespace: str, text: str) -> str:
    return f"{re.escape(namespace)}%(?:{text})" if namespace else text


def complete_group(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of groups that begin so."""
    return _complete(ctx, begun, lambda client, ours: filter(ours.group, client.admin.groups()))


def complete_topic(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of topics that begin so."""
    return _complete(ctx, begun, lambda client, ours: filter(ours.topic, client.admin.topics()))


def _complete(
    ctx: click.Context, begun: str, ask: Callable[[Client, Selection], Iterable[str]]
) -> list[str]:
    """Ask the cluster, for a moment and in silence; a shell that waits is worse than none."""
    from orderly.monitoring.collecting.selection import EVERYTHING  # noqa: PLC0415  as above

    settings = settings_of(ctx)
    logging.getLogger("orderly").setLevel(logging.CRITICAL + 1)  # a shell shows it in its prompt

    def names() -> list[str]:
        with settings.client(_PATIENCE) as client:
            return settings.own(ask(client, EVERYTHING))

    bare = (unwrap(settings.namespace_name(), name) for name in _within(_PATIENCE, names))
    return sorted(name for name in bare if name.startswith(begun))


def _within(seconds: float, ask: Callable[[], list[str]]) -> list[str]:
    """What is known by then; nothing is said of what goes wrong."""
    found: SimpleQueue[list[str]] = SimpleQueue()

    def run() -> None:
        with contextlib.suppress(Exception):
            found.put(ask())

    thread = threading.Thread(target=run, name="orderly-complete", daemon=True)
    thread.start()
    thread.join(seconds)
    return [] if found.empty() else found.get()


group_argument = click.argument("group", shell_complete=complete_group)
topic_argument = click.argument("topic", shell_complete=complete_topic)
name_argument = click.argument("name", shell_complete=complete_topic)
"""Of a topic that is there, in commands about topics."""

_NAMES = (
    click.option(
        "-g",
        "--group",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_group,
        help="Only these groups; may be given again.",
    ),
    click.option(
        "-t",
        "--topic",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_topic,
        help="Only these topics; may be given again.",
    ),
    click.option(
        "-r",
        "--regex",
        is_flag=True,
        help="Take -g and -t as regular expressions of the whole name.",
    ),
)


def selection_options(command: F) -> F:
    """Add -g, -t and -r as the argument `names`."""
    return gathered(command, _NAMES, ("group", "topic", "regex"), Names, "names")
