"""A command whose help has its own options, its exit codes (from the one table), and examples."""

from __future__ import annotations

import inspect

import click

from orderly.cli.exit_codes import codes_of
from orderly.cli.settings import COMMON


class Command(click.Command):
    """A command of `orderly`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write its own options; of those that every command has only where they are told."""
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

    command_class = Command
