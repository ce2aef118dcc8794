"""A monitor that does not scan, for what exports its snapshots."""

from dataclasses import dataclass, field

from orderly.monitoring.exporting.source import Exported, Totals
from tests.support.snapshots import AT


@dataclass
class Monitored:
    """What is asked of a monitor; tests set what it says."""

    interval: float = 15.0
    failures: int = 0
    last_success: float | None = None
    last_error: str | None = None
    points: list = field(default_factory=list)

    def status(self):
        return self

    def history(self, group, topic=None):
        return self.points


@dataclass
class Clock:
    """Shows the time it is set to."""

    now: float = AT

    def __call__(self):
        return self.now


class Exporting:
    """All that is needed to serve snapshots: `take` them, set the `clock`, ask `exported`."""

    def __init__(self, *snapshots, **options):
        self.monitor, self.totals, self.clock = Monitored(), Totals(), Clock()
        self.exported = Exported(self.monitor, self.totals, clock=self.clock, **options)
        self.take(*snapshots)

    def take(self, *snapshots):
        for snapshot in snapshots:
            self.totals.take(snapshot)
