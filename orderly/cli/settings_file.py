"""The settings file: TOML, with named contexts and defaults of commands' options.

    context = "prod"                # holds unless --context or ORDERLY_CONTEXT says otherwise

    [contexts.prod]                 # settings: those of ClientConfig, and color
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"
    namespace = "shop"

    [contexts.prod.backlog.check]   # what the command's options are if they are not given
    crit = "10000"

What stands outside of the contexts holds in each of them unless the context says otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click

from orderly.cli.commands import COMMANDS
from orderly.config import ClientConfig
from orderly.errors import ConfigError

SETTINGS = (*(field.name for field in fields(ClientConfig)), "color")
_WITHOUT_DEFAULTS = {"broker", "context", "completion"}
_CURRENT, _CONTEXTS = "context", "contexts"


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What the file says, checked; nothing if there is none.

    Attributes:
        path: where it is, or would be.
        content: its tables.
    """

    path: Path
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def current(self) -> str:
        """The context it chooses; "" for none."""
        return str(self.content.get(_CURRENT, ""))

    @property
    def contexts(self) -> Mapping[str, Mapping[str, Any]]:
        """The contexts, by name."""
        found: Mapping[str, Mapping[str, Any]] = self.content.get(_CONTEXTS, {})
        return found

    def context(self, name: str) -> Mapping[str, Any]:
        """What a context says by itself; of "" nothing.

        Raises:
            ConfigError: there is no such context.
        """
        if name and name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"there is no context {name!r} in {self.path}; it has: {known}")
        return self.contexts[name] if name else {}

    def common(self) -> Mapping[str, Any]:
        """What holds in every context."""
        return {key: value for key, value in self.content.items() if key not in _RESERVED}

    def options(self, context: str, command: tuple[str, ...]) -> dict[str, Any]:
        """Defaults of a command's options, by their names on the command line.

        Args:
            context: the name of one, or "".
            command: its words, as in ("backlog", "check").
        """
        found: dict[str, Any] = {}
        for table in (self.common(), self.context(context)):
            for word in command:
                table = table.get(word, {})  # noqa: PLW2901  one step down the tables
                if not isinstance(table, dict):
                    return found  # it is an option of the group; checked where it is taken
            found |= {key: value for key, value in table.items() if not isinstance(value, dict)}
        return found


_RESERVED = {_CURRENT, _CONTEXTS}


def settings_path(env: Mapping[str, str]) -> Path:
    """Where the file is: ORDERLY_CONFIG, else the place the platform has for it."""
    named = env.get("ORDERLY_CONFIG")
    return Path(named) if named else Path(click.get_app_dir("orderly")) / "config.toml"


def read_settings(env: Mapping[str, str] = os.environ) -> SettingsFile:
    """Read the file; one that nobody named need not exist.

    Raises:
        ConfigError: it cannot be read, is not TOML, or says what no setting is.
    """
    path = settings_path(env)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        if env.get("ORDERLY_CONFIG"):
            raise ConfigError(f"ORDERLY_CONFIG={path} does not exist") from error
        return SettingsFile(path)
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the settings in {path} cannot be read: {error}") from error
    return SettingsFile(path, parse_settings(text, path))


def parse_settings(text: str, path: Path) -> dict[str, Any]:
    """Read and check what a file says; `path` is for the error.

    Raises:
        ConfigError: not TOML, or a key that is no setting.
    """
    import tomllib  # noqa: PLC0415  costs time, and most have no file

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    contexts = content.get(_CONTEXTS, {})
    _require(isinstance(contexts, dict), f"{_CONTEXTS} must be tables [contexts.NAME]", path)
    _require(isinstance(content.get(_CURRENT, ""), str), f"{_CURRENT} must be a name", path)
    _check({key: value for key, value in content.items() if key not in _RESERVED}, "", path)
    for name, table in contexts.items():
        _require(isinstance(table, dict), f"contexts.{name} must be a table", path)
        _check(table, f"contexts.{name}.", path)
    return content


def _check(table: Mapping[str, Any], where: str, path: Path) -> None:
    """Every key is a setting, or a command with a table. Values are never shown: see `secret`."""
    for key, value in table.items():
        is_command = key in COMMANDS and key not in _WITHOUT_DEFAULTS
        _require(
            key in SETTINGS or is_command,
            f"{where}{key} is no setting; there are {', '.join(SETTINGS)}, and tables for the"
            " options of commands, as in [backlog.check]",
            path,
        )
        _require(
            isinstance(value, dict) == is_command,
            f"{where}{key} must be {'a table' if is_command else 'a value, not a table'}",
            path,
        )


def _require(condition: bool, text: str, path: Path) -> None:
    if not condition:
        raise ConfigError(f"{path}: {text}")


def secret(name: str) -> bool:
    """Whether a setting's value is never to be shown."""
    return any(word in name for word in ("secret", "password", "token", "access_key"))
