"""The top of the command tree, and one voice for errors.

Which commands there are is `commands`; a new one needs its line there, and its exit codes.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from orderly.cli.command import LazyGroup, write_commands
from orderly.cli.commands import COMMANDS, GENERAL, NOT_MEASURED, TASKS
from orderly.cli.settings import CommonOptions, common_options
from orderly.cli.terminal import configure_logs, discard_stdout, failure_text, printable
from orderly.errors import EmbeddedBrokerError

_NO_COMMAND = getattr(click.exceptions, "NoArgsIsHelpError", ())  # click 8.1 raises none


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from importlib.metadata import version  # noqa: PLC0415  costs more than a cold start may

    click.echo(f"orderly {version('rocketmq-orderly')}")
    ctx.exit(0)


class _Root(LazyGroup):
    """Shows the commands first, by task, and what the exit codes mean everywhere."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        for task, table in TASKS.items():
            write_commands(task, table, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in GENERAL.items()])
        super().format_epilog(ctx, formatter)


@click.group(
    cls=_Root,
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

    The help of each command ends with its exit codes and examples.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


# --- a group whose commands load much: its help loads none of it ----------------------------------


SPARK: dict[str, tuple[str, str]] = {
    "audit": ("orderly.cli.spark", "Check every key's order: inversions, gaps, repeats."),
    "replay": ("orderly.cli.spark", "Send a table to a topic, in each key's order."),
    "bundle": (
        "orderly.cli.spark",
        "Files for spark-submit where orderly is not installed.",
    ),
}


@click.group(cls=LazyGroup, table=SPARK)
def spark() -> None:
    """Jobs over whole topics, run with Spark.

    They do not disturb consumers: they join no group and commit nothing. Spark runs inside this
    command, on all cores, unless --master names a cluster. The cluster's machines need no orderly.
    For spark-submit, see `orderly spark bundle`.
    """


# --- a command line -------------------------------------------------------------------------------


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; every failure is printed on stderr."""
    settings = CommonOptions()
    configure_logs(settings.verbose)
    try:
        code = root.main(list(args), prog_name="orderly", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
        return 0
    except SystemExit:  # click ends shell completion so, and a write to a reader that has left
        return 0
    except _NO_COMMAND as error:
        click.echo(error.format_message(), err=True)
        return NOT_MEASURED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  the last place to report it
        if settings.debug:
            for line in traceback.format_exc().splitlines():
                click.echo(printable(line), err=True)
        text = failure_text(error, debug=settings.debug)
        # The logs of servers of our own have lines; any other text could forge some.
        lines = text.splitlines() if isinstance(error, EmbeddedBrokerError) else [text]
        click.echo("error: " + "\n".join(map(printable, lines)), err=True)
        if isinstance(error, OSError):
            _give_up_what_cannot_be_written()
        return NOT_MEASURED
    return code if isinstance(code, int) else 0


def _give_up_what_cannot_be_written() -> None:
    try:
        sys.stdout.flush()
    except OSError:
        discard_stdout()
