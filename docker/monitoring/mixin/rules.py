"""Writes the alerts as a rules file of Prometheus (2.42 or newer: keep_firing_for)."""

from __future__ import annotations

from typing import Any

import yaml

from mixin.alert import Alert
from mixin.consumers import CONSUMERS, SET_ASIDE
from mixin.delivery import DELIVERY, OFFSETS
from mixin.thresholds import PAGE, RUNBOOK
from mixin.watching import WATCHING

HEADER = "# Rendered by docker/monitoring/render.py from mixin/: change it there.\n"
GROUPS = {
    "orderly-delivery": DELIVERY,
    "orderly-consumers": CONSUMERS,
    "orderly-set-aside": SET_ASIDE,
    "orderly-offsets": OFFSETS,
    "orderly-watching": WATCHING,
}
# Somebody copies the command, and follows the link: "?" stands for what no name of RocketMQ's has.
_GROUP = 'reReplaceAll "[^%|a-zA-Z0-9_-]" "?" $labels.group'
EXPLAIN = f" `orderly backlog explain '{{{{ {_GROUP} }}}}'` names the queues and says why."
GROUP_PAGE = f'{PAGE}/?group={{{{ reReplaceAll "%" "%25" ({_GROUP}) }}}}'


def rules() -> str:
    """The rules file."""
    groups = [
        {"name": name, "rules": [_rule(alert) for alert in alerts]}
        for name, alerts in GROUPS.items()
    ]
    return HEADER + yaml.safe_dump({"groups": groups}, sort_keys=False, width=1000)


def _rule(alert: Alert) -> dict[str, Any]:
    about_a_group = "$labels.group" in alert.summary
    return {
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.wait,
        "keep_firing_for": alert.keep,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description + (EXPLAIN if about_a_group else ""),
            "runbook_url": f"{RUNBOOK}#{alert.name.lower()}",
            **({"page_url": GROUP_PAGE} if about_a_group else {}),
        },
    }
