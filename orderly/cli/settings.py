"""What holds for every command: name servers, verbosity, --debug; and how they become a client."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from orderly.cli.logs import configure
from orderly.config import ClientConfig

if TYPE_CHECKING:
    from orderly.client import Client

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(slots=True)
class Settings:
    """The common options, wherever on the command line they were given; the last one wins."""

    namesrv: str = ""
    verbose: int = 0
    debug: bool = False

    def client_config(self) -> ClientConfig:
        """`--namesrv`, else the environment.

        Raises:
            ConfigError: neither is set, or not an address.
        """
        if self.namesrv:
            return ClientConfig.from_env(namesrv=self.namesrv)
        return ClientConfig.from_env()

    def namesrv_if_any(self) -> str:
        """`--namesrv`, else the environment's, else ""."""
        return self.namesrv or os.environ.get("ORDERLY_NAMESRV", "")

    def client(self) -> AbstractContextManager[Client]:
        """A client to ask with, in a `with` statement; it joins nothing and sends no heartbeat."""
        from orderly.client import Client  # noqa: PLC0415  `--help` needs no sockets

        return closing(Client(self.client_config()))


def settings_of(ctx: click.Context) -> Settings:
    """The settings of the command line that `ctx` belongs to."""
    return ctx.ensure_object(Settings)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if not value:
        return
    settings = settings_of(ctx)
    assert param.name is not None
    setattr(settings, param.name, value)
    if param.name == "verbose":
        configure(value)


def common_options(command: F) -> F:
    """Add --namesrv, -v and --debug; their values are found in `Settings`."""
    for option in (
        click.option(
            "--namesrv",
            metavar="HOST:PORT[;…]",
            help="Name servers; default: ORDERLY_NAMESRV.",
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
