"""What is told of keys and their messages is what brute force says, over hundreds of logs."""

from collections import Counter
from datetime import timedelta

import pytest

from orderly.spark.jobs.audit.evidence import DOTS, PICTURES, Spans, look_at, message_columns
from orderly.spark.jobs.audit.merging import merge, worst
from tests.support.logs import BEGIN, lines, logs, summaries, table, wrong

ROWS = logs(250)
ALWAYS = Spans(0, 10**15)


def judged(rows, *, gaps=True, chunk=3, spans=ALWAYS):
    """Merged summaries, and evidence of the suspects among them."""
    merged = merge(summaries(rows, chunk=chunk), by_seq=True, gaps=gaps, look_at_messages=10**9)
    messages = table(rows).select(message_columns(by_seq=True))
    messages = messages.rename_columns({"sharding_key": "key"})
    suspects = merged.keys.filter(merged.keys["suspect"])
    return merged, look_at(messages, suspects, spans, by_seq=True, gaps=gaps)


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("gaps", [True, False])
def test_everything_wrong_is_found_exactly_and_nothing_else(seed, gaps):
    rows = logs(100, seed)
    _, found = judged(rows, gaps=gaps)
    expected = wrong(rows, gaps=gaps)
    assert Counter(lines(found.lines)) == Counter(expected)
    assert len({line[0] for line in expected}) == 3 + gaps


def test_each_key_and_queue_and_time_has_its_counts():
    merged, found = judged(ROWS, spans=Spans(0, 1))
    names = {"inversions": "inversion", "across": "across", "repeats": "repeat", "gaps": "gap"}
    by_key = Counter((line[0], line[1], line[2]) for line in wrong(ROWS))
    keys = found.keys.to_pylist()
    assert {(row["topic"], row["key"]) for row in keys} >= {line[1:3] for line in wrong(ROWS)}
    for row in keys:
        counts = {name: by_key[kind, row["topic"], row["key"]] for name, kind in names.items()}
        assert {name: row[name] for name in names} == counts
    queues = found.queues.to_pylist()
    assert sum(row[name] for row in queues for name in names) == by_key.total()
    assert sum(row["messages"] for row in merged.queues.to_pylist()) == len(ROWS)
    assert sum(row["keyless"] for row in merged.queues.to_pylist()) == sum(
        row["sharding_key"] is None for row in ROWS
    )
    stored = {row["msg_id"]: row["store_ts"].timestamp() * 1000 for row in ROWS}
    told = {(row["start"], row["kind"]): row["count"] for row in found.times.to_pylist()}
    ids = {(row["topic"], row["msg_id"]): row for row in ROWS}
    times = Counter(
        (round(ids[line[1], line[3]]["store_ts"].timestamp() * 1000), line[0])
        for line in wrong(ROWS)
    )
    assert stored
    assert told == times


def test_the_sums_do_not_depend_on_the_chunks():
    cut, whole = (
        sorted(judged(ROWS, chunk=chunk)[0].keys.to_pylist(), key=repr) for chunk in (1, len(ROWS))
    )
    assert cut == whole


def test_a_difference_that_does_not_fit_is_the_greatest_number_there_is():
    low, high, most = -(2**63), 2**63 - 1, 2**63 - 1
    rows = [
        ROWS[0]
        | {"topic": "t", "broker": "a", "queue_id": 0, "queue_offset": place, "sharding_key": "x"}
        | {"seq": seq, "msg_id": f"m{place}", "commitlog_offset": place}
        for place, seq in enumerate((0, high, low))
    ]
    found = judged(rows)[1]
    assert Counter(lines(found.lines)) == Counter(wrong(rows))
    assert {row["distance"] for row in found.lines.to_pylist()} == {most, most - 1}
    assert found.keys.to_pylist()[0]["missing"] == most


def test_what_is_drawn_is_around_the_first_thing_that_is_wrong():
    _, found = judged(ROWS)
    drawn = {}
    for row in found.pictures.to_pylist():
        drawn.setdefault((row["topic"], row["key"]), []).append(row)
    assert len(drawn) == PICTURES
    counts = Counter(line[1:3] for line in wrong(ROWS))
    least = sorted(counts.values())[-PICTURES]
    for key, rows in drawn.items():
        assert counts[key] >= least
        assert len(rows) <= DOTS
        assert any(row["wrong"] for row in rows)


def test_the_worst_suspects_are_those_with_the_most_falls_and_not_too_many_messages():
    keys = judged(ROWS)[0].keys.filter(judged(ROWS)[0].keys["suspect"])
    chosen = worst(keys, 10, 5).to_pylist()
    falls = [row["falls"] + row["falls_between"] for row in chosen]
    assert falls == sorted(falls, reverse=True)
    assert max(row["messages"] for row in chosen) <= 5
    assert len(chosen) == 10


def by_birth(rows):
    """What is found where times of birth are judged."""
    merged = merge(summaries(rows, ""), by_seq=False, gaps=False, look_at_messages=10**9)
    messages = table(rows).select(message_columns(by_seq=False))
    messages = messages.rename_columns({"sharding_key": "key"})
    suspects = merged.keys.filter(merged.keys["suspect"])
    return look_at(messages, suspects, ALWAYS, by_seq=False, gaps=False).lines.to_pylist()


def test_a_producers_clock_that_is_wrong_matters_only_beside_another_one():
    late = timedelta(minutes=10)

    def row(place, key, seq, behind):
        at = BEGIN + timedelta(seconds=place)
        return {
            "topic": "t", "broker": "a", "queue_id": 0, "queue_offset": place, "seq": seq,
            "sharding_key": key, "msg_id": f"m{place}", "uniq_key": f"u{place}",
            "born_ts": at - behind, "store_ts": at, "commitlog_offset": place,
        }  # fmt: skip

    # One producer sends x, its clock ten minutes slow; another takes turns with it at y.
    rows = [row(2 * n, "x", n, late) for n in range(10)]
    rows += [row(2 * n + 1, "y", n, late * (n % 2)) for n in range(10)]
    rows.sort(key=lambda each: each["queue_offset"])
    assert judged(rows)[1].lines.num_rows == 0, "numbers know no clocks"
    found = by_birth(rows)
    assert {(line["kind"], line["key"]) for line in found} == {("inversion", "y")}
    assert len(found) == 5


def test_nothing_is_judged_where_nothing_is():
    merged, found = judged([])
    tables = (merged.keys, merged.queues, merged.losses, merged.ranges, found.lines, found.keys)
    assert [each.num_rows for each in tables] == [0] * 6
