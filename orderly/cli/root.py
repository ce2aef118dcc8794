"""The top of the command tree: one voice for errors, one table of exit codes.

    0, 1, 2   the command's verdict; 0 also means "done"
    3         not measured or not done: usage errors, no connection, interrupted, a bug

Which commands there are is `commands`; a new one needs nothing but its line there.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from orderly.cli import NOT_MEASURED
from orderly.cli.commands import COMMANDS
from orderly.cli.lazy import LazyGroup
from orderly.cli.logs import configure
from orderly.cli.settings import Settings, common_options
from orderly.cli.stdout import discard
from orderly.cli.text import printable
from orderly.errors import OrderlyError

_NO_COMMAND = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click 8.1 raises none


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version  # noqa: PLC0415  costs more than a cold start may

    click.echo(f"orderly {version('rocketmq-orderly')}")
    ctx.exit(0)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "auto_envvar_prefix": "ORDERLY",  # ORDERLY_BACKLOG_CHECK_CRIT is --crit of that command
    },
    epilog="New here? Run: orderly demo",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    allow_from_autoenv=False,
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
        discard()
        return 0
    except SystemExit:  # click ends shell completion so, and a write to a reader that has left
        return 0
    except _NO_COMMAND as error:
        click.echo(error.format_message(), err=True)
        return NOT_MEASURED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the last place to tell the user
        if settings.debug:
            for line in traceback.format_exc().splitlines():
                click.echo(printable(line), err=True)
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
