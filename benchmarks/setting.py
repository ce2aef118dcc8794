"""What every benchmark shares: arguments, a broker, fresh topics, the printed ratios."""

import argparse
import contextlib
import json
import os
import platform
import statistics
import time
from dataclasses import dataclass, field

from orderly.client import Client
from orderly.testing import EmbeddedBroker


@dataclass
class Setting:
    """One run: the broker it measures on and the size of the work."""

    namesrv: str
    client: Client
    count: int
    size: int
    rounds: int
    _topics: int = field(default=0)

    @property
    def broker_address(self):
        """Address of the (single) broker."""
        return self.client.routes.get(self._any_topic()).brokers[0].master

    def topic(self, queues=8):
        """A fresh topic."""
        self._topics += 1
        name = f"bench-{time.time_ns():x}-{self._topics}"
        self.client.admin.create_topic(name, queues)
        return name

    def _any_topic(self):
        if not hasattr(self, "_probe"):
            self._probe = self.topic(1)
        return self._probe


def main(measure, description):
    """Parse arguments, run `measure(setting)` and print what it returns.

    `measure` returns ({side: [messages per second, …]}, {ratio name: (side, side)}).
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--count", type=int, default=20_000, help="messages per side and round")
    parser.add_argument("--size", type=int, default=128, help="bytes of body")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds")
    parser.add_argument("--namesrv", default="", help="measure there instead of on a local broker")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        namesrv = arguments.namesrv or stack.enter_context(_broker()).namesrv
        client = stack.enter_context(Client(namesrv=namesrv))
        setting = Setting(namesrv, client, arguments.count, arguments.size, arguments.rounds)
        rates, ratios = measure(setting)
    report = _report(setting, rates, ratios)
    print(json.dumps(report) if arguments.json else _as_text(report))


def _broker():
    # The embedded broker starts with the fast-starting compiler only; a long run wants both.
    return EmbeddedBroker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"])


def _report(setting, rates, ratios):
    sides = {
        name: {"median": statistics.median(r), "min": min(r), "max": max(r)}
        for name, r in rates.items()
    }
    return {
        "count": setting.count,
        "body_bytes": setting.size,
        "rounds": setting.rounds,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "messages_per_second": sides,
        **{name: sides[a]["median"] / sides[b]["median"] for name, (a, b) in ratios.items()},
    }


def _as_text(report):
    lines = [
        "{count:,} messages of {body_bytes} bytes, {rounds} interleaved rounds".format(**report),
        f"{'messages per second':24}{'median':>12}{'min':>12}{'max':>12}",
    ]
    for name, side in report["messages_per_second"].items():
        lines.append(f"{name:24}{side['median']:12,.0f}{side['min']:12,.0f}{side['max']:12,.0f}")
    lines += [f"{k:24}{v:12.2f}" for k, v in report.items() if "_vs_" in k]
    return "\n".join(lines)
