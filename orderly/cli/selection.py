"""Which groups and topics a command is about, -g, -t and -r; and completion of their names."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.options import gathered, offered
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

    def selection(self, settings: CommonOptions, *, system: bool = False) -> Selection:
        """The same over the names that brokers know, in the namespace of the settings.

        Args:
            settings: of the command line.
            system: RocketMQ's own, too.

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
        return Selection(groups, topics, regex=self.regex, system=system)


def _glob(namespace: str, text: str, name: Callable[[str], str]) -> str:
    return wrap(namespace, text) if _WILD.search(text) else name(text)


def _regex(namespace: str, text: str) -> str:
    return f"{re.escape(namespace)}%(?:{text})" if namespace else text


def complete_group(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of groups that begin so, without RocketMQ's own."""

    def ask(client: Client) -> Iterator[str]:
        from orderly.monitoring.collecting.selection import is_system_group  # noqa: PLC0415

        return (group for group in client.admin.groups() if not is_system_group(group))

    return _complete(ctx, begun, ask)


def complete_topic(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of topics that begin so; before the first letter no internal ones."""

    def ask(client: Client) -> Iterator[str]:
        from orderly.monitoring.collecting.selection import is_internal  # noqa: PLC0415

        return (topic for topic in client.admin.topics() if begun or not is_internal(topic))

    return _complete(ctx, begun, ask)


def _complete(ctx: click.Context, begun: str, ask: Callable[[Client], Iterable[str]]) -> list[str]:
    """Ask the cluster, for a moment and in silence; a shell that waits is worse than none."""
    settings = settings_of(ctx)
    logging.getLogger("orderly").setLevel(logging.CRITICAL + 1)  # a shell shows it in its prompt

    def names() -> list[str]:
        with settings.client(_PATIENCE) as client:
            return settings.own(ask(client))

    bare = (unwrap(settings.namespace_name(), name) for name in _within(_PATIENCE, names))
    return offered(bare, begun)


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


def _read_queues(
    ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    found = []
    for text in texts:
        broker, _, number = text.rpartition("/")
        if not broker or not (number.isascii() and number.isdecimal()):
            raise click.BadParameter("it takes BROKER/ID, as broker-a/0", ctx, param)
        found.append((broker, int(number)))
    return tuple(found)


queues_option = click.option(
    "--queue",
    "queues",
    multiple=True,
    metavar="BROKER/ID",
    callback=_read_queues,
    help="Only this queue, as broker-a/0; may be given again.",
)
"""Of a topic; as the argument `queues`: of each its broker and its id."""


def _only(what: str, complete: Callable[..., list[str]]) -> Callable[[F], F]:
    return click.option(
        f"-{what[0]}",
        f"--{what}",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete,
        help=f"Only these {what}s; may be given again.",
    )


_ONLY_GROUPS, _ONLY_TOPICS = _only("group", complete_group), _only("topic", complete_topic)


def _regex_option(what: str) -> Callable[[F], F]:
    return click.option(
        "-r",
        "--regex",
        is_flag=True,
        help=f"Take {what} as regular expressions of the whole name.",
    )


def groups_options(*, required: bool = False) -> Callable[[F], F]:
    """Add GROUP..., -t and -r as the argument `names`: for commands about groups."""
    groups = click.argument("group", nargs=-1, required=required, shell_complete=complete_group)
    options = (groups, _ONLY_TOPICS, _regex_option("GROUP and -t"))
    return lambda command: gathered(command, options, _OF_NAMES, Names, "names")


def topics_options(command: F) -> F:
    """Add TOPIC... and -r as the argument `names`: for commands about topics."""
    topics = click.argument("topic", nargs=-1, shell_complete=complete_topic)
    options, names = (topics, _regex_option("TOPIC")), ("topic", "regex")
    return gathered(command, options, names, partial(Names, ()), "names")


def filter_options(command: F) -> F:
    """Add -g, -t and -r as the argument `names`: for commands that are about the whole cluster."""
    options = (_ONLY_GROUPS, _ONLY_TOPICS, _regex_option("-g and -t"))
    return gathered(command, options, _OF_NAMES, Names, "names")


_OF_NAMES = ("group", "topic", "regex")
