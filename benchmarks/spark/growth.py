"""How cost grows with messages and tasks: `python -m benchmarks.spark.growth [--write]`.

One topic of one queue for each size, read by 1, 2 and 4 tasks on a session of two cores. `--write`
puts the table into docs/reference/spark.md, and draws the picture. Ten million messages take 3 GB
of disk.
"""

import argparse
import contextlib
import os
import platform
import statistics
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.rounds import progress
from benchmarks.spark.processes import own_cpu
from benchmarks.spark.session import CORES, Cost, Session, to_nowhere
from benchmarks.spark.topics import SEQ_PROPERTY, fill, large_broker
from orderly.client import Client
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.run import AuditSettings
from orderly.spark.jobs.audit.run import run as audit
from orderly.spark.source import read

FOUR = ("queue_id", "queue_offset", "sharding_key", "seq")
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "spark.md"
PICTURE = ROOT / "docs" / "pictures" / "spark-sizes.svg"
BEGIN = "<!-- sizes: begin; written by `python -m benchmarks.spark.growth --write` -->"
END = "<!-- sizes: end -->"


@dataclass(frozen=True)
class Measured:
    """One job on one topic: medians of its rounds, and the largest worker's peak."""

    job: str
    messages: int
    tasks: int
    cpu: float
    wall: float
    worker_mib: float

    @property
    def rows_a_second(self):
        return self.messages / self.wall

    @property
    def rows_a_core(self):
        """Rows for each second of CPU."""
        return self.messages / self.cpu


def main():
    """Measure, print, and write if asked."""
    arguments = _parsed()
    session = Session()
    with contextlib.ExitStack() as stack:
        stack.callback(session.stop)
        namesrv = arguments.namesrv or stack.enter_context(large_broker()).namesrv
        client = stack.enter_context(Client(namesrv=namesrv))
        found = list(_measured(session, client, arguments))
    table = as_markdown(found)
    print(table)
    if arguments.write:
        write(table)
        draw(found)


def _parsed():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--messages", default="100000,1000000,10000000", help="sizes, by commas")
    parser.add_argument("--tasks", default="1,2,4", help="by commas")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--namesrv", default="", help="measure there instead of on a local broker")
    parser.add_argument("--write", action="store_true", help="into the page and its picture")
    return parser.parse_args()


def _measured(session, client, arguments):
    for size in map(int, arguments.messages.split(",")):
        name = f"sizes-{os.getpid()}-{size}"
        fill(client, name, size, queues=1)
        options = {"namesrv": client.config.namesrv, "topic": name, "seqProperty": SEQ_PROPERTY}
        ranges = pin(options, client)
        for tasks in map(int, arguments.tasks.split(",")):
            given = options | {"minPartitions": str(tasks)}
            for job, work in _jobs(session, ranges, given).items():
                costs = [_cost(session, work) for _ in range(arguments.rounds + 1)][1:]
                found = Measured(
                    job,
                    size,
                    tasks,
                    statistics.median(cost.cpu for cost in costs),
                    statistics.median(cost.wall for cost in costs),
                    session.worker_peak_mib(),
                )
                progress(f"{found}, {found.rows_a_second:,.0f} rows/s")
                yield found


def _jobs(session, ranges, options):
    """What is measured, by name."""

    def to_parquet():
        with tempfile.TemporaryDirectory() as folder:
            rows = read(session.spark, ranges, **options)
            rows.write.parquet(str(Path(folder) / "rows"))

    def judged():
        source = {name: text for name, text in options.items() if name != "seqProperty"}
        result = audit(session.spark, AuditSettings(source, SEQ_PROPERTY))
        assert result.figures.judged == sum(each.messages for each in ranges), result.headline
        session.spark.catalog.clearCache()

    return {
        "four columns": lambda: to_nowhere(read(session.spark, ranges, columns=FOUR, **options)),
        "all columns": lambda: to_nowhere(read(session.spark, ranges, **options)),
        "to Parquet": to_parquet,
        "audit": judged,
    }


def _cost(session, work):
    """Of the JVM and the workers; what this process does is small."""
    before = own_cpu()
    cost = session.cost(work)
    return Cost(cost.cpu - (own_cpu() - before), cost.wall)


# --- the page and its picture ---------------------------------------------------------------------


def as_markdown(found):
    """The table, and what was measured on what."""
    lines = [
        "| job | messages | tasks | rows a second | rows for a second of CPU | CPU, µs a row |",
        "|---|---|---|---|---|---|",
        *(
            f"| {it.job} | {it.messages:,} | {it.tasks} | {_round(it.rows_a_second):,} |"
            f" {_round(it.rows_a_core):,} | {it.cpu / it.messages * 1e6:.1f} |"
            for it in sorted(found, key=lambda it: (it.job, it.messages, it.tasks))
        ),
    ]
    load = os.getloadavg()[1]
    lines.append(
        f"\nMeasured {datetime.now(UTC):%Y-%m-%d} with messages of 257 bytes on one local broker"
        f" that gives large pulls, Python {platform.python_version()}, `local[{CORES}]` on a"
        f" machine of {os.cpu_count()} cores that the broker shares (load of the last five minutes"
        f" {load:.1f}: rates on a busy machine are lower than the CPU allows). The largest Python"
        f" worker took {max(it.worker_mib for it in found):.0f} MiB."
    )
    return "\n".join(lines)


def _round(number):
    """Two digits: more would say what the next run doesn't."""
    digits = max(len(str(int(number))) - 2, 0)
    return int(round(number, -digits))


def write(table):
    """Put the table between the marks of the page."""
    before, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, BEGIN
    assert end, END
    PAGE.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}", "utf-8")


def draw(found):
    """CPU a row over the number of messages, a line for each job; and rows a second over tasks."""
    import matplotlib as mpl  # noqa: PLC0415 - optional: extra `monitoring`

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    plt.rcParams["svg.hashsalt"] = "sizes"  # the same figures give the same file
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    most = max(it.messages for it in found)
    for job in dict.fromkeys(it.job for it in found):
        mine = [it for it in found if it.job == job]
        sizes = [it for it in mine if it.tasks == max(each.tasks for each in mine)]
        left.plot([it.messages for it in sizes], [it.cpu / it.messages * 1e6 for it in sizes],
                  marker="o", label=job)  # fmt: skip
        tasks = [it for it in mine if it.messages == most]
        right.plot([it.tasks for it in tasks], [it.rows_a_second / 1000 for it in tasks],
                   marker="o", label=job)  # fmt: skip
    left.set(xscale="log", yscale="log", xlabel="messages", title="CPU, µs a row")
    right.set(xlabel="tasks, on 2 cores", title=f"thousand rows a second, of {most:,}", ylim=0)
    right.set_xticks(sorted({it.tasks for it in found}))
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    left.legend(fontsize=8, frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
