"""Where the command line's settings file is, and which of its tables are options of commands.

What a file may say is `orderly.config.settings_file`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from orderly.cli.commands import COMMANDS
from orderly.config import settings_file
from orderly.config.settings_file import SettingsFile

_WITHOUT_DEFAULTS = {"broker", "context", "completion"}
_TABLES = COMMANDS.keys() - _WITHOUT_DEFAULTS


def settings_path(env: Mapping[str, str]) -> Path:
    """Where the file is: ORDERLY_CONFIG, else the place the platform has for it."""
    named = env.get("ORDERLY_CONFIG")
    return Path(named) if named else Path(click.get_app_dir("orderly")) / "config.toml"


def read_settings(env: Mapping[str, str] = os.environ) -> SettingsFile:
    """Read the file; one that nobody named need not exist.

    Raises:
        ConfigError: it cannot be read, is not TOML, or says what no setting is.
    """
    named = bool(env.get("ORDERLY_CONFIG"))
    return settings_file.read_settings(settings_path(env), _TABLES, missing_ok=not named)


def parse_settings(text: str, path: Path) -> dict[str, Any]:
    """Check what is about to be written; see `orderly.config.settings_file.parse_settings`."""
    return settings_file.parse_settings(text, path, _TABLES)
