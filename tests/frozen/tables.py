"""What the library and its commands are known by: events, metrics, settings, options, codes."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import click

import orderly
from docsite.reference.settings import variable_of
from orderly.cli.commands import CODES, GENERAL
from orderly.config import ClientConfig, ConsumerConfig, ParkLimits, ProducerConfig
from orderly.listening.settings import Rules
from orderly.log import where
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.metrics import ITSELF, LEVELS, Blocks, ExporterFigures, Labelled, metrics_of
from tests.support.alerts import ALERTS
from tests.support.command_tree import arguments, options, tree
from tests.support.snapshots import row, snapshot

SOURCES = Path(orderly.__file__).parent
EVENTS = SOURCES.parent / "docs" / "reference" / "events.md"
SETTINGS = (
    ClientConfig,
    ProducerConfig,
    ConsumerConfig,
    ParkLimits,
    Rules,
    orderly.Retry,
    orderly.PoisonRules,
)
# Properties of messages, and no variables.
OF_MESSAGES = {f"ORDERLY_{name}" for name in ("ATTEMPT", "PARKED", "ID", "SEQ", "UNREAD", "SEAL")}
_EVENT = re.compile(r"^\| `([^`]+)` \| ([a-z, ]+) \| ([a-z]+) \|.*\|(.*)\|$", re.MULTILINE)


# --- events


def events() -> dict[str, tuple[set[str], str, set[str]]]:
    """By name levels, logger, and the fields besides those of every event.

    They are the page's: `tests/unit/test_events.py` compares it with the sources.
    """
    rows = _EVENT.findall(EVENTS.read_text(encoding="utf-8"))
    return {
        name: (set(levels.split(", ")), logger, set(re.findall(r"`(\w+)`", told)))
        for name, levels, logger, told in rows
    }


def facts_of_events() -> Iterator[str]:
    """Of each its logger and levels, then its fields."""
    yield from (f"of consumer, listener, once | field {name}" for name in where("group"))
    for name, (levels, logger, told) in events().items():
        yield f"{name} | orderly.{logger}: {', '.join(sorted(levels))}"
        yield from (f"{name} | field {field}" for field in told)


# --- metrics and alerts


def facts_of_metrics() -> Iterator[str]:
    """Of each its type and labels; alerts have names."""
    for level, metrics in LEVELS.items():
        labels = _labels(level)
        for metric in metrics:
            own = [metric.label] if isinstance(metric, Labelled) else []
            yield f"{metric.name} | {metric.kind}, labels: {', '.join(labels + own) or 'none'}"
    yield from (f"alert {name}" for name in ALERTS)


def _labels(level: str) -> list[str]:
    """What every series of a level is labelled with: read off what is served."""
    own = Blocks(openmetrics=False)
    own.add(ITSELF, [""], [ExporterFigures({}, 0, 0.0, 0.0, 0.0, 0)])
    served = metrics_of(snapshot(row(QueueState.BLOCKED))).text + own.text()
    plain = (each.name for each in LEVELS[level] if not isinstance(each, Labelled))
    found = (re.search(rf"^{name}(?:{{(.*)}})? ", served, re.MULTILINE) for name in plain)
    return re.findall(r"(\w+)=", next(each[1] or "" for each in found if each))


# --- settings and variables


def facts_of_settings() -> Iterator[str]:
    """Of each its type, its default and its variable; then the variables of no setting."""
    for kind in SETTINGS:
        for field in fields(kind):
            name = f"{kind.__name__}.{field.name}"
            yield f"{name} | {field.type}{_default(field)}"
            yield from (f"{name} | {name_}" for name_ in variable_of(kind, field))
    yield from (f"variable {name}" for name in variables())


def _default(field: Field[Any]) -> str:
    default = field.default
    if default is MISSING and field.default_factory is not MISSING:
        default = field.default_factory()
    if default is MISSING:
        return ""
    plain = default is None or isinstance(default, str | int | float | tuple)
    return f" = {default!r}" if plain else f" = {type(default).__name__}(…)"


def variables() -> set[str]:
    """Environment variables that stand in the code by name, without those of settings."""
    found = set()
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            if isinstance(text, str) and re.fullmatch(r"ORDERLY_[A-Z_]+|NAMESRV_ADDR", text):
                found.add(text)
    of_settings = {f"ORDERLY_{f.name.upper()}" for kind in SETTINGS[:3] for f in fields(kind)}
    return found - of_settings - OF_MESSAGES


# --- the command line


def facts_of_commands() -> Iterator[str]:
    """Of each its arguments, its options with what they take, its exit codes; what is installed."""
    root = tree()[""]
    yield from _parameters("orderly", [each for each in root.params if each.name != "help"])
    for words, command in tree().items():
        name = f"orderly {words}".strip()
        yield f"{name} | {'group' if isinstance(command, click.Group) else 'command'}"
        if words:
            yield from _parameters(name, [*arguments(command), *options(command)])
        yield from _codes(name, CODES.get(words, {}))
    yield from _codes("every command", GENERAL)
    project = tomllib.loads((SOURCES.parent / "pyproject.toml").read_text())["project"]
    yield from (f"script {name} | {calls}" for name, calls in project["scripts"].items())
    yield from (f"extra {name}" for name in project["optional-dependencies"])


def _parameters(name: str, parameters: list[click.Parameter]) -> Iterator[str]:
    for each in parameters:
        needed = ", required" if each.required else ""
        many = ", any number" if each.multiple or each.nargs == -1 else ""
        if isinstance(each, click.Argument):
            yield f"{name} | argument {each.name}: {_taken(each)}{needed}{many}"
        else:
            spelled = ", ".join((*each.opts, *each.secondary_opts))
            yield f"{name} | option {spelled}: {_taken(each)}{needed}{many}"


def _taken(parameter: click.Parameter) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    if isinstance(parameter.type, click.Choice):
        return " or ".join(map(str, parameter.type.choices))
    return parameter.type.name


def _codes(name: str, codes: Mapping[int, str]) -> Iterator[str]:
    if codes:
        yield f"{name} | exit codes {', '.join(map(str, sorted(codes)))}"
