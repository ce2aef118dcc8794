"""What holds for every command: name servers, namespace, context, colours, -v, --debug.

Where a setting comes from is `orderly.config.layers`; where nobody names a name server, that of
`orderly broker start` is taken. What a settings file may say is `orderly.config.settings_file`.
Options of commands come from the same places: --crit of `backlog check` is
ORDERLY_BACKLOG_CHECK_CRIT in the environment. Secrets have no option: command lines are seen by
every user of the machine.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.commands import CODES
from orderly.cli.options import offered, with_options
from orderly.cli.terminal import COLOR_CHOICES, colors_wanted, configure_logs, say
from orderly.config import ClientConfig, check_group, check_topic, settings_file
from orderly.config.arguments import meant
from orderly.config.fields import variables_of_fields
from orderly.config.layers import config_fields, current_context, find_settings
from orderly.config.settings_file import SettingsFile
from orderly.config.variables import PREFIX, warn_of_unknown
from orderly.errors import ConfigError
from orderly.namespace import unwrap, wrap

if TYPE_CHECKING:
    from orderly.client import Client


_WITHOUT_DEFAULTS = {"broker", "context", "completion"}
_TABLES = [words for words in CODES if words.partition(" ")[0] not in _WITHOUT_DEFAULTS]


def settings_path(env: Mapping[str, str]) -> Path:
    """Where the file is: ORDERLY_CONFIG, else the place the platform has for it."""
    named = env.get("ORDERLY_CONFIG")
    return Path(named) if named else Path(click.get_app_dir("orderly")) / "config.toml"


def read_settings(env: Mapping[str, str] = os.environ) -> SettingsFile:
    """Read the file; one that nobody named need not exist.

    Raises:
        ConfigError: it cannot be read, is not TOML, or says what no setting is.
    """
    named = bool(env.get("ORDERLY_CONFIG"))
    return settings_file.read_settings(settings_path(env), _TABLES, missing_ok=not named)


def parse_settings(text: str, path: Path) -> dict[str, Any]:
    """Check what is about to be written; see `orderly.config.settings_file.parse_settings`."""
    return settings_file.parse_settings(text, path, _TABLES)


# --- the settings of a command line ---------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])
Name = TypeVar("Name", str, str | None)


@dataclass(slots=True)
class CommonOptions:
    """The common options, wherever on the command line they were given; the last one wins.

    Attributes: see the options; None and "" are "not given".
    """

    namesrv: str = ""
    namespace: str | None = None
    context: str = ""
    color: str = ""
    verbose: int = 0
    debug: bool = False
    _file: SettingsFile | None = None

    def client_config(self) -> ClientConfig:
        """The settings of a client.

        Raises:
            ConfigError: no name server is named, a bad setting, or a bad settings file.
        """
        found = self.found()
        texts, values = config_fields(found)
        if "namesrv" not in found:
            values["namesrv"] = self._local()
        return ClientConfig.from_env(texts, **values)

    def found(self) -> dict[str, tuple[Any, str]]:
        """Each setting that somebody made: its value, and where it comes from."""
        return find_settings(self.file(), self._given(), self.context, os.environ)

    def _given(self) -> dict[str, Any]:
        given = {"namesrv": self.namesrv, "color": self.color}
        options = {name: value for name, value in given.items() if value}
        return options if self.namespace is None else options | {"namespace": self.namespace}

    def file(self) -> SettingsFile:
        """The settings file, read once."""
        if self._file is None:
            self._file = read_settings()
        return self._file

    def context_name(self) -> str:
        """The context that holds, or ""."""
        return current_context(self.file(), self.context, os.environ)

    def _local(self) -> str:
        """The name server of the local broker that runs."""
        from orderly.testing.daemon_state import find  # noqa: PLC0415  rarely needed

        daemon = find()
        if daemon is None:
            raise ConfigError(
                "no name server is named: give --namesrv HOST:PORT or set ORDERLY_NAMESRV"
                " (or run `orderly broker start`: commands find the local broker)"
            )
        if self.verbose:
            say(f"using the local broker's name server {daemon.namesrv}")
        return daemon.namesrv

    def namesrv_if_any(self) -> str:
        """The name servers that somebody named, else ""."""
        return str(self.found().get("namesrv", ("",))[0])

    def use_color(self) -> bool:
        """Whether stdout is to be coloured.

        Raises:
            ConfigError: an unknown `color` in the environment or the file.
        """
        choice = self.found().get("color", ("auto",))[0]
        if choice not in COLOR_CHOICES:
            raise ConfigError(f"color must be one of {', '.join(COLOR_CHOICES)}, not {choice!r}")
        return colors_wanted(choice, os.environ, terminal=sys.stdout.isatty())

    def topic(self, name: Name) -> Name:
        """The broker's name of a topic that the user names; None stays None.

        Raises:
            ConfigError: no broker takes it for one.
        """
        return None if name is None else check_topic(wrap(self.namespace_name(), name))

    def group(self, name: Name) -> Name:
        """The broker's name of a group; as `topic`."""
        return None if name is None else check_group(wrap(self.namespace_name(), name))

    def own(self, names: Iterable[str]) -> list[str]:
        """Those of the broker's names that are in the namespace; without one, all."""
        namespace = self.namespace_name()
        return [name for name in names if not namespace or unwrap(namespace, name) != name]

    def namespace_name(self) -> str:
        """The namespace that holds, or ""."""
        return str(self.found().get("namespace", ("",))[0])

    def client(self, patience: float = math.inf) -> AbstractContextManager[Client]:
        """A client to ask with, in a `with` statement; it joins nothing and sends no heartbeat.

        Args:
            patience: seconds that a connection or a reply may take at most.
        """
        from orderly.client import Client  # noqa: PLC0415  `--help` needs no sockets

        config = self.client_config()
        limits = {name: min(getattr(config, name), patience) for name in _TIMEOUTS}
        return closing(Client(replace(config, **limits)))


