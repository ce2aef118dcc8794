"""The exporter's metrics, from its table, and which alerts ask for them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from docsite.markdown import code, prose, terms
from orderly.monitoring.metrics import LEVELS, Labelled, Metric

_RULES = Path(__file__).parents[2] / "docker" / "monitoring" / "rules" / "orderly.yaml"
_ALERTS_PAGE = "../how-to/alerts.md"


def level(name: str) -> str:
    """The metrics of one level: broker, group, topic, queue, itself."""
    return terms((code(metric.name), "<br>".join(_about(metric))) for metric in LEVELS[name])


def _about(metric: Metric[Any] | Labelled[Any]) -> Iterator[str]:
    yield prose(metric.help)
    label = f", by {code(metric.label)}" if isinstance(metric, Labelled) else ""
    asking = [
        f"[{name}]({_ALERTS_PAGE}#{name.lower()})" for name in asked_by().get(metric.name, ())
    ]
    alerts = f"; alerts: {', '.join(asking)}" if asking else ""
    yield f"<small>{metric.kind}{label}{alerts}</small>"


@cache
def asked_by() -> Mapping[str, list[str]]:
    """By metric the names of the alerts whose expressions have it."""
    found: dict[str, list[str]] = defaultdict(list)
    groups = yaml.safe_load(_RULES.read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        for metric in sorted(set(re.findall(r"\borderly_\w+", rule["expr"]))):
            found[metric].append(rule["alert"])
    return found
