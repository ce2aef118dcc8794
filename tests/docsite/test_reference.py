"""Reference pages are in step with the code: nothing is left out, nothing made up."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import click
import pytest

import orderly
import orderly.native
import orderly.once
import orderly.selectors
import orderly.telemetry
import orderly.testing
from docsite.docstrings import one_name_an_item, opening, section
from docsite.markdown import prose
from docsite.reference import PARTS, expanded
from docsite.reference.commands import contexts
from docsite.reference.errors import CLASSES
from docsite.reference.metrics import asked_by
from orderly.cli.commands import TASKS
from orderly.cli.root import root
from orderly.monitoring.backlog.states import VERDICTS, QueueState
from orderly.monitoring.metrics import LEVELS, metrics_of
from tests.frozen.tables import SETTINGS, variables
from tests.support.alerts import ALERTS
from tests.support.snapshots import row, snapshot

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
PAGES = sorted(REFERENCE.rglob("*.md"))


def page(name):
    return (REFERENCE / name).read_text(encoding="utf-8")


def made(name):
    return expanded(page(name))


def test_each_part_is_on_a_page_and_can_be_made():
    asked = re.findall(
        r"<!-- generated: ([\w-]+)", "".join(p.read_text() for p in DOCS.rglob("*.md"))
    )
    assert set(asked) == set(PARTS)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REFERENCE)))
def test_a_page_has_nothing_left_to_make(path):
    text = expanded(path.read_text(encoding="utf-8"))
    assert "<!-- generated" not in text
    assert "_Filled on the site" not in text  # said to readers of the repository only


# --- settings


@pytest.mark.parametrize("kind", SETTINGS, ids=lambda kind: kind.__name__)
def test_every_setting_is_explained(kind):
    text = made("configuration.md")
    for field in fields(kind):
        assert f"{{: #{kind.__name__.lower()}-{field.name} }}" in text


def test_a_variable_is_named_where_it_is_read():
    text = made("configuration.md")
    assert "ORDERLY_CONSUME_FROM" in text
    assert "ORDERLY_PARKING" not in text  # a part of its own has no variable


def test_every_other_variable_is_in_the_table_and_no_other():
    table = set(
        re.findall(r"`(ORDERLY_[A-Z_]+)`", page("configuration.md").split("## Environment")[1])
    )
    examples = {"ORDERLY_BACKLOG_CHECK_CRIT"}
    assert table - examples == variables() - {"NAMESRV_ADDR"} | {"ORDERLY_COLOR"}


# --- the command line


def test_every_command_and_option_is_there():
    text = made("cli.md")
    found = list(contexts())
    assert len(found) > 40
    for context in found:
        assert re.search(rf"^#+ {context.command_path}$", text, re.MULTILINE)
        own = text.split(f" {context.command_path}\n", 1)[1].split("\n#", 1)[0]
        names = {each.name for each in root.params}
        for option in context.command.params:
            if isinstance(option, click.Option) and option.name not in names and not option.hidden:
                assert option.opts[0] in own, (context.command_path, option.opts)


def test_the_tree_of_commands_is_a_table_with_what_each_is_about():
    rows = PARTS["command-tree"]().splitlines()[2:]
    told = [re.search(r"<code>orderly (.*?)</code>", row)[1] for row in rows]
    leaves = [c for c in contexts() if not isinstance(c.command, click.Group)]
    assert len(told) == len(leaves)
    assert {"locks GROUP", "offsets reset GROUP TOPIC", "backlog list [GROUP]..."} <= set(told)
    assert [row.split(" | ")[0] for row in rows] == sorted(
        (row.split(" | ")[0] for row in rows), key=lambda task: [*TASKS].index(task[2:])
    ), "a task is in one piece"


def test_the_common_options_are_told_once():
    assert made("cli.md").count("<code>--namesrv HOST:PORT") == 1


# --- errors


def test_every_error_has_a_section_that_says_what_to_do():
    sections = re.split(r"^##+ (\w+)\n", page("errors.md"), flags=re.MULTILINE)
    by_name = dict(zip(sections[1::2], sections[2::2], strict=True))
    assert list(by_name) == list(CLASSES)
    for name in CLASSES:
        assert f"<!-- generated: error {name} -->\n\n**Do.** " in by_name[name]


def test_the_facts_of_an_error():
    text = PARTS["error"]("RequestTimeout")
    assert "[<code>RemotingError</code>](#remotingerror), <code>TimeoutError</code>" in text
    assert "`retriable` True" in text
    assert "No reply within the time-out" in text


# --- metrics and states


@pytest.mark.parametrize("level", LEVELS)
def test_every_metric_is_on_the_list_of_its_level(level):
    text = PARTS["metrics"](level)
    assert re.findall(r"^<code>(orderly_\w+)", text, re.MULTILINE) == [
        m.name for m in LEVELS[level]
    ]


def test_the_labels_of_a_level_are_those_that_are_served():
    served = metrics_of(snapshot(row(QueueState.BLOCKED))).text
    said = dict(re.findall(r"^## (\w+)\n\nLabels: (.*?)\.", page("metrics.md"), re.MULTILINE))
    for title, metric in (
        ("Groups", "group_backlog_messages"),
        ("Topics", "topic_backlog_messages"),
        ("Queues", "queue_backlog_messages"),
    ):
        labels = re.search(rf"^orderly_{metric}{{(.*)}}", served, re.MULTILINE)[1]
        assert re.findall(r"(\w+)=", labels) == re.findall(r"\w+", said[title])


def test_alerts_are_linked_by_the_metrics_they_ask_for():
    named = {alert for alerts in asked_by().values() for alert in alerts}
    assert named == {name for name, alert in ALERTS.items() if "orderly_" in alert.expr}


def test_states_and_verdicts_are_those_of_the_rules():
    rows = re.findall(r"^\| ([A-Z_]+) \|.*?\| ([A-Z]+)", page("states.md"), re.MULTILINE)
    assert [state for state, _ in rows] == list(QueueState)
    expected = {str(state): verdict.name for state, verdict in VERDICTS.items()}
    assert dict(rows) == expected


# --- the API


API = "".join(path.read_text(encoding="utf-8") for path in (REFERENCE / "api").glob("*.md"))
PUBLIC = [
    *(f"orderly.{name}" for name in orderly.__all__ if name not in {"__version__", *CLASSES}),
    *(f"orderly.once.{name}" for name in orderly.once.__all__),
    *(f"orderly.telemetry.{name}" for name in orderly.telemetry.__all__),
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_place(name):
    assert re.search(rf"^::: {re.escape(name)}$", API, re.MULTILINE)


@pytest.mark.parametrize("name", orderly.testing.__all__)
def test_every_name_for_tests_has_a_place(name):
    assert re.search(rf"^::: orderly\.testing\.{name}$|members: \[.*\b{name}\b", API, re.MULTILINE)


# --- texts


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("a | b * c_d <e>", "a \\| b \\* c\\_d &lt;e&gt;"),
        ("`a|b` and\n  `c`", "<code>a&#124;b</code> and <code>c</code>"),
        ("--to-time, or -v", "<code>--to-time</code>, or <code>-v</code>"),
        ("set ORDERLY_NAMESRV", "set <code>ORDERLY_NAMESRV</code>"),
        ("well-known, A-Z, 1--2", "well-known, A-Z, 1--2"),
    ],
)
def test_a_text_of_the_code_means_itself(text, becomes):
    assert prose(text) == becomes


# --- reading docstrings


class Documented:
    """What it is.

    More of it.

    Attributes:
        a, b: seconds,
            both.
        c: once: again.

    Raises:
        ConfigError: never.
    """


def test_a_section_of_a_docstring():
    assert section(Documented, "Attributes", "Args") == {
        "a": "seconds, both.",
        "b": "seconds, both.",
        "c": "once: again.",
    }
    assert section(Documented, "Returns") == {}
    assert "    a: seconds,\n        both.\n    b: seconds,\n        both.\n    c: once" in (
        one_name_an_item(inspect.getdoc(Documented))
    )
    assert opening(Documented) == "What it is.\n\nMore of it."


def test_every_public_class_and_function_says_what_it_is():
    public = {name: getattr(orderly, name) for name in orderly.__all__}
    made = {
        name: each
        for name, each in public.items()
        if inspect.isclass(each) or inspect.isfunction(each)
    }
    assert [name for name, each in made.items() if not inspect.getdoc(each)] == []
