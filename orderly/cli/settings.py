"""What holds for every command: name servers, namespace, -v, --debug; and the client of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.logs import configure
from orderly.config import ClientConfig, check_group, check_topic
from orderly.errors import ConfigError
from orderly.namespace import unwrap, wrap

if TYPE_CHECKING:
    from orderly.client import Client

F = TypeVar("F", bound=Callable[..., Any])
Name = TypeVar("Name", str, str | None)


@dataclass(slots=True)
class Settings:
    """The common options, wherever on the command line they were given; the last one wins."""

    namesrv: str = ""
    namespace: str | None = None
    verbose: int = 0
    debug: bool = False

    def client_config(self) -> ClientConfig:
        """`--namesrv`, else the environment, else the broker of `orderly broker start`.

        Raises:
            ConfigError: none of them is there, or it is not an address.
        """
        return ClientConfig.from_env(
            namesrv=self.namesrv_if_any() or self._local(), namespace=self._namespace()
        )

    def _local(self) -> str:
        """The name server of the local broker that runs."""
        from orderly.testing.daemon_state import find  # noqa: PLC0415  rarely needed

        daemon = find()
        if daemon is None:
            raise ConfigError(
                "no name server is named: give --namesrv HOST:PORT or set ORDERLY_NAMESRV"
                " (`orderly broker start` runs a local broker, which is found by itself)"
            )
        if self.verbose:
            click.echo(f"using the local broker's name server {daemon.namesrv}", err=True)
        return daemon.namesrv

    def namesrv_if_any(self) -> str:
        """`--namesrv`, else the environment's, else ""."""
        return self.namesrv or os.environ.get("ORDERLY_NAMESRV", "")

    def topic(self, name: Name) -> Name:
        """The broker's name of a topic that the user names; None stays None.

        Raises:
            ConfigError: no broker takes it for one.
        """
        return None if name is None else check_topic(wrap(self._namespace(), name))

    def group(self, name: Name) -> Name:
        """The broker's name of a group; as `topic`."""
        return None if name is None else check_group(wrap(self._namespace(), name))

    def own(self, names: Iterable[str]) -> list[str]:
        """Those of the broker's names that are in the namespace; without one, all."""
        namespace = self._namespace()
        return [name for name in names if not namespace or unwrap(namespace, name) != name]

    def _namespace(self) -> str:
        if self.namespace is None:
            return os.environ.get("ORDERLY_NAMESPACE", "")
        return self.namespace

    def client(self) -> AbstractContextManager[Client]:
        """A client to ask with, in a `with` statement; it joins nothing and sends no heartbeat."""
        from orderly.client import Client  # noqa: PLC0415  `--help` needs no sockets

        return closing(Client(self.client_config()))


def settings_of(ctx: click.Context) -> Settings:
    """The settings of the command line that `ctx` belongs to."""
    return ctx.ensure_object(Settings)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value in (None, False):  # not given here; 0 times -v is False, too
        return
    settings = settings_of(ctx)
    assert param.name is not None
    setattr(settings, param.name, value)
    if param.name == "verbose":
        configure(value)


def common_options(command: F) -> F:
    """Add --namesrv, --namespace, -v and --debug; their values are found in `Settings`."""
    for option in (
        click.option(
            "--namesrv",
            metavar="HOST:PORT[;…]",
            help="Name servers; default: ORDERLY_NAMESRV, else the local broker's.",
            expose_value=False,
            callback=_remember,
        ),
        click.option(
            "--namespace",
            metavar="NAME",
            help="Prefix of names: the topic `orders` is NAME%orders at the broker, and where it is"
            " shown. Default: ORDERLY_NAMESPACE, else none.",
            expose_value=False,
            callback=_remember,
        ),
        click.option(
            "-v",
            "verbose",
            count=True,
            help="Show what happens on stderr; -vv in detail.",
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
    ):
        command = option(command)
    return command


def output_option(command: F) -> F:
    """Add --output table|json as the argument `output`."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="How to print the result.",
    )(command)
