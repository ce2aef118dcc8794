"""The source of alerts and dashboards, docker/monitoring, as the tests import it."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docker" / "monitoring"

sys.path.append(str(FOLDER))  # a folder beside what is rendered from it, not an installed package

from mixin.rules import GROUPS  # noqa: E402
from render import rendered  # noqa: E402

__all__ = ["ALERTS", "FOLDER", "rendered"]

ALERTS = {alert.name: alert for alerts in GROUPS.values() for alert in alerts}
