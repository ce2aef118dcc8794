"""Writes alerts.yaml: the alerts of docker/monitoring, for the Prometheus operator.

    python examples/kubernetes/render_alerts.py

A test compares. What the alerts mean and what to do then: docs/how-to/alerts.md.
"""

from __future__ import annotations

from pathlib import Path

import yaml

HERE = Path(__file__).parent
RULES = HERE.parents[1] / "docker" / "monitoring" / "rules" / "orderly.yaml"
HEADER = "# Rendered by render_alerts.py from docker/monitoring/rules: change it there.\n"


def rendered() -> str:
    """The text of alerts.yaml."""
    labels = {"app.kubernetes.io/part-of": "orderly"}  # or what your operator selects rules by
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "orderly", "labels": labels},
        "spec": yaml.safe_load(RULES.read_text(encoding="utf-8")),
    }
    return HEADER + yaml.safe_dump(rule, sort_keys=False, width=1000)


if __name__ == "__main__":
    (HERE / "alerts.yaml").write_text(rendered(), encoding="utf-8")
