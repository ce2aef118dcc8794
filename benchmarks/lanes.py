"""Lanes (order="key") beside order by queue and beside the Java client, on one broker.

    python -m benchmarks.lanes                      # io, p99, waiting, cpu, noop, async; 35 minutes
    python -m benchmarks.lanes --json --only io,noop
    python -m benchmarks.lanes --quick              # a fifth of the messages, one round

Sides alternate within each round. A ratio is taken within each round; its median counts.
"""

import contextlib
import json
import os
import platform

from benchmarks.lane_async import many_keys
from benchmarks.lane_latency import p99
from benchmarks.lane_rates import cpu, idle, io
from benchmarks.lane_waiting import waiting
from benchmarks.parts import arguments, long_running_broker, tables
from benchmarks.setting import Setting
from orderly.client import Client

PARTS = {"io": io, "p99": p99, "waiting": waiting, "cpu": cpu, "noop": idle, "async": many_keys}
BODY = 128
QUICK = 0.2  # of the messages

AT_LEAST = {"lanes_vs_java_orderly": 10.0, "noop_lanes_vs_queue": 0.85}
BELOW = {"other_keys_p99_while_one_fails": 1.05, "other_keys_p99_while_10000_wait": 1.05}
ASYNC_RATE = 2_200.0  # messages a second of io's async_lanes


def main():
    given = arguments(__doc__.splitlines()[0], PARTS)
    with contextlib.ExitStack() as stack:
        namesrv = given.namesrv or stack.enter_context(long_running_broker()).namesrv
        client = stack.enter_context(Client(namesrv=namesrv))
        rounds, share = (1, QUICK) if given.quick else (given.rounds, 1.0)
        setting = Setting(namesrv, client, 0, BODY, rounds)
        parts = [part for name in given.only for part in PARTS[name](setting, share)]
    report = _report(rounds, parts)
    print(json.dumps(report, indent=2) if given.json else _as_text(report))


def _report(rounds, parts):
    ratios = {name: s for part in parts for name, s in part.ratio_spreads().items()}
    described = {
        part.name: {"title": part.title, "unit": part.unit, "sides": part.sides()} for part in parts
    }
    medians = {name: spread["median"] for name, spread in ratios.items()}
    return {
        "rounds": rounds,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
        "parts": described,
        "ratios": ratios,
        "goals": _goals(medians, described),
        **medians,
    }


def _goals(medians, parts):
    """Goal -> whether it is met, of those that were measured."""
    goals = {
        f"{name} >= {least:g}": medians[name] >= least
        for name, least in AT_LEAST.items()
        if name in medians
    }
    goals |= {
        f"{name} < {most:g}": medians[name] < most
        for name, most in BELOW.items()
        if name in medians
    }
    if "io" in parts:
        rate = parts["io"]["sides"]["async_lanes"]["median"]
        goals[f"async_lanes >= {ASYNC_RATE:,.0f} messages/s"] = rate >= ASYNC_RATE
    return goals


def _as_text(report):
    lines = ["{rounds} interleaved rounds, {cores} cores, load {load:.1f}".format(**report)]
    return "\n".join([*lines, *tables(report)])


if __name__ == "__main__":
    main()
