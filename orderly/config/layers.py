"""Which setting applies if several places have one: the first of these that has it.

what was given by hand: an option of the command line, an argument
the context that was named by hand
the environment: ORDERLY_NAMESRV, ORDERLY_NAMESPACE, …
the settings file: its current context (or ORDERLY_CONTEXT's), then what holds in all
NAMESRV_ADDR, as Java's tools have it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orderly.config.fields import variable_of
from orderly.config.settings_file import SETTINGS, SettingsFile

_ENVIRONMENT = "environment"


def find_settings(
    file: SettingsFile, given: Mapping[str, Any], context: str, env: Mapping[str, str]
) -> dict[str, tuple[Any, str]]:
    """Return each setting that has a value: the value, and where it comes from.

    Args:
        file: what the settings file says.
        given: by hand, by name.
        context: named by hand, or "".
        env: variables.

    Raises:
        ConfigError: there is no such context.
    """
    found: dict[str, tuple[Any, str]] = {}
    for origin, table in _layers(file, given, context, env):
        for name in SETTINGS:
            if name in table:
                found.setdefault(name, (table[name], origin))
    return found


def config_fields(found: Mapping[str, tuple[Any, str]]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the fields of ClientConfig: variables, whose text is still to be read, and values."""
    fields = {name: layer for name, layer in found.items() if name != "color"}
    texts = {variable_of(name): text for name, (text, origin) in fields.items() if _read(origin)}
    return texts, {name: value for name, (value, origin) in fields.items() if not _read(origin)}


def current_context(file: SettingsFile, context: str, env: Mapping[str, str]) -> str:
    """Return the name of the context that applies, or ""."""
    return context or env.get("ORDERLY_CONTEXT") or file.current


def _layers(
    file: SettingsFile, given: Mapping[str, Any], context: str, env: Mapping[str, str]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "option", given
    if context:
        yield f"context {context}", file.context(context)
    yield _ENVIRONMENT, _of_environment(env)
    if not context and (name := current_context(file, context, env)):
        yield f"context {name}", file.context(name)
    yield str(file.path), file.common()
    if address := env.get("NAMESRV_ADDR"):
        yield "NAMESRV_ADDR", {"namesrv": address}


def _of_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Settings of the environment by their own names; an empty variable is none."""
    pairs = ((name, env.get(variable_of(name), "")) for name in SETTINGS)
    return {name: text for name, text in pairs if text}


def _read(origin: str) -> bool:
    """Whether the value is a text that has to be read as what it means."""
    return origin == _ENVIRONMENT
