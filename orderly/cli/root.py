"""The top of the command tree: lazy subcommands, one voice for errors, one table of exit codes.

    0, 1, 2   the command's verdict; 0 also means "done"
    3         not measured or not done: usage errors, no connection, interrupted, a bug

A subcommand's module is imported when it is called, so a cold `orderly backlog check` never
pays for the demo, the embedded broker or rich.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.logs import configure
from orderly.cli.settings import Settings, common_options
from orderly.cli.text import printable
from orderly.errors import OrderlyError

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("orderly.cli.demo", "Real flights through a real broker, and a verdict on the order."),
    "broker": ("orderly.cli.broker", "A local RocketMQ broker: start, stop, status, logs."),
    "backlog": ("orderly.cli.backlog", "How far behind a consumer group is; a checker for cron."),
    "offsets": ("orderly.cli.offsets", "A group's offsets: show them, set them."),
    "parked": ("orderly.cli.parked", "Keys set aside: list, look, release, replay, export."),
    "dlq": ("orderly.cli.dead_letters", "A group's dead letters: list them, send them again."),
    "topic": ("orderly.cli.topic", "Create topics, list them, show where their queues live."),
    "send": ("orderly.cli.send", "Send messages in order, by sharding key."),
    "tail": ("orderly.cli.tail", "Read a topic without joining a group."),
}


_NO_COMMAND = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click 8.1 raises none


class LazyGroup(click.Group):
    """A group whose commands are `COMMANDS`, each imported at its first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """The commands in the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Import the command: the attribute of its module that has its name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version  # noqa: PLC0415  costs more than a cold start may

    click.echo(f"orderly {version('rocketmq-orderly')}")
    ctx.exit(0)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? Run: orderly demo",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
@common_options
@click.pass_context
def root(ctx: click.Context) -> None:
    """Ordered messages on Apache RocketMQ.

    Exit codes: 0, 1, 2 are the command's verdict (0: fine); 3 means that nothing could be
    measured or done, usage errors included.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; every failure is told on stderr."""
    settings = Settings()
    configure(settings.verbose)
    try:
        code = root.main(list(args), prog_name="orderly", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_gone()
    except SystemExit:  # click ends shell completion so, and a write to a reader that has left
        return 0
    except _NO_COMMAND as error:
        click.echo(error.format_message(), err=True)
        return NOT_MEASURED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the last place to tell the user
        if settings.debug:
            traceback.print_exc()
        click.echo(f"error: {printable(_told(error, debug=settings.debug))}", err=True)
        return NOT_MEASURED
    return code if isinstance(code, int) else 0


def _told(error: BaseException, *, debug: bool) -> str:
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" (see: {context.command_path} --help)" if context else ""
        return error.format_message() + hint
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OrderlyError):
        return str(error)
    hint = "" if debug else "; --debug shows where"
    return f"unexpected {type(error).__name__}: {error} (this is a bug{hint})"


def _reader_gone() -> int:
    """`orderly tail … | head`: the reader has enough, which is no failure."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, sys.stdout.fileno())  # or the interpreter's last flush would fail loudly
    return 0
