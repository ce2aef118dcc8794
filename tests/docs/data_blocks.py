"""Blocks that are data or another language: parsed, and loaded by our own code where ours."""

import json
import re
import shutil
import sqlite3
import tomllib
from pathlib import Path

import yaml

from orderly.cli.settings import parse_settings
from orderly.monitoring.metrics import LEVELS
from tests.docs.pages import BadPage
from tests.support.programs import promtool

METRICS = {metric.name for level in LEVELS.values() for metric in level}
_ENDINGS = re.compile(r"_(?:bucket|sum|count|total|created)$")
_INSTRUCTION = re.compile(
    r"(?:FROM|RUN|CMD|COPY|ADD|ENV|ARG|USER|WORKDIR|ENTRYPOINT|EXPOSE|LABEL|VOLUME|HEALTHCHECK) "
)


def _toml(room, block):
    content = tomllib.loads(block.text)
    if "contexts" in content or "settings" in block.text.partition("\n")[0]:
        parse_settings(block.text, Path(block.where))


def _yaml(room, block):
    for content in yaml.safe_load_all(block.text):
        if isinstance(content, dict) and "groups" in content:
            _promtool_rules(room, block.text)


def _json(room, block):
    json.loads(block.text)


def _promql(room, block):
    expressions = [line for line in block.text.split("\n\n") if line.strip()]
    rules = [{"record": f"r{n}", "expr": text} for n, text in enumerate(expressions)]
    _promtool_rules(room, yaml.safe_dump({"groups": [{"name": "page", "rules": rules}]}))
    named = set(re.findall(r"\borderly_\w+", block.text))
    unknown = {name for name in named if not {name, _ENDINGS.sub("", name)} & METRICS}
    if unknown:
        raise BadPage(f"the exporter has no {', '.join(sorted(unknown))}")


def _promtool_rules(room, text):
    if shutil.which("promtool") is None:  # CI has it: tests of the alerts insist
        return
    path = room.folder / "rules.yaml"
    path.write_text(text)
    promtool("check", "rules", str(path), cwd=room.folder)


def _sql(room, block):
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(block.text)
    finally:
        connection.close()


def _properties(room, block):
    for line in block.text.splitlines():
        if line.strip() and not re.match(r"[#;\[]|[\w.-]+ *=", line):
            raise BadPage(f"no KEY=VALUE: {line}")


def _dockerfile(room, block):
    for line in re.sub(r"\\\n", "", block.text).splitlines():
        if line.strip() and not line.startswith("#") and not _INSTRUCTION.match(line):
            raise BadPage(f"no instruction: {line}")


def _shown(room, block):
    if re.search(r"^\$ ", block.text, re.MULTILINE):
        raise BadPage("has commands: tag it `console`")


KINDS = {
    "toml": _toml,
    "yaml": _yaml,
    "json": _json,
    "promql": _promql,
    "sql": _sql,
    "properties": _properties,
    "ini": _properties,
    "dockerfile": _dockerfile,
    "text": _shown,
    "mermaid": _shown,
}


def check(room, block):
    """Check a block; what is wrong is told with its place."""
    try:
        KINDS[block.tag](room, block)
    except BadPage as error:
        raise BadPage(f"{block.where}: {error}") from None
    except Exception as error:
        raise BadPage(f"{block.where}: {type(error).__name__}: {error}") from error
