"""The pure parts of `benchmarks.peers`: figures of runs, ratios, goals, the written page."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.floor import decode, judge
from benchmarks.peers.goals import GOALS, goal_of, judged
from benchmarks.peers.launch import Run, SideFailed, parse, percentile
from benchmarks.peers.page import BEGIN, END, details, headline, inserted
from benchmarks.peers.parts import Part, Ratio, deadlines, measure
from benchmarks.peers.report import as_json, as_text
from benchmarks.peers.work import PARTS
from benchmarks.rounds import turns
from orderly.protocol.stored_message import encode_stored_message
from tests.support.messages import message

SLOW, FAST = Run(messages=100, seconds=1.0, cpu_seconds=0.5), Run(messages=100, seconds=0.5)
PART = Part(
    "consume",
    "some work",
    ("rate", "cpu"),
    (Ratio("consume_vs_java", "ours", "java"), Ratio("consume_vs_grpc", "ours", "grpc")),
    dict,
)


def failing():
    raise SideFailed("no proxy")


def measured(rounds=2):
    sides = {"ours": lambda: FAST, "java": lambda: SLOW, "grpc": failing}
    return measure(PART, 1024, sides, rounds)


def test_rates_and_cpu_of_a_run():
    assert SLOW.rate == 100
    assert SLOW.cpu == 500.0


def test_a_programs_line_is_read():
    said = {
        "messages": 2, "cpu_seconds": 1.5, "first_at": 103.5, "latencies_ns": [2e6, 1e6],
        "ended_at": 9.0,
    }  # fmt: skip
    run = parse(said, launched=100.0)
    assert (run.first_message, run.latencies, run.p50) == (3.5, (1.0, 2.0), 1.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(values, percent):
    ordered = sorted(values)
    found = percentile(ordered, percent)
    assert sum(value <= found for value in ordered) * 100 >= percent * len(ordered)
    assert sum(value < found for value in ordered) * 100 < percent * len(ordered)


def test_every_second_round_goes_backwards():
    assert list(turns("ab", 3)) == [(1, "a"), (1, "b"), (2, "b"), (2, "a"), (3, "a"), (3, "b")]


def test_ratios_are_taken_within_rounds_and_a_failed_side_says_why():
    one = measured()
    assert one.ratios() == {
        "consume_vs_java": {"median": 2.0, "min": 2.0, "max": 2.0},
        "consume_vs_grpc": None,
    }
    assert one.missing == {"grpc": "no proxy"}


def test_a_side_that_failed_later_keeps_the_rounds_it_finished():
    runs = iter([SLOW])
    sides = {"ours": lambda: FAST, "java": lambda: next(runs, None) or failing()}
    one = measure(PART, 128, sides, 3)
    assert one.ratios()["consume_vs_java"]["median"] == 2.0
    assert one.missing == {"java": "no proxy"}


def test_rounds_end_with_the_time_but_the_first_is_always_made():
    one = measure(PART, 128, {"ours": lambda: FAST, "java": lambda: SLOW}, 5, until=0.0)
    assert [list(rounds) for rounds in one.runs.values()] == [[1], [1]]


def test_parts_share_the_time():
    assert deadlines([1.0, 3.0], 100.0, 20.0) == [105.0, 120.0]


def test_the_report_has_a_figure_for_each_size_and_judges_it():
    report = as_json([measured()], {}, [])
    assert report["consume_vs_java_1k"] == 2.0
    assert report["consume_vs_grpc_1k"] is None
    assert report["goals"]["consume_vs_java_1k"]
    assert "MISSING: no proxy" in as_text(report)


def test_goals_hold_for_both_sizes_and_in_their_direction():
    assert goal_of("latency_p99_vs_java_1k") is GOALS["latency_p99_vs_java"]
    assert judged({"latency_p99_vs_java_1k": 1.2, "consume_vs_floor": 0.8, "other": 1}) == {
        "latency_p99_vs_java_1k": False,
        "consume_vs_floor": True,
    }


def test_every_ratio_with_a_goal_is_measured_by_a_part():
    ratios = {ratio.name for part in PARTS.values() for ratio in part.ratios}
    assert {name for name in GOALS if "_vs_" in name} <= ratios


def test_the_page_keeps_what_stands_around_the_markers():
    page = inserted(f"above\n{BEGIN}\nold\n{END}\nbelow\n", "new")
    assert page == f"above\n{BEGIN}\n\nnew\n\n{END}\nbelow\n"
    assert inserted(page, "new") == page


@pytest.mark.parametrize("page", ["", BEGIN, f"{END} {BEGIN}"])
def test_a_page_without_both_markers_is_refused(page):
    with pytest.raises(ValueError, match="needs the line"):
        inserted(page, "new")


def test_the_page_names_figures_goals_and_what_is_missing():
    report = as_json([measured()], {"kernel": "K 1"}, ["run it"])
    text = headline(report) + details(report, "make bench")
    for part in (
        "| kernel | K 1 |",
        "`consume_vs_java` | >= 0.8 |  | 2.00 [2.00\N{EN DASH}2.00] met |",
        "Missing: grpc: no proxy",
    ):
        assert part in text


@given(st.lists(st.tuples(st.binary(max_size=40), st.text("ab=é", min_size=1)), max_size=5))
def test_the_floor_decodes_bodies_and_properties(contents):
    stored = b"".join(
        encode_stored_message(replace(message(0), body=body, properties={"KEYS": text}))
        for body, text in contents
    )
    assert decode(stored) == [(body, {"KEYS": text}) for body, text in contents]


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([0, 1, 1000, 2000, 1001], (5, 0, 0)),
        ([0, 1000, 0, 1000, 2000], (5, 2, 0)),  # a batch whose first send had timed out
        ([0, 2000, 1000, 1000], (4, 1, 1)),
        ([1000, 0], (2, 0, 1)),
    ],
)
def test_inversions_are_told_from_messages_stored_twice(numbers, found):
    assert judge(numbers) == found
