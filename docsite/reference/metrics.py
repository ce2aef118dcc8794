"""The exporter's metrics, from its table, and which alerts ask for them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import yaml

from docsite.markdown import prose, table
from orderly.monitoring.exporting.metrics import LEVELS, Labelled

_RULES = Path(__file__).parents[2] / "docker" / "monitoring" / "rules" / "orderly.yaml"
_ALERTS_PAGE = "../how-to/alerts.md"


def level(name: str) -> str:
    """The metrics of one level: broker, group, topic, queue, itself."""
    rows = []
    for metric in LEVELS[name]:
        label = f"; by `{metric.label}`" if isinstance(metric, Labelled) else ""
        rows.append((f"`{metric.name}`", str(metric.kind), prose(metric.help) + label))
    rows = [(*row, _asking(row[0].strip("`"))) for row in rows]
    return table(("metric", "type", "what", "alerts"), rows)


def _asking(metric: str) -> str:
    names = alerts_by_metric().get(metric, ())
    return ", ".join(f"[{name}]({_ALERTS_PAGE}#{name.lower()})" for name in names)


@cache
def alerts_by_metric() -> Mapping[str, list[str]]:
    """By metric the names of the alerts whose expressions have it."""
    found: dict[str, list[str]] = defaultdict(list)
    groups = yaml.safe_load(_RULES.read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        for metric in sorted(set(re.findall(r"\borderly_\w+", rule["expr"]))):
            found[metric].append(rule["alert"])
    return found
