"""Alerts, dashboards and their documentation: rendered, measured, tested and explained."""

import json
import re
from collections import Counter

import pytest
import yaml

from orderly.monitoring.metrics import LEVELS
from tests.support.alerts import ALERTS, CASES, FOLDER, rendered

FILES = {path: text for path, text in rendered().items() if path.suffix == ".json"}
DASHBOARDS = [json.loads(text) for text in FILES.values()]
METRICS = {metric.name for level in LEVELS.values() for metric in level}
PROMQL = [alert.expr for alert in ALERTS.values()] + [
    target["expr"]
    for dashboard in DASHBOARDS
    for panel in dashboard["panels"]
    for target in panel.get("targets", ())
]
DOCUMENT = FOLDER.parents[1] / "docs" / "how-to" / "alerts.md"
each_dashboard = pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda made: made["uid"])


def test_what_is_committed_is_what_the_source_renders():
    committed = {path: path.read_text(encoding="utf-8") for path in rendered()}
    assert committed == rendered(), "run: python docker/monitoring/render.py"


def test_nothing_else_lies_among_the_rendered_files():
    found = {path for name in ("rules", "dashboards") for path in (FOLDER / name).iterdir()}
    assert found == set(rendered())


# --- alerts


def test_every_alert_says_how_bad_it_is_and_where_to_read_on():
    rules = yaml.safe_load((FOLDER / "rules" / "orderly.yaml").read_text())["groups"]
    for rule in (rule for group in rules for rule in group["rules"]):
        assert {"alert", "expr", "for", "keep_firing_for", "labels", "annotations"} == set(rule)
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        said = rule["annotations"]
        linked = {"page_url"} if "$labels.group" in said["summary"] else set()
        assert {"summary", "description", "runbook_url"} | linked == set(said)


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_is_tried_in_four_ways_at_least(name):
    kinds = Counter(case.kind for case in CASES[name])
    assert {"fires", "quiet", "resolves", "absent"} <= set(kinds)


def test_every_alert_has_a_section_that_explains_it_and_no_other_has():
    sections = re.split(r"^### ", DOCUMENT.read_text(), flags=re.MULTILINE)[1:]
    assert Counter(section.partition("\n")[0] for section in sections) == Counter(list(ALERTS))
    for section in sections:
        steps = re.findall(r"^\*\*(.+?)\*\*", section, re.MULTILINE)
        assert steps == ["Means.", "Look.", "Do.", "Prevent."]


# --- what is asked


@pytest.mark.parametrize("expr", PROMQL)
def test_only_what_the_exporter_has_is_asked_for(expr):
    asked = set(re.findall(r"\borderly_\w+", expr))
    assert asked <= METRICS
    assert asked or 'up{job="orderly"}' in expr


def test_every_metric_is_on_a_dashboard():
    asked = {name for expr in PROMQL for name in re.findall(r"\borderly_\w+", expr)}
    shown_as_age = {"orderly_scan_last_success_timestamp_seconds"}
    assert METRICS - shown_as_age <= asked


# --- dashboards


@each_dashboard
def test_a_dashboard_can_be_linked_to_and_takes_any_data_source(dashboard):
    assert dashboard["uid"].startswith("orderly-")
    variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
    assert {"datasource", "cluster", "group"} <= set(variables)
    assert variables["datasource"]["type"] == "datasource"
    asking = [*dashboard["panels"], *(t for p in dashboard["panels"] for t in p.get("targets", ()))]
    asking += [v for v in variables.values() if v["type"] == "query"]
    sources = [part["datasource"] for part in asking if part.get("type") != "row"]
    assert {(source["type"], source["uid"]) for source in sources} == {
        ("prometheus", "$datasource")
    }


@each_dashboard
def test_a_dashboard_asks_for_its_variables_only(dashboard):
    has = {variable["name"] for variable in dashboard["templating"]["list"]}
    assert set(re.findall(r"\$(?!__)(\w+)", json.dumps(dashboard))) <= has


@each_dashboard
def test_every_panel_is_there_once_and_asks_for_something(dashboard):
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels:
        assert panel["type"] in {"stat", "timeseries", "table"}
        assert panel["title"]
        letters = [target["refId"] for target in panel["targets"]]
        assert letters
        assert len(set(letters)) == len(letters)
    assert [p["title"] for p in dashboard["panels"] if p["type"] == "row"] == ROWS[dashboard["uid"]]


ROWS = {
    "orderly-clusters": ["Overview", "Groups", "Brokers and the scan itself"],
    "orderly-group": ["Topics and queues", "Ordered consumption"],
}


@each_dashboard
def test_no_panel_lies_on_another_or_beside_the_grid(dashboard):
    covered = Counter()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        assert 0 <= at["x"] < at["x"] + at["w"] <= 24
        covered.update(
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        )
    assert set(covered.values()) == {1}
