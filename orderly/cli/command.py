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
    """A group of commands that knows what may have been meant by a name that it does not have."""

    command_class = OrderlyCommand

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names.

        Raises:
            UsageError: no such command; the text names similar ones, or all of the group.
        """
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            raise click.UsageError(f"no such command {name!r}{self._meant(ctx, name)}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches  # noqa: PLC0415  only after a mistake

        names = self.list_commands(ctx)
        if alike := get_close_matches(name, names):
            return f": did you mean {' or '.join(alike)}?"
        return "" if ctx.parent is None else f": {ctx.command_path} has {', '.join(names)}"


class LazyGroup(Group):
    """A group of commands that are looked up in a table.

    Args:
        table: by name, where the command is (a module, if its attribute has another name
            "module:attribute"), and a line about it.
        settings: of click.Group.
    """

    def __init__(self, *, table: Mapping[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(**settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """The commands in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  click's signature
        """Import the command."""
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        command = getattr(import_module(module), attribute or cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002  click's signature
        """Write the list of commands without importing any."""
        write_commands("Commands", self.table, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a command's name without importing any; options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415  only to complete

        commands = [
            CompletionItem(name, help=about)
            for name, (_, about) in self.table.items()
            if name.startswith(incomplete)
        ]
        return commands + click.Command.shell_complete(self, ctx, incomplete)


def write_commands(
    heading: str, table: Mapping[str, tuple[str, str]], formatter: click.HelpFormatter
) -> None:
    """Write a section of a help: commands, and a line about each."""
    with formatter.section(heading):
        formatter.write_dl([(name, about) for name, (_, about) in table.items()])
