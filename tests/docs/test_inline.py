"""What pages name within their sentences exists: commands, settings, alerts, metrics."""

import ast
import dataclasses
import inspect
import re
import shlex

import click
import pytest

import orderly
from orderly.cli.backlog import DefaultIsList
from orderly.cli.root import root
from orderly.monitoring.metrics import LEVELS
from tests.docs.pages import ROOT, pages
from tests.support.alerts import ALERTS

METRICS = {metric.name for level in LEVELS.values() for metric in level}
CLASSES = {
    name: value for name in orderly.__all__ if inspect.isclass(value := getattr(orderly, name))
}
FIELDS = {field.name for field in dataclasses.fields(orderly.ConsumerConfig)}

_FENCED = re.compile(r"^([ \t]*)(`{3,}|~{3,}).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`]+)`")
_END = re.compile(r"^(?:[|>;…]|&&|#)")


def inline(page):
    """Inline code of a page, each on one line."""
    text = _FENCED.sub("", (ROOT / page).read_text("utf-8"))
    return [" ".join(code.split()).replace("\\|", "|") for code in _INLINE.findall(text)]


def wrong_with_command(words):
    """What of a command line is unknown; "" if nothing is."""
    command, context = root, click.Context(root, info_name="orderly")
    for word in words:
        if _END.match(word):
            return ""
        if word.startswith("-") and isinstance(command, DefaultIsList):
            command = command.get_command(context, "list")
        if word.startswith("-"):
            known = options(command) | options(root) | {"--help"}
            if (name := word.partition("=")[0]) not in known:
                return f"{context.command_path} has no {name}"
        elif isinstance(command, click.Group) and not re.search(r"[|…A-Z]", word):
            found = command.get_command(context, word)
            if found is None:
                return f"{context.command_path} has no command {word}"
            command, context = found, click.Context(found, parent=context, info_name=word)
    return ""


def options(command):
    return {name for each in command.params for name in (*each.opts, *each.secondary_opts)}


def split(code):
    try:
        return shlex.split(code)[1:]
    except ValueError:  # an apostrophe of a sentence
        return code.split()[1:]


@pytest.mark.parametrize("page", pages())
def test_commands_in_sentences_exist(page):
    lines = [code for code in inline(page) if code.startswith("orderly ")]
    wrong = {code: found for code in lines if (found := wrong_with_command(split(code)))}
    assert not wrong


def keywords(text):
    """(class, keyword) of the calls in an inline code; none where it is no Python."""
    try:
        tree = ast.parse(text.replace("…", "..."))
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for keyword in node.keywords:
                if keyword.arg and node.func.id in CLASSES:
                    yield node.func.id, keyword.arg


@pytest.mark.parametrize("page", pages())
def test_settings_in_sentences_exist(page):
    for code in inline(page):
        for name, keyword in keywords(code):
            assert keyword in inspect.signature(CLASSES[name]).parameters, code


def test_settings_for_those_who_come_from_java_exist():
    page = (ROOT / "docs/how-to/migrate-from-java.md").read_text("utf-8")
    rows = [line.split(" | ")[1] for line in page.splitlines() if line.startswith("| `set")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)(?:=[^`]*)?`", row)}
    assert len(named) > 12
    of_producers = {field.name for field in dataclasses.fields(orderly.ProducerConfig)}
    assert named <= FIELDS | of_producers


@pytest.mark.parametrize("page", pages())
def test_alerts_and_metrics_in_sentences_exist(page):
    for code in inline(page):
        for name in re.findall(r"\bOrderly[A-Z]\w+", code):
            assert name in ALERTS or hasattr(orderly, name), code
        for name in re.findall(r"\borderly_(?:group|topic|queue|broker|scan)_\w+", code):
            assert name in METRICS, code
