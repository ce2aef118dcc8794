"""A command whose help ends with its exit codes, from the one table of them."""

from __future__ import annotations

import inspect

import click

from orderly.cli.exit_codes import codes_of


class Command(click.Command):
    """A command of `orderly`."""

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

    command_class = Command
