"""What consuming costs with more processes, queues, keys and parked keys, and their memory.

    python -m benchmarks.scale [--json]                 # all parts; 15 minutes
    python -m benchmarks.scale --only processes,keys    # of processes, queues, keys, memory
    python -m benchmarks.scale --quick                  # a tenth of the messages, one round

Every consumer is a process of its own (`scale_member`) with a handler that does nothing, on one
broker, in a new group; measured between 10 and 90 % of its backlog. Sides alternate within each
round, and ratios are taken within each round. "Flat" compares CPU, not rates: the broker shares the
cores.
"""

import contextlib
import json
import os
import platform

from benchmarks.parts import arguments, long_running_broker, tables
from benchmarks.rounds import spread
from benchmarks.scale_memory import memory
from benchmarks.scale_parts import keys, processes, queues
from benchmarks.setting import Setting
from orderly.client import Client

PARTS = {"processes": processes, "queues": queues, "keys": keys, "memory": memory}
BODY = 128
QUICK = 0.1  # of the messages
FLAT = 1.2  # at most so many times the CPU of a message in the smallest setting
FASTER = {"two_processes_vs_one": 1.7}


def main():
    given = arguments(__doc__.splitlines()[0], PARTS)
    rounds, share = (1, QUICK) if given.quick else (given.rounds, 1.0)
    with contextlib.ExitStack() as stack:
        namesrv = given.namesrv or stack.enter_context(long_running_broker()).namesrv
        client = stack.enter_context(Client(namesrv=namesrv))
        setting = Setting(namesrv, client, 0, BODY, rounds)
        loads = [os.getloadavg()[0]]
        parts = []
        for name in given.only:
            parts += PARTS[name](setting, share)
            loads.append(os.getloadavg()[0])
    report = _report(rounds, parts, loads)
    print(json.dumps(report, indent=2) if given.json else _as_text(report))


def _report(rounds, parts, loads):
    ratios = {name: each for part in parts for name, each in part.ratio_spreads().items()}
    medians = {name: each["median"] for name, each in ratios.items()}
    return {
        "rounds": rounds,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load": spread(loads),
        "parts": {p.name: {"title": p.title, "unit": p.unit, "sides": p.sides()} for p in parts},
        "ratios": ratios,
        "goals": _goals(medians),
        **medians,
    }


def _goals(medians):
    """Goal -> whether it is met, of those that were measured."""
    flat = {f"{n} <= {FLAT}": m <= FLAT for n, m in medians.items() if n.endswith("_cpu")}
    faster = {f"{n} >= {g}": medians[n] >= g for n, g in FASTER.items() if n in medians}
    return faster | flat


def _as_text(report):
    lines = [
        "{rounds} interleaved rounds, {cores} cores".format(**report),
        "load {median:.1f} [{min:.1f} to {max:.1f}]".format(**report["load"]),
    ]
    return "\n".join([*lines, *tables(report)])


if __name__ == "__main__":
    main()
