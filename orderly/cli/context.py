"""`orderly context list|use|show`: named settings of the settings file."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from orderly.cli.command import Group
from orderly.cli.output import CommandOutput, Format, format_options, show
from orderly.cli.settings import (
    CommonOptions,
    common_options,
    complete_context,
    parse_settings,
    settings_of,
)
from orderly.cli.terminal import say, tell
from orderly.config import ClientConfig
from orderly.config.fields import NOT_SHOWN
from orderly.config.settings_file import SETTINGS, SettingsFile, secret
from orderly.durable_file import replacing
from orderly.errors import ConfigError
from orderly.monitoring.texts import Column, ColumnKind

_DEFAULTS: dict[str, Any] = {"color": "auto"} | {f.name: f.default for f in fields(ClientConfig)}
_CURRENT_LINE = re.compile(r"^context\s*=.*$", re.MULTILINE)
_FIRST_TABLE = re.compile(r"^\s*\[", re.MULTILINE)

EXAMPLE = """\b
The file, as an example:
  context = "staging"
  [contexts.staging]
  namesrv = "10.1.0.1:9876"
  [contexts.prod]
  namesrv = "10.0.0.1:9876;10.0.0.2:9876"
  [contexts.prod.backlog.check]
  crit = "10000"
"""


LIST = """\b
Examples:
  orderly context list
"""
USE = """\b
Examples:
  orderly context use prod
"""
SHOW = """\b
Examples:
  orderly context show
  orderly context show --context prod -o json
"""


@click.group(cls=Group, epilog=EXAMPLE)
def context() -> None:
    """Named settings in a TOML file: one set for production, one for staging.

    ORDERLY_CONFIG names the file. Without it, the file is orderly/config.toml in the platform's
    folder for settings (~/.config on Linux). `orderly context show -o json` prints its path.
    """


@context.command("list", epilog=LIST)
@format_options()
@common_options
@click.pass_context
def list_contexts(ctx: click.Context, *, form: Format) -> None:
    """List the contexts. * marks the current one."""
    settings = settings_of(ctx)
    file, current = settings.file(), settings.context_name()
    columns = (Column("context"), Column("current"), Column("namesrv"), Column("namespace"))
    rows = [
        (name, "*" if name == current else "", table.get("namesrv"), table.get("namespace"))
        for name, table in sorted(file.contexts.items())
    ]
    if not rows:
        say(f"there are no contexts; write them into {file.path}")
    names = [column.name for column in columns]
    show(
        CommandOutput(columns, rows, lambda: [dict(zip(names, row, strict=True)) for row in rows]),
        form,
        settings,
    )


@context.command("use", epilog=USE)
@click.argument("name", metavar="CONTEXT", shell_complete=complete_context)
@common_options
@click.pass_context
def use(ctx: click.Context, *, name: str) -> None:
    """Make CONTEXT the current one: commands use it unless you name another."""
    file = settings_of(ctx).file()
    if not name:
        raise click.UsageError("CONTEXT is empty", ctx)
    file.context(name)  # or it does not exist
    _write(file.path, with_current(file, name))
    tell(f"the context is {name} now, in {file.path}")


def with_current(file: SettingsFile, name: str) -> str:
    """The file's text with another current context; everything else stays as it is."""
    text = file.path.read_text(encoding="utf-8")
    line = f"context = {json.dumps(name)}"
    first = _FIRST_TABLE.search(text)
    head, rest = (text[: first.start()], text[first.start() :]) if first else (text, "")
    head, found = _CURRENT_LINE.subn(lambda _: line, head, count=1)
    changed = (head if found else f"{line}\n{head}") + rest
    if SettingsFile(file.path, parse_settings(changed, file.path)).current != name:
        raise ConfigError(
            f"{file.path} cannot be changed by this command: write {line} into it yourself"
        )
    return changed


def _write(path: Path, text: str) -> None:
    """Replace the file completely or leave it; a link stays a link, and rights stay."""
    real = path.resolve()
    if not real.is_file():  # a device, say, is not to be replaced by a file
        raise ConfigError(f"the settings in {path} cannot be written: it is not a regular file")
    try:
        with replacing(real) as new:
            os.fchmod(new.fileno(), stat.S_IMODE(real.stat().st_mode))
            new.write(text.encode())
    except OSError as error:
        raise ConfigError(f"the settings in {path} cannot be written: {error}") from error


@context.command("show", epilog=SHOW)
@format_options()
@common_options
@click.pass_context
def show_settings(ctx: click.Context, *, form: Format) -> None:
    """Show the settings in force, and where each comes from. Secrets are not shown."""
    settings = settings_of(ctx)
    rows = [(name, *_effective(settings, name)) for name in SETTINGS]
    columns = (Column("setting"), Column("value", ColumnKind.TEXT), Column("from"))
    show(CommandOutput(columns, rows, lambda: _document(settings, rows)), form, settings)


def _effective(settings: CommonOptions, name: str) -> tuple[str, str]:
    value, origin = settings.found().get(name, (_DEFAULTS[name], "default"))
    return (NOT_SHOWN if value and secret(name) else str(value)), origin


def _document(settings: CommonOptions, rows: list[tuple[str, str, str]]) -> Mapping[str, Any]:
    return {
        "context": settings.context_name() or None,
        "file": os.fspath(settings.file().path),
        "settings": {name: {"value": value, "from": origin} for name, value, origin in rows},
    }
