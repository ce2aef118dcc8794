"""Logs of messages with anything wrong in them, and what an audit must find, by brute force."""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pyarrow as pa

from orderly.model import MessageQueue
from orderly.spark.columns import arrow_schema
from orderly.spark.jobs.audit.evidence import message_columns
from orderly.spark.summary import SCHEMA, needed, summarize

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)
NAMES = tuple(dict.fromkeys((*message_columns(by_seq=True), *needed("seq"), *needed(""))))
NUMBERS = [*range(9), 2**18 - 1, 2**18, 2**18 + 1, 2**62, -(2**62), None]


def log(topic, draw, size):
    """A log of two keys in up to three queues; the numbers mostly rise.

    Offsets, times and numbers lie so far apart that blocks of `with_before` end between them.
    """
    at, rising = BEGIN, defaultdict(int)
    offsets, places, rows = defaultdict(int), defaultdict(int), []
    for number in range(size):
        key = draw.choice("xxy") if draw.random() < 0.95 else None
        rising[key] += 1
        seq = rising[key] if draw.random() < 0.7 else draw.choice(NUMBERS)
        broker, queue = draw.choice((("a", 0),) * draw.choice((1, 9)) + (("a", 1), ("b", 0)))
        at += timedelta(milliseconds=draw.choice((0, 1, 40_000)))
        born = draw.choice((BEGIN, BEGIN, at - timedelta(milliseconds=draw.choice((0, 5, 50_000)))))
        offsets[broker, queue] += draw.choice((1, 1, 100_000))
        places[broker] += 100
        rows.append(
            {
                "topic": topic, "broker": broker, "queue_id": queue,
                "queue_offset": offsets[broker, queue], "sharding_key": key, "seq": seq,
                "msg_id": f"m{number}", "uniq_key": draw.choice(["u1", "u2", "u3", None]),
                "born_ts": born, "store_ts": at, "commitlog_offset": places[broker],
                "attempt": draw.choice([None, None, 2, 3]), "body_sum": draw.choice([1, 1, 2]),
            }
        )  # fmt: skip
    return rows


def logs(scenarios, seed=1):
    """Many, each a topic of its own."""
    draw = random.Random(seed)
    return [row for n in range(scenarios) for row in log(f"t{n}", draw, draw.randint(1, 14))]


def table(rows):
    """The messages as the source reads them."""
    return pa.Table.from_pylist(rows, schema=arrow_schema(NAMES))


def summaries(rows, seq_property="seq", chunk=3, seed=2):
    """Their summaries in any order, of chunks of so many messages of a queue."""
    queues = defaultdict(list)
    for row in rows:
        queues[MessageQueue(row["topic"], row["broker"], row["queue_id"])].append(row)
    found = [
        summary
        for queue, mine in queues.items()
        for summary in summarize(
            queue, table(mine).to_batches(max_chunksize=1), seq_property=seq_property, chunk=chunk
        )
    ]
    random.Random(seed).shuffle(found)
    return pa.Table.from_batches(found, schema=SCHEMA)


def wrong(rows, *, gaps=True):
    """All evidence: {(kind, topic, key, message id, id before, distance, *kind of repeat)}.

    The kind of a repeat: whether it has the same id, is a repeated send, is adjacent.
    """
    keys = defaultdict(list)
    for row in rows:
        if row["sharding_key"] is not None and row["seq"] is not None:
            keys[row["topic"], row["sharding_key"]].append(row)
    return {line for mine in keys.values() for line in _of_key(mine, gaps=gaps)}


def _stored(row):
    return (row["store_ts"], row["broker"], row["commitlog_offset"])


def _queue(row):
    return row["broker"], row["queue_id"]


def _of_key(mine, *, gaps):
    originals, once = {}, []
    for row in sorted(mine, key=_stored):
        if row["seq"] in originals:
            yield _line("repeat", row, originals[row["seq"]], None, *_kind_of_repeat(row, mine,
                        originals[row["seq"]]))  # fmt: skip
        else:
            originals[row["seq"]] = row
            once.append(row)
    for queue in {_queue(row) for row in once}:
        here = sorted((r for r in once if _queue(r) == queue), key=lambda r: r["queue_offset"])
        for before, after in pairwise(here):
            if after["seq"] < before["seq"]:
                yield _line("inversion", after, before, before["seq"] - after["seq"])
    for before, after in pairwise(once):
        later = after["broker"] == before["broker"] or after["store_ts"] > before["store_ts"]
        if _queue(after) != _queue(before) and after["seq"] < before["seq"] and later:
            yield _line("across", after, before, before["seq"] - after["seq"])
    for low, high in pairwise(sorted(once, key=lambda row: row["seq"])):
        if gaps and high["seq"] - low["seq"] > 1:
            yield _line("gap", high, low, high["seq"] - low["seq"] - 1)


def _kind_of_repeat(row, mine, original):
    here = sorted((r for r in mine if _queue(r) == _queue(row)), key=lambda r: r["queue_offset"])
    place = here.index(row)
    adjacent = place > 0 and here[place - 1]["seq"] == row["seq"]
    same_id = row["uniq_key"] is not None and row["uniq_key"] == original["uniq_key"]
    repeated_send = any(_repeats(row, before) for before in here[:place])
    return same_id, repeated_send, adjacent


def _repeats(row, before):
    """Whether it is a copy of the other, and one of the two is marked."""
    same = all(row[name] == before[name] for name in ("uniq_key", "born_ts", "body_sum"))
    return same and row["uniq_key"] is not None and (row["attempt"] or before["attempt"])


def _line(kind, after, before, distance, same_id=None, repeated_send=None, adjacent=None):
    names = (kind, after["topic"], after["sharding_key"], after["msg_id"], before["msg_id"])
    how = (same_id, repeated_send and bool(repeated_send), adjacent)
    return (*names, distance and min(distance, 2**63 - 1), *how)


def lines(evidence):
    """Evidence, an Arrow table, in the same form, as a list."""
    return [
        (row["kind"], row["topic"], row["key"], row["message"]["msg_id"], row["before"]["msg_id"],
         row["distance"], row["same_id"], row["repeated_send"], row["adjacent"])
        for row in evidence.to_pylist()
    ]  # fmt: skip