_TIMEOUTS = ("connect_timeout", "request_timeout")


def settings_of(ctx: click.Context) -> CommonOptions:
    """The settings of the command line that `ctx` belongs to."""
    return ctx.ensure_object(CommonOptions)


def _choose_context(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Take the command's defaults from the settings file, before its options are read."""
    settings = settings_of(ctx)
    if value:
        _remember(ctx, param, value)
    if ctx.resilient_parsing or ctx.parent is None:  # to complete a word needs none; nor the root
        return
    words = tuple(ctx.command_path.split()[1:])
    _warn_of_variables(ctx)
    file = settings.file()
    table = file.options(settings.context_name(), words)
    ctx.default_map = {
        _parameter(ctx, name, f"{file.path}: {'.'.join(words)}"): value
        for name, value in table.items()
    }


def _warn_of_variables(ctx: click.Context) -> None:
    """Of the environment those that neither this command nor any other reads."""
    if isinstance(ctx.command, click.Group):
        return
    own = {
        f"{ctx.auto_envvar_prefix}_{param.name}".upper()
        for param in ctx.command.params
        if isinstance(param, click.Option) and param.allow_from_autoenv
    }
    others = (f"{PREFIX}{words.replace(' ', '_')}_".upper() for words in CODES)
    but = [begin for begin in others if not begin.startswith(f"{ctx.auto_envvar_prefix}_")]
    warn_of_unknown(os.environ, variables_of_fields() | own, only_near=False, but=but)


def _parameter(ctx: click.Context, name: str, where: str) -> str:
    """The parameter of the option --name."""
    option = f"--{name.replace('_', '-')}"
    for param in ctx.command.params:
        if option in param.opts and param.name:
            return param.name
    known = [text for param in ctx.command.params for text in param.opts]
    raise ConfigError(f"{where} has no option {option}{meant(option, known)}")


def complete_context(ctx: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Names of contexts that begin so; quietly none if the settings file cannot be read."""
    try:
        names = settings_of(ctx).file().contexts
    except ConfigError:
        return []
    return offered(names, begun)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value in (None, False):  # not given here; 0 times -v is False, too
        return
    settings = settings_of(ctx)
    assert param.name is not None
    setattr(settings, param.name, value)
    if param.name == "verbose":
        configure_logs(value)


COMMON = {
    "context": "--context",
    "namesrv": "--namesrv",
    "namespace": "--namespace",
    "color": "--color",
    "verbose": "-v",
    "debug": "--debug",
}
"""What every command takes: parameter and option."""

_COMMON = (
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=complete_context,
        help="Use the named settings; see `orderly context`. Default: ORDERLY_CONTEXT, else"
        " the settings file's.",
        is_eager=True,
        allow_from_autoenv=False,
        expose_value=False,
        callback=_choose_context,
    ),
    click.option(
        "--namesrv",
        metavar="HOST:PORT[;…]",
        help="Name servers. Default: ORDERLY_NAMESRV, else the settings file's, else"
        " NAMESRV_ADDR, else the local broker's.",
        allow_from_autoenv=False,
        expose_value=False,
        callback=_remember,
    ),
    click.option(
        "--namespace",
        metavar="NAME",
        help="Prefix of topic and group names: `orders` is NAME%orders at the broker, and in"
        " output. Default: ORDERLY_NAMESPACE, else the settings file's, else none.",
        allow_from_autoenv=False,
        expose_value=False,
        callback=_remember,
    ),
    click.option(
        "--color",
        type=click.Choice(COLOR_CHOICES),
        help="Whether to colour the output. Default: auto, which is never if NO_COLOR is set.",
        allow_from_autoenv=False,
        expose_value=False,
        callback=_remember,
    ),
    click.option(
        "-v",
        "verbose",
        count=True,
        help="Log to stderr what happens; -vv in more detail.",
        expose_value=False,
        callback=_remember,
    ),
    click.option(
        "--debug",
        is_flag=True,
        help="Show the traceback of an error.",
        expose_value=False,
        callback=_remember,
    ),
)


def common_options(command: F) -> F:
    """Add what every command takes; the values are found in `CommonOptions`."""
    return with_options(command, _COMMON)
