"""What is measured: every function runs its sides in turn and returns their figures."""

import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  as everybody does

from benchmarks.rounds import Part, interleaved
from benchmarks.spark.processes import own_cpu
from benchmarks.spark.session import to_nowhere
from benchmarks.spark.synthetic import EIGHT
from benchmarks.spark.topics import SEQ_PROPERTY
from orderly.spark.discovering import pin
from orderly.spark.jobs.audit.evidence import message_columns
from orderly.spark.jobs.audit.judging import judge
from orderly.spark.jobs.audit.run import run as run_audit
from orderly.spark.jobs.audit.settings import AuditSettings
from orderly.spark.jobs.output import Output
from orderly.spark.jobs.progress import silent
from orderly.spark.options import ScanOptions
from orderly.spark.reading import RangePulls, read_range
from orderly.spark.sink import write_ordered
from orderly.spark.source import read

NARROW = ("queue_id", "queue_offset", "sharding_key", "seq")
_CPU = "CPU microseconds a row"


def source(session, rows, rounds):
    """Rows from Python beside rows from files."""
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "rows")
        synthetic = session.synthetic(rows, columns=",".join(EIGHT))
        synthetic.write.parquet(path)
        frames = {"source": synthetic, "parquet": session.spark.read.parquet(path)}
        sides = {name: _scan(session, frame, rows) for name, frame in frames.items()}
        values = _measured("source", sides, rounds)
    ratios = {"source_vs_parquet_cpu": ("source", "parquet")}
    return Part("source", f"scan of {rows:,} rows, 8 columns", _CPU, values, ratios)


def topic(session, client, name, rounds):
    """A topic through Spark beside the same rows from files, and the same pulls in one process."""
    options = {"namesrv": client.config.namesrv, "topic": name, "seqProperty": SEQ_PROPERTY}
    ranges = pin(options, client)
    messages = sum(each.messages for each in ranges)

    def rows(names):
        return read(session.spark, ranges, columns=names, **options)

    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "rows")
        rows(None).write.parquet(path)
        copy = session.spark.read.parquet(path)
        sides = {
            "bare pull": lambda: _own(lambda: _pulled(client, ranges), messages),
            "pull and decode": lambda: _own(lambda: _decoded(client, ranges), messages),
            "four columns": _scan(session, rows(NARROW), messages),
            "all columns": _scan(session, rows(None), messages),
            "parquet, four columns": _scan(session, copy.select(*NARROW), messages),
            "parquet, all columns": _scan(session, copy, messages),
        }
        values = _measured("topic", sides, rounds)
    ratios = {
        "topic_vs_parquet_four_cpu": ("four columns", "parquet, four columns"),
        "topic_vs_parquet_all_cpu": ("all columns", "parquet, all columns"),
        "topic_vs_floor_cpu": ("four columns", "pull and decode"),
        "full_row_vs_floor_cpu": ("all columns", "pull and decode"),
        "decode_vs_bare_pull_cpu": ("pull and decode", "bare pull"),
    }
    return Part("topic", f"scan of {messages:,} messages of a topic", _CPU, values, ratios)


def audit(session, rows, rounds):
    """The audit beside a window that finds inversions only; and with a key of half of the rows."""
    walls, found = defaultdict(list), defaultdict(set)

    def side(name, query, *, hot):
        work = partial(query, session, rows, hot=hot)
        return _counting(session, rows, work, found[hot], walls[name])

    sides = {
        "audit": side("audit", _audited, hot="false"),
        "window": side("window", _windowed, hot="false"),
        "audit, hot key": side("audit, hot key", _audited, hot="true"),
        "window, hot key": side("window, hot key", _windowed, hot="true"),
    }
    values = _measured("audit", sides, rounds)
    assert all(len(numbers) == 1 for numbers in found.values()), f"findings differ: {found}"
    inversions = sum(found["false"])
    ratios = {
        "audit_vs_window_cpu": ("audit", "window"),
        "audit_hot_key_cpu": ("audit, hot key", "audit"),
    }
    title = f"audit of {rows:,} rows, {inversions} inversions found by both"
    seconds = {name: times[-rounds:] for name, times in walls.items()}
    hot = {"audit_hot_key_wall": ("audit, hot key", "audit")}
    return (
        Part("audit", title, _CPU, values, ratios),
        Part("audit_wall", title, "seconds", seconds, hot),
    )


