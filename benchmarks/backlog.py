"""Scans of a cluster against RocketMQ's own tool: `python -m benchmarks.backlog --json`.

One broker with the fixture of `backlog_fixture`; scans, `mqadmin consumerProgress` and cold runs of
`orderly backlog check` alternate in one run. The scanning process is one of its own, so that
its memory is its own; it keeps a history of 60 scans before its memory is read.
"""

import argparse
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.backlog_fixture import FULL, Size, large_broker, make, tell
from benchmarks.rounds import spread
from orderly.client import Client
from orderly.monitoring.backlog.evaluate import Backlog
from orderly.monitoring.backlog_json import Detail
from orderly.monitoring.collecting.details import Details
from orderly.monitoring.collecting.scan import Collector, ScanSettings
from orderly.monitoring.collecting.survey import Observer
from orderly.monitoring.metrics import metrics_of
from orderly.testing.java import find_java
from tests.support.java import MQADMIN, broker_classpath, quiet_options

POINTS = 60  # scans a history holds
_RECEIVED = 128  # where Linux's struct tcp_info has tcpi_bytes_received
_MIB = 1024 * 1024


class Scanner:
    """Scans and judges, in this process.

    Args:
        namesrv: of the broker.
        details: ask about members, first messages and the like, too.
        cold_safe: see `ScanSettings`.
    """

    def __init__(self, namesrv, *, details=False, cold_safe=False):
        self._client = Client(namesrv=namesrv)
        self._collector = Collector(self._client, settings=ScanSettings(cold_safe=cold_safe))
        more = Details(self._collector.pipeline) if details else None
        self._observer = Observer(self._collector, more)
        self._backlog = Backlog()
        self.snapshot = None

    def scan(self):
        """Scan and judge once; returns seconds, requests and bytes received."""
        began, before = time.perf_counter(), self._received()
        self.snapshot = self._backlog.take(self._observer.look(self.snapshot))
        return {
            "seconds": time.perf_counter() - began,
            "rpcs": sum(self.snapshot.requests.values()),
            "bytes": self._received() - before,
        }

    def _received(self):
        addresses = self._collector.round.masters.values()
        found = (self._client.connections.connected(address) for address in addresses)
        return sum(received(connection._socket) for connection in found if connection)  # noqa: SLF001

    def close(self):
        """Close its connections."""
        self._client.close()


