"""How thresholds are written, and what they make of figures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ConfigError
from orderly.monitoring.backlog.ranges import Range, seconds_of
from orderly.monitoring.backlog.reading import DeadLetters
from orderly.monitoring.backlog.rules import EvaluationSettings
from orderly.monitoring.backlog.states import VERDICTS, QueueState, Verdict, severity
from orderly.monitoring.backlog.thresholds import Measure, Thresholds, judge
from orderly.protocol.parked_key import ParkedKey
from tests.support.snapshots import group, row

QUIET = {"parked": "~:", "dead": "~:"}
OFF = Thresholds.parse(QUIET, {"lost": "~:"})
DEFAULT = Thresholds.parse({}, {})


# --- ranges --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "alerting", "fine"),
    [
        ("10", [-1, 11], [0, 10]),
        ("10:", [9.9], [10, 1e9]),
        ("~:10", [10.1], [-1e9, 10]),
        ("10:20", [9, 21], [10, 20]),
        ("@10:20", [10, 15, 20], [9, 21]),
        ("@10", [0, 10], [-1, 11]),
        ("~:", [], [-1e9, 0, 1e9, math.inf]),
        ("0", [1, 0.5], [0]),
        ("-5:5", [-6], [-5, 0]),
        (" 1.5 ", [1.6], [1.5]),
        ("10:", [], [math.inf]),
        ("10", [math.inf], []),
    ],
)
def test_nagios_ranges(text, alerting, fine):
    found = Range.parse(text)
    assert all(map(found.alerts, alerting))
    assert not any(map(found.alerts, fine))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86400), ("500ms", 0.5),
                          ("7", 7), ("1.5m", 90)]
)  # fmt: skip
def test_durations(text, seconds):
    assert seconds_of(text) == seconds
    assert Range.parse(text, duration=True).high == seconds
    assert Range.parse(f"{text}:", duration=True).low == seconds


@pytest.mark.parametrize(
    "text", ["", ":", "@", "x", "5m", "1:x", "~", "~10", "1:2:3", "--5", "1e3", "nan", "٣", "10s:"]
)
def test_what_is_no_range_is_refused_and_says_what_is(text):
    if text == ":":  # 0 and more, as the guidelines have it
        assert Range.parse(text).low == 0.0
        return
    with pytest.raises(ConfigError, match="not a range: write 10"):
        Range.parse(text)


@pytest.mark.parametrize("text", ["-5", "5y", "m", "5 m", "1h30m"])
def test_what_is_no_duration_is_refused_and_says_what_is(text):
    with pytest.raises(ConfigError, match="write a number and ms, s, m, h or d"):
        seconds_of(text)


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(ConfigError, match="swap them"):
        Range.parse("20:10")


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(-10, 2000))
def test_inside_is_the_opposite_of_outside(a, b, value):
    low, high = sorted((a, b))
    text = f"{low}:{high}"
    assert Range.parse(text).alerts(value) != Range.parse("@" + text).alerts(value)


# --- thresholds ----------------------------------------------------------------------------------


def test_a_bare_number_of_the_retention_alerts_below_it():
    limit = Thresholds.parse({"retention_eta": "1h"}, {}).limits[Measure.RETENTION_ETA].warn
    assert limit.alerts(3599)
    assert not limit.alerts(3601)
    assert not limit.alerts(math.inf)


@pytest.mark.parametrize(
    ("warn", "crit", "match"),
    [
        ({"lag": "5"}, {}, "no threshold 'lag'"),
        ({"backlog": "5m"}, {}, "backlog: '5m' is not a range"),
        ({}, {"head_age": "soon"}, "head_age: 'soon' is not a range"),
        ({"backlog": "10"}, {"backlog": "5"}, "WARNING could never be reached"),
        ({"retention_eta": "1h"}, {"retention_eta": "2h"}, "WARNING could never be reached"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(warn, crit, match):
    with pytest.raises(ConfigError, match=match):
        Thresholds.parse(warn, crit)


@pytest.mark.parametrize(
    "fields", [{"window": 0}, {"min_points": 1}, {"window": 60}, {"blocked_after": math.nan}]
)
def test_settings_that_make_no_sense_are_refused(fields):
    with pytest.raises(ConfigError):
        EvaluationSettings(**fields)


# --- verdicts ------------------------------------------------------------------------------------


def verdict(rows, thresholds=DEFAULT, **fields):
    return judge([group("g", rows, **fields)], thresholds).verdict


@pytest.mark.parametrize("state", QueueState)
def test_a_state_is_judged_as_the_table_says(state):
    thresholds = {QueueState.LAGGING: Thresholds.parse({"backlog": "3"}, {})}
    found = row(state, group="g")
    assert verdict([found], thresholds.get(state, DEFAULT)) is VERDICTS[state]


def test_a_queue_never_committed_and_empty_is_in_order():
    found = row(QueueState.NEW, group="g", backlog=0)
    assert verdict([found, row(group="g", queue_id=1)]) is Verdict.OK
    assert found.verdict is Verdict.OK


@given(st.lists(st.sampled_from(QueueState), min_size=1, max_size=6))
def test_the_worst_counts_and_comes_first(states):
    rows = [row(state, group="g", queue_id=n) for n, state in enumerate(states)]
    judged = judge([group("g", rows)], DEFAULT)
    severities = [severity(reason.verdict) for reason in judged.reasons]
    assert severities == sorted(severities, reverse=True)
    by_limit = QueueState.LAGGING  # there is none that it exceeds
    worst = max((VERDICTS[s] for s in states if s is not by_limit), key=severity, default=0)
    assert judged.verdict is Verdict(worst)
    assert bool(judged.reasons) == (judged.verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [(0, Verdict.OK), (10, Verdict.OK), (11, Verdict.WARNING), (100, Verdict.WARNING),
     (101, Verdict.CRITICAL)],
)  # fmt: skip
def test_a_threshold_is_the_last_good_value(backlog, expected):
    thresholds = Thresholds.parse({"backlog": "10"}, {"backlog": "100"})
    rows = [
        row(group="g", backlog=backlog // 2),
        row(group="g", queue_id=1, backlog=-(-backlog // 2)),
    ]
    assert verdict(rows, thresholds) is expected


@pytest.mark.parametrize(
    ("field", "value", "measure"),
    [("head_age", 600.0, "head_age"), ("drain_eta", math.inf, "drain_eta"),
     ("retention_eta", 60.0, "retention_eta")],
)  # fmt: skip
def test_every_time_can_be_a_reason(field, value, measure):
    thresholds = Thresholds.parse({}, {measure: "5m"})
    judged = judge([group("g", [row(group="g", backlog=5, **{field: value})])], thresholds)
    assert judged.verdict is Verdict.CRITICAL
    assert judged.reasons[0].text.startswith(measure)


def test_what_was_asked_for_and_is_not_known_is_unknown():
    rows = [row(group="g", backlog=5, head_age=None)]
    assert verdict(rows) is Verdict.OK
    assert verdict(rows, Thresholds.parse({"head_age": "5m"}, {})) is Verdict.UNKNOWN


def test_a_limit_that_somebody_gave_needs_to_know_the_dead_letters():
    rows = [row(QueueState.OK)]
    assert verdict(rows, dead=None) is Verdict.OK, "nobody asked"
    assert verdict(rows, Thresholds.parse({}, {"dead": "5"}), dead=None) is Verdict.UNKNOWN
    keyed = Thresholds.parse({}, {})
    assert verdict(rows, keyed, order="queue") is Verdict.OK, "it parks nothing"


def test_seen_to_be_critical_wins_over_unknown_and_that_over_a_warning():
    thresholds = Thresholds.parse({"backlog": "1"}, {"backlog": "100"})
    unknown = row(QueueState.UNKNOWN, group="g", queue_id=1)
    assert verdict([row(group="g", backlog=50), unknown], thresholds) is Verdict.UNKNOWN
    assert verdict([row(group="g", backlog=500), unknown], thresholds) is Verdict.CRITICAL


def test_parked_keys_dead_letters_and_lost_messages_are_told_unless_switched_off():
    fine = [row(group="g")]
    dead = DeadLetters(2, None, 2)
    lost = [row(QueueState.LOST, group="g")]
    parked = [row(group="g", parked=(ParkedKey("k", 0, 0, 1),))]
    assert verdict(fine, dead=dead) is Verdict.WARNING
    assert verdict(parked) is Verdict.WARNING
    assert verdict(lost) is Verdict.CRITICAL
    assert [verdict(r, OFF, dead=dead) for r in (fine, parked, lost)] == [Verdict.OK] * 3


@pytest.mark.parametrize("state", QueueState)
def test_parked_keys_are_a_warning_beside_each_state_and_hide_none(state):
    thresholds = {QueueState.LAGGING: Thresholds.parse({"backlog": "3"}, {})}.get(state, DEFAULT)
    plain, parked = (row(state, group="g", parked=p) for p in ((), (ParkedKey("k", 0, 0, 1),)))
    worst = max(plain.verdict, Verdict.WARNING, key=severity)
    assert (plain.state, parked.state, parked.verdict) == (state, state, worst)
    assert group("g", [parked]).sums.verdict is worst
    judged = judge([group("g", [parked])], thresholds)
    assert judged.verdict is worst
    assert "parked 1 key (range 0)" in [reason.text for reason in judged.reasons]


def test_nothing_found_is_unknown():
    assert judge([], DEFAULT).verdict is Verdict.UNKNOWN
    assert verdict([]) is Verdict.UNKNOWN


def test_figures_stand_for_each_group_in_one_order():
    thresholds = Thresholds.parse({"backlog": "10"}, {"head_age": "5m"})
    groups = [group("a", [row(group="a", backlog=3)]), group("b", [row(group="b")])]
    figures = judge(groups, thresholds).figures
    assert [f.measure for f in figures] == list(Measure) * 2
    assert (figures[0].group, figures[0].value, figures[0].warn, figures[0].crit) == (
        "a", 3, "10", "",
    )  # fmt: skip
    assert figures[1].crit == "5m"


def test_verdicts_are_the_exit_codes():
    assert [int(v) for v in (Verdict.OK, Verdict.WARNING, Verdict.CRITICAL, Verdict.UNKNOWN)] == [
        0, 1, 2, 3,
    ]  # fmt: skip
