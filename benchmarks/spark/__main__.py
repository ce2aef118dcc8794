"""The Spark pipeline against its floors: `python -m benchmarks.spark [--json] [--only topic,…]`.

Sides alternate within one run. CPU seconds count, of Spark's JVM, its Python workers and this
process, not the broker's; on a machine that does other work they say more than seconds do.
"""

import argparse
import contextlib
import itertools
import json
import os
import platform
import sys

from benchmarks.rounds import spread
from benchmarks.spark.decoding import decoding
from benchmarks.spark.parts import audit, sink, source, topic, topic_audit
from benchmarks.spark.session import Session
from benchmarks.spark.topics import fill, large_broker
from orderly.client import Client

PARTS = ("decode", "source", "audit", "topic", "topic-audit", "sink")
GOALS = {
    "source_vs_parquet_cpu": 1.3,
    "topic_vs_parquet_four_cpu": 2.0,
    "topic_vs_parquet_all_cpu": 2.0,
    "topic_vs_floor_cpu": 1.5,
    "audit_vs_window_cpu": 1.0,
    "topic_audit_vs_window_cpu": 1.0,
    "audit_hot_key_wall": 1.3,
    "sink_us_per_row": 6.0,
    "worker_rss_mib": 300.0,
}


def main():
    """Measure what is asked for and print it."""
    arguments = _parsed()
    wanted = arguments.only.split(",")
    parts, figures = [], {}
    if "decode" in wanted:
        parts.append(decoding(arguments.rounds))
    if set(wanted) - {"decode"}:
        with contextlib.ExitStack() as stack:
            session = Session()
            stack.callback(session.stop)
            parts += _without_broker(session, wanted, arguments)
            if {"topic", "topic-audit", "sink"} & set(wanted):
                parts += _with_broker(session, stack, wanted, arguments)
            figures["worker_rss_mib"] = session.worker_peak_mib()
    report = _report(parts, figures, arguments)
    print(json.dumps(report) if arguments.json else _as_text(report))


def _without_broker(session, wanted, arguments):
    if "source" in wanted:
        yield source(session, arguments.rows, arguments.rounds)
    if "audit" in wanted:
        yield from audit(session, arguments.rows, arguments.rounds)


def _with_broker(session, stack, wanted, arguments):
    namesrv = arguments.namesrv or stack.enter_context(large_broker()).namesrv
    client = stack.enter_context(Client(namesrv=namesrv))
    numbers = itertools.count(1)

    def new_topic():
        name = f"bench-sink-{os.getpid()}-{next(numbers)}"
        client.admin.create_topic(name, 8)
        return name

    if {"topic", "topic-audit"} & set(wanted):
        name = f"bench-{os.getpid()}"
        fill(client, name, arguments.messages)
    if "topic" in wanted:
        yield topic(session, client, name, arguments.rounds)
    if "topic-audit" in wanted:
        yield from topic_audit(session, client, name, arguments.rounds)
    if "sink" in wanted:
        yield sink(session, client, arguments.messages, arguments.rounds, new_topic)


def _parsed():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, by commas")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of the synthetic source")
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the topic")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--namesrv", default="", help="measure there instead of on a local broker")
    return parser.parse_args()


def _report(parts, figures, arguments):
    ratios = {name: told for part in parts for name, told in part.ratio_spreads().items()}
    for part in parts:
        if part.name == "sink":
            ratios["sink_us_per_row"] = spread(part.values["sink"])
    return {
        "rounds": arguments.rounds,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "parts": [
            {"name": part.name, "title": part.title, "unit": part.unit, "sides": part.sides()}
            for part in parts
        ],
        "ranges": ratios,
        **{name: told["median"] for name, told in ratios.items()},
        **figures,
    }


def _as_text(report):
    lines = []
    for part in report["parts"]:
        lines.append(f"\n{part['title']}, {part['unit']}: median [range]")
        lines += [f"  {name:30}{_range(told)}" for name, told in part["sides"].items()]
    lines.append("")
    for name, told in report["ranges"].items():
        lines.append(f"{name:32}{_range(told)}{_goal(name)}")
    if "worker_rss_mib" in report:
        lines.append(
            f"{'worker_rss_mib':32}{report['worker_rss_mib']:8.0f}{_goal('worker_rss_mib')}"
        )
    return "\n".join(lines)


def _range(told):
    return f"{told['median']:8.2f} [{told['min']:.2f}-{told['max']:.2f}]"


def _goal(name):
    return f"  (goal {GOALS[name]:g})" if name in GOALS else ""


if __name__ == "__main__":
    sys.exit(main())
