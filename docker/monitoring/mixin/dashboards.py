"""Writes the dashboards as Grafana's JSON (schema 39, Grafana 10 or newer)."""

from __future__ import annotations

import json
from typing import Any

from mixin.clusters import CLUSTERS
from mixin.one_group import ONE_GROUP
from mixin.panels import WHOLE, Dashboard, Panel

SOURCE = {"type": "prometheus", "uid": "$datasource"}
HEIGHTS = {"stat": 4, "timeseries": 8, "table": 9}
GROUP = 'cluster=~"$cluster",group=~"$group"'
SELECTORS = {"C": 'cluster=~"$cluster"', "G": GROUP, "T": GROUP + ',topic=~"$topic"'}
ASKED = {  # by variable, what its values are read from: each depends on those before it
    "cluster": "label_values(orderly_broker_up, cluster)",
    "group": 'label_values(orderly_group_queues{cluster=~"$cluster"}, group)',
    "topic": f"label_values(orderly_topic_queues{{{GROUP}}}, topic)",
}


def dashboards() -> dict[str, str]:
    """Every dashboard's JSON, by its uid."""
    return {
        made.uid: json.dumps(_dashboard(made), indent=1) + "\n" for made in (CLUSTERS, ONE_GROUP)
    }


def _dashboard(made: Dashboard) -> dict[str, Any]:
    return {
        "uid": made.uid,
        "title": made.title,
        "tags": ["orderly", "rocketmq"],
        "description": "Rendered by docker/monitoring/render.py: change it there.",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "utc",
        "graphTooltip": 1,
        "links": [_link()],
        "templating": {"list": [_source(), *(_variable(name) for name in made.variables)]},
        "panels": _panels(made),
    }


def _link() -> dict[str, Any]:
    return {
        "type": "dashboards",
        "title": "Orderly",
        "tags": ["orderly"],
        "includeVars": True,
        "keepTime": True,
    }


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data", "type": "datasource", "query": "prometheus"}


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": name.capitalize(),
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": ASKED[name], "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels(made: Dashboard) -> list[dict[str, Any]]:
    """Rows and their panels, from left to right and from above."""
    drawn: list[dict[str, Any]] = []
    top = 0
    for title, panels in made.rows:
        drawn.append(_row(title, top))
        left, top, height = 0, top + 1, 0
        for panel in panels:
            if left + panel.width > WHOLE:
                left, top, height = 0, top + height, 0
            height = max(height, HEIGHTS[panel.kind])
            drawn.append(_panel(panel, left, top))
            left += panel.width
        top += height
    for number, panel in enumerate(drawn, 1):
        panel["id"] = number
    return drawn


def _row(title: str, top: int) -> dict[str, Any]:
    place = {"x": 0, "y": top, "w": WHOLE, "h": 1}
    return {"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


def _panel(panel: Panel, left: int, top: int) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": {"x": left, "y": top, "w": panel.width, "h": HEIGHTS[panel.kind]},
        "targets": [_target(panel, place) for place in range(len(panel.queries))],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": {"legend": {"showLegend": True}} if panel.kind == "timeseries" else {},
        "transformations": _one_table(panel) if panel.kind == "table" else [],
    }


def _target(panel: Panel, place: int) -> dict[str, Any]:
    legend, expr = panel.queries[place]
    of_now = {"instant": True, "range": False}
    asked = {
        "refId": chr(ord("A") + place),
        "datasource": SOURCE,
        "expr": expr % SELECTORS,
        "legendFormat": legend,
    }
    if panel.kind == "table":
        return asked | of_now | {"format": "table"}
    return asked | (of_now if panel.kind == "stat" else {})


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.red_above is not None:
        least = 1 if panel.red_above == 0 else panel.red_above  # Grafana's steps begin *at* it
        steps.append({"color": "red", "value": least})
    lines = {"stacking": {"mode": "normal" if panel.stacked else "none"}}
    if panel.kind == "timeseries":
        lines |= {
            "fillOpacity": 30 if panel.stacked else 0,
            "thresholdsStyle": {"mode": "off" if panel.red_above is None else "dashed"},
        }
    return {
        "unit": panel.unit,
        "thresholds": {"mode": "absolute", "steps": steps},
        "custom": lines if panel.kind == "timeseries" else {},
    }


def _one_table(panel: Panel) -> list[dict[str, Any]]:
    """One row a group or queue: results joined by their labels, columns named after the query.

    `state` and `client` are labels of a series that is always 1: its value is no column.
    """
    named = {f"Value #{chr(ord('A') + n)}": legend for n, (legend, _) in enumerate(panel.queries)}
    infos = {column for column, legend in named.items() if legend in ("state", "owner")}
    return [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(["Time", *sorted(infos)], True),
                "renameByName": {c: name for c, name in named.items() if c not in infos},
                "indexByName": {},
            },
        },
    ]
