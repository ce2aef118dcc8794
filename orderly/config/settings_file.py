"""The settings file, read and checked: TOML, with named contexts.

    context = "prod"                # applies unless you name another one

    [contexts.prod]                 # settings: the fields of ClientConfig, and color
    namesrv = "10.0.0.1:9876;10.0.0.2:9876"
    namespace = "shop"

    [contexts.prod.backlog.check]   # defaults for options of a command
    crit = "10000"

Settings outside of the contexts apply to each context, unless the context overrides them.
"""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from orderly.config.client import ClientConfig
from orderly.config.fields import type_fault
from orderly.errors import ConfigError
from orderly.log import get_logger

_log = get_logger("orderly.config")

SETTINGS = (*(field.name for field in fields(ClientConfig)), "color")
_SECRETS = ("secret_key", "security_token", "record_secrets")
_CURRENT, _CONTEXTS = "context", "contexts"
_RESERVED = {_CURRENT, _CONTEXTS}


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The file's settings, checked; empty if there is no file.

    Attributes:
        path: where it is, or would be.
        content: its tables.
    """

    path: Path
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def current(self) -> str:
        """The context that the file chooses; "" for none."""
        return str(self.content.get(_CURRENT, ""))

    @property
    def contexts(self) -> Mapping[str, Mapping[str, Any]]:
        """The contexts, by name."""
        found: Mapping[str, Mapping[str, Any]] = self.content.get(_CONTEXTS, {})
        return found

    def context(self, name: str) -> Mapping[str, Any]:
        """The context's own settings; for "" none.

        Raises:
            ConfigError: there is no such context.
        """
        if name and name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"there is no context {name!r} in {self.path}; it has: {known}")
        return self.contexts[name] if name else {}

    def common(self) -> Mapping[str, Any]:
        """The settings that apply in every context."""
        return {key: value for key, value in self.content.items() if key not in _RESERVED}

    @property
    def has_secrets(self) -> bool:
        """Whether it contains a secret, which only its owner should read."""
        tables = (self.content, *self.contexts.values())
        return any(table.get(name) for table in tables for name in _SECRETS)

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


def read_settings(
    path: Path, commands: Collection[str] | None = None, *, missing_ok: bool = False
) -> SettingsFile:
    """Read a file.

    Logs a warning if the file holds a secret and every user of the machine can read it, or if
    others can write or replace it.

    Args:
        path: where it is.
        commands: which tables are options of the command line; None: any, with any content.
        missing_ok: take a file that does not exist for an empty one.

    Raises:
        ConfigError: it cannot be read, is not TOML, or has a key that is not a setting.
    """
    try:
        with path.open(encoding="utf-8") as file:
            text, status = file.read(), os.fstat(file.fileno())
    except FileNotFoundError as error:
        if missing_ok:
            return SettingsFile(path)
        raise ConfigError(f"the settings file {path} does not exist") from error
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"the settings in {path} cannot be read: {error}") from error
    settings = SettingsFile(path, parse_settings(text, path, commands))
    if os.name == "posix" and stat.S_ISREG(status.st_mode):  # /dev/null is for all
        if status.st_mode & stat.S_IROTH and settings.has_secrets:
            hint = "it holds a secret; make it readable by its owner only (chmod 600)"
            _warn_once("settings.readable_by_all", path, hint)
        if (remedy := _who_else_writes(path, status)) is not None:
            hint = f"whoever can change it chooses the servers that get messages and keys; {remedy}"
            _warn_once("settings.writable_by_others", path, hint)
    return settings


def _who_else_writes(path: Path, status: os.stat_result) -> str | None:
    """What to do about others who can change a settings file; None: there are none."""
    if status.st_uid not in {0, os.geteuid()}:
        return "it belongs to another user: take a file of your own"
    if _others_write(status):
        return "make it writable by its owner only (chmod go-w)"
    for folder in dict.fromkeys((path.parent, path.resolve().parent)):
        of_folder = folder.stat()
        if _others_write(of_folder) and not of_folder.st_mode & stat.S_ISVTX:
            return f"others can replace it: make {folder} writable by its owner only (chmod go-w)"
    return None


def _others_write(status: os.stat_result) -> bool:
    """A group of the owner's number is the owner's own, as most systems make them: no others."""
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid != status.st_uid
    return bool(status.st_mode & stat.S_IWOTH or by_group)


@functools.cache
def _warn_once(event: str, path: Path, hint: str) -> None:
    """Once for each file: some read it again and again."""
    _log.warning(event, path=str(path), hint=hint)


def parse_settings(
    text: str, path: Path, commands: Collection[str] | None = None
) -> dict[str, Any]:
    """Read and check what a file says; `path` is for the error, `commands` as in `read_settings`.

    Raises:
        ConfigError: not TOML, or a key that is not a setting.
    """
    import tomllib  # noqa: PLC0415  costs time, and most have no file

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    contexts = content.get(_CONTEXTS, {})
    _require(isinstance(contexts, dict), f"{_CONTEXTS} must be tables [contexts.NAME]", path)
    _require(isinstance(content.get(_CURRENT, ""), str), f"{_CURRENT} must be a name", path)
    check = functools.partial(_check, path=path, commands=commands)
    check({key: value for key, value in content.items() if key not in _RESERVED}, "")
    for name, table in contexts.items():
        _require(isinstance(table, dict), f"contexts.{name} must be a table", path)
        check(table, f"contexts.{name}.")
    return content


def _check(
    table: Mapping[str, Any], where: str, path: Path, commands: Collection[str] | None
) -> None:
    """Every key is a setting, or a command with a table. Values are never shown: see `secret`."""
    for key, value in table.items():
        known = isinstance(value, dict) if commands is None else key in commands
        is_command = known and key not in SETTINGS
        _require(
            key in SETTINGS or is_command,
            f"{where}{key} is not a setting; the settings are {', '.join(SETTINGS)}, and tables"
            " with options of commands, such as [backlog.check]",
            path,
        )
        _require(
            isinstance(value, dict) == is_command,
            f"{where}{key} must be {'a table' if is_command else 'a value, not a table'}",
            path,
        )
        fault = type_fault(ClientConfig, key, value)
        _require(not fault, f"{where}{key} {fault}", path)


def _require(condition: bool, text: str, path: Path) -> None:
    if not condition:
        raise ConfigError(f"{path}: {text}")


NO_FILE = SettingsFile(Path())


def secret(name: str) -> bool:
    """Whether a setting's value must never be shown."""
    return any(word in name for word in ("secret", "password", "token", "access_key"))