def topic_audit(session, client, name, rounds):
    """The audit of a topic as the command does it, beside a window over the same topic."""
    namesrv = client.config.namesrv
    options = {"namesrv": namesrv, "topic": name, "seqProperty": SEQ_PROPERTY}
    messages = sum(each.messages for each in pin(options, client))
    walls, found = defaultdict(list), set()

    settings = AuditSettings(source={"namesrv": namesrv, "topic": name}, seq_property=SEQ_PROPERTY)

    def audited(output=None):
        result = run_audit(session.spark, settings, output)
        session.spark.catalog.clearCache()
        return result.figures.inversions

    def written():
        with tempfile.TemporaryDirectory() as folder, Output(folder) as output:
            return audited(output)

    def windowed():
        rows = session.spark.read.format("rocketmq").options(**options).load()
        return _falls(rows.select(*NARROW))

    queries = {"audit": audited, "audit, tables and report": written, "window": windowed}
    sides = {
        each: _counting(session, messages, query, found, walls[each])
        for each, query in queries.items()
    }
    values = _measured("topic audit", sides, rounds)
    (inversions,) = found
    assert inversions, "nothing was planted"
    title = f"audit of a topic of {messages:,} messages, {inversions} inversions found by both"
    ratios = {
        "topic_audit_vs_window_cpu": ("audit", "window"),
        "written_audit_vs_window_cpu": ("audit, tables and report", "window"),
    }
    seconds = {name: times[-rounds:] for name, times in walls.items()}
    wall = {"topic_audit_vs_window_wall": ("audit", "window")}
    return (
        Part("topic audit", title, _CPU, values, ratios),
        Part("topic audit wall", title, "seconds", seconds, wall),
    )


def sink(session, client, rows, rounds, new_topic):
    """Rows into a topic, each key in order."""
    frame = session.synthetic(rows, columns="sharding_key,seq,body")

    def sent():
        name = new_topic()
        write_ordered(frame, topic=name, order_by="seq", namesrv=client.config.namesrv)
        assert _count(client, name, rows) == rows, "not all rows were stored"

    values = _measured("sink", {"sink": lambda: session.cpu_per_row(sent, rows)}, rounds)
    return Part("sink", f"{rows:,} rows into a topic", _CPU, values, {})


def _count(client, name, rows):
    """How many messages a topic holds; the last ones may become visible some time later."""
    options = {"namesrv": client.config.namesrv, "topic": name}
    deadline = time.monotonic() + 10
    while (stored := sum(each.messages for each in pin(options, client))) != rows:
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return stored


def _measured(part, sides, rounds):
    for side in sides.values():  # compiles what the rounds run
        side()
    return interleaved(part, sides, rounds)


def _counting(session, rows, query, found, walls):
    """A side whose query counts something: notes what it found, and its seconds."""

    def run():
        cost = session.cost(lambda: found.add(query()))
        walls.append(cost.wall)
        return cost.cpu / rows * 1e6

    return run


def _scan(session, frame, rows):
    return lambda: session.cpu_per_row(lambda: to_nowhere(frame), rows)


def _own(work, rows):
    before = own_cpu()
    assert work() == rows
    return (own_cpu() - before) / rows * 1e6


def _pulled(client, ranges):
    return sum(
        end - start
        for each in ranges
        for start, end, _ in RangePulls(client, ScanOptions(NARROW), each, _lost).pieces()
    )


def _decoded(client, ranges):
    scan = ScanOptions(NARROW, SEQ_PROPERTY)
    return sum(len(batch) for each in ranges for batch in read_range(client, scan, each, _lost))


def _lost(loss):
    raise AssertionError(loss)


def _audited(session, rows, *, hot):
    """The whole judgement with evidence, suspects' messages read again; returns the inversions."""
    settings = AuditSettings(source={}, seq_property="seq")

    def again(suspects, _):
        keys = ",".join(sorted(set(suspects["key"].to_pylist())))
        return session.synthetic(
            rows, hot=hot, columns=",".join(message_columns(by_seq=True)), keys=keys
        )

    summaries = session.synthetic(rows, hot=hot, emit="summary")
    judgement = judge(summaries, again, settings, silent, rows)
    session.spark.catalog.clearCache()
    return judgement.figures.inversions


def _windowed(session, rows, *, hot):
    """What a user would write; returns the inversions."""
    return _falls(session.synthetic(rows, hot=hot, columns=",".join(NARROW)))


def _falls(frame):
    order = Window.partitionBy("queue_id", "sharding_key").orderBy("queue_offset")
    return frame.withColumn("before", F.lag("seq").over(order)).where("seq < before").count()
