"""A command whose help has its own options, its exit codes and examples; and groups of commands.

The modules of a LazyGroup's commands are imported when a command is called. So a cold `orderly
backlog check` never pays for the demo, the embedded broker or rich, and neither `--help` nor the
completion of a command's name imports anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from orderly.cli.commands import codes_of
from orderly.cli.settings import COMMON

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """A group of commands that are looked up in a table.

    Args:
        table: by name, the module that has the command as an attribute of that name, and a line
            about it.
        settings: of click.Group.
    """

    def __init__(self, *, table: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(**settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """The commands in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Import the command: the attribute of its module that has its name."""
        if cmd_name not in self.table:
            return None
        command = getattr(import_module(self.table[cmd_name][0]), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without importing any; options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only to complete

        commands = [
            CompletionItem(name, help=about)
            for name, (_, about) in self.table.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


class OrderlyCommand(click.Command):
    """A command of `orderly`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options, and where to read of those that every command has."""
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        own = [option for option in options if option.name not in COMMON]
        records = [record for option in own if (record := option.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(records)
        if len(own) < len(options):
            with formatter.section("Options of every command"):
                formatter.write_text(", ".join(COMMON.values()) + ": see `orderly --help`.")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what the exit codes mean, then examples."""
        codes = codes_of(" ".join(ctx.command_path.split()[1:]))
        if codes:
            with formatter.section("Exit codes"):
                formatter.write_dl([(str(code), meaning) for code, meaning in codes.items()])
        if self.epilog:  # not indented: it has its own heading, as the sections above
            formatter.write_paragraph()
            formatter.write_text(inspect.cleandoc(self.epilog))


class Group(click.Group):
    """A group of them."""

    command_class = OrderlyCommand