def received(sock):
    """Bytes that came in over a connection."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("Q", info, _RECEIVED)[0]


def resident():
    """This process's memory, and the most it ever was, in MiB."""
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return tuple(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def scan_when_told(namesrv):
    """The scanning process: a scan for each line on stdin, its figures as a line on stdout."""
    scanners = {
        "scan": Scanner(namesrv),
        "details": Scanner(namesrv, details=True),
        "cold_safe": Scanner(namesrv, cold_safe=True),
    }
    for line in sys.stdin:
        what = line.strip()
        answer = rendered(scanners["scan"]) if what == "render" else scanners[what].scan()
        print(json.dumps(answer), flush=True)


def remember(namesrv):
    """A process that does nothing but scan, until its history is full; its figures on stdout."""
    scanner = Scanner(namesrv)
    figures = [scanner.scan() for _ in range(POINTS)]
    rss, peak = resident()
    rows = sum(group.sums.queues for group in scanner.snapshot.groups.values())
    answer = {
        "rss_mib": rss,
        "peak_mib": peak,
        "rows": rows,
        "seconds": [it["seconds"] for it in figures],
    }
    print(json.dumps(answer), flush=True)


def rendered(scanner):
    """How long all series of the last snapshot take to write."""
    began = time.perf_counter()
    text = metrics_of(scanner.snapshot, Detail.QUEUE).text
    seconds = time.perf_counter() - began
    series = sum(not line.startswith("#") for line in text.splitlines())
    return {"seconds": seconds, "series": series, "mib": len(text) / _MIB}


def child(namesrv, mode, **options):
    """This program again, in one of its other modes."""
    command = [sys.executable, "-m", "benchmarks.backlog", "--namesrv", namesrv, "--mode", mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


class Asked:
    """The scanning process, seen from outside."""

    def __init__(self, namesrv):
        self._process = child(namesrv, "scan", stdin=subprocess.PIPE)

    def __call__(self, what):
        """Let it scan once; returns the figures."""
        print(what, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def end(self):
        """Let it end."""
        self._process.stdin.close()
        self._process.wait(30)


def mqadmin_seconds(namesrv):
    """`mqadmin consumerProgress` for all groups, with the JVM's own defaults."""
    with tempfile.TemporaryDirectory() as directory:
        class_path = os.pathsep.join([directory, broker_classpath()])
        options = quiet_options(Path(directory))
        command = [find_java(), *options, "-cp", class_path, MQADMIN, "consumerProgress"]
        began = time.perf_counter()
        done = subprocess.run(
            [*command, "-n", namesrv],
            check=True, capture_output=True, text=True, timeout=300, cwd=directory,
        )  # fmt: skip
        seconds = time.perf_counter() - began
    assert "Exception" not in done.stderr, done.stderr
    assert len(done.stdout.splitlines()) > 1, "it listed no group"
    return seconds


def check_seconds(namesrv, group):
    """A cold `orderly backlog check` of one group, as cron runs it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [Path(sys.executable).with_name("orderly"), "backlog", "check", group]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "--namesrv", namesrv],
        check=False, capture_output=True, text=True, timeout=60, env=environment,
    )  # fmt: skip
    assert done.returncode == 2, done  # nobody is online
    return time.perf_counter() - began


def measure(namesrv, group, rounds):
    """All figures."""
    asked = Asked(namesrv)
    for what in ("scan", "details", "cold_safe"):
        asked(what)  # the first one connects, and a broker compiles
    check_seconds(namesrv, group)
    found = {name: [] for name in ("scan", "details", "cold_safe", "mqadmin", "check", "render")}
    for number in range(rounds):
        for name in ("scan", "details", "cold_safe"):
            found[name] += [asked(name) for _ in range(4)]
        found["render"].append(asked("render"))
        found["mqadmin"].append(mqadmin_seconds(namesrv))
        found["check"].append(check_seconds(namesrv, group))
        tell(f"round {number + 1} of {rounds}: mqadmin {found['mqadmin'][-1]:.1f} s")
    asked.end()
    with child(namesrv, "remember") as process:
        remembered = json.loads(process.stdout.readline())
    return figures(found, remembered)


def figures(found, remembered):
    """What is told of it."""
    scans = [it["seconds"] for it in found["scan"]]
    return {
        "scan_p95_seconds": percentile(scans, 95),
        "scan_seconds": spread(scans),
        "scan_with_details_seconds": spread(it["seconds"] for it in found["details"]),
        "cold_safe_seconds": spread(it["seconds"] for it in found["cold_safe"]),
        "mqadmin_seconds": spread(found["mqadmin"]),
        "mqadmin_vs_scan": statistics.median(found["mqadmin"]) / statistics.median(scans),
        "check_seconds": spread(found["check"]),
        "rpcs": found["scan"][-1]["rpcs"],
        "rpcs_with_details": max(it["rpcs"] for it in found["details"]),
        "mib_received": found["scan"][-1]["bytes"] / _MIB,
        "rows": remembered["rows"],
        "rss_mib": remembered["rss_mib"],
        "peak_mib": remembered["peak_mib"],
        "render_seconds": spread(it["seconds"] for it in found["render"]),
        "render_series": found["render"][-1]["series"],
        "render_mib": found["render"][-1]["mib"],
    }


def percentile(values, share):
    """The value below which `share` per cent are."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * share // 100)]


def show(found):
    """The figures for people."""
    for name, value in found.items():
        if isinstance(value, dict):
            value = f"{value['median']:.3f} [{value['min']:.3f}..{value['max']:.3f}]"  # noqa: PLW2901
        elif isinstance(value, float):
            value = f"{value:.3f}"  # noqa: PLW2901
        print(f"{name:28} {value}")


def main():
    """Make the fixture, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a small fixture, two rounds")
    parser.add_argument("--namesrv", help=argparse.SUPPRESS)
    parser.add_argument("--mode", choices=["scan", "remember"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.mode:
        (scan_when_told if arguments.mode == "scan" else remember)(arguments.namesrv)
        return
    size, rounds = (Size(), 2) if arguments.quick else (FULL, arguments.rounds)
    with large_broker() as broker, Client(namesrv=broker.namesrv) as client:
        fixture = make(client, size, tell=tell)
        found = measure(broker.namesrv, min(fixture.consumed), rounds)
    print(json.dumps(found, indent=2)) if arguments.json else show(found)


if __name__ == "__main__":
    main()
