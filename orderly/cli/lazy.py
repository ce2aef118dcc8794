"""Groups of commands whose modules are imported when a command is called.

So a cold `orderly backlog check` never pays for the demo, the embedded broker or rich, and
neither `--help` nor the completion of a command's name imports anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

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
