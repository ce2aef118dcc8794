"""The line of a monitoring plugin: text, then performance data in plain numbers."""

import re

import pytest

from orderly.cli.backlog.verdict_line import verdict_line
from orderly.monitoring.backlog.reading import DeadLetters
from orderly.monitoring.backlog.states import QueueState
from orderly.monitoring.backlog.thresholds import Thresholds, judge
from tests.support.snapshots import group, row

DATUM = re.compile(
    r"'[^'=]+'=(U|-?\d+(\.\d+)?s?)(;(@?(~|-?[\d.]+)?:?(-?[\d.]+)?)?){0,2}(;-?[\d.]*){0,2}"
)


def line(*groups, warn=None, crit=None):
    judgement = judge(groups, Thresholds.parse(warn or {}, crit or {}))
    return verdict_line(judgement, groups)


def test_in_order():
    text, data = line(
        group("shipping", [row(backlog=5), row(queue_id=1)]), warn={"backlog": "10"}
    ).split(" | ")
    assert text == "ORDERLY OK - shipping: backlog 5 messages in 2 queues, the oldest 1m old"
    assert data.startswith("'backlog'=5;10;;0 'head_age'=60s;;;0 'drain_eta'=5s;;;0")


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("5m", "300"),
        ("5m:", "300:"),
        ("~:5m", "~:300"),
        ("1m:5m", "60:300"),
        ("@500ms:1m", "@0.5:60"),
        ("@5m", "@300"),
        ("0:", "0:"),
    ],
)
def test_ranges_are_told_in_seconds(text, numbers):
    shown = line(group("g", [row(group="g")]), crit={"head_age": text})
    assert f"'head_age'=0s;;{numbers};0" in shown


def test_what_is_not_known_or_never_ends_is_u():
    found = line(group("g", [row(QueueState.UNKNOWN, group="g")]))
    assert "'backlog'=U" in found
    found = line(group("g", [row(group="g", backlog=5, drain_eta=float("inf"))]))
    assert "'drain_eta'=U" in found


def test_several_groups_are_told_apart_and_reasons_are_few():
    groups = [
        group(f"g{n}", [row(QueueState.OFFLINE, group=f"g{n}")], dead=DeadLetters(1, None, 1))
        for n in range(9)
    ]
    found = line(*groups)
    assert found.count("OFFLINE 1 queue") == 5
    assert "; and 13 more |" in found
    assert "'g8.backlog'=7;;;0" in found


@pytest.mark.parametrize("state", QueueState)
def test_performance_data_follow_the_guidelines(state):
    found = line(
        group("g", [row(state, group="g")]),
        warn={"backlog": "@1:5", "retention_eta": "1d"},
        crit={"head_age": "~:5m"},
    )
    data = found.partition(" | ")[2].split(" ")
    assert len(data) == 8
    assert [datum for datum in data if not DATUM.fullmatch(datum)] == []


def test_names_end_neither_the_text_nor_a_label():
    names = ("a|b", "c'd=9;|e")
    found = line(*(group(name, [row(QueueState.OFFLINE, group=name)]) for name in names))
    text, data = found.split(" | ")
    assert "|" not in text + data
    assert r"a\x7cb: OFFLINE" in text
    assert r"'a\x7cb.backlog'=" in data
    assert r"'c''d\x3d9;\x7ce.backlog'=" in data


def test_a_backlog_that_is_not_known_is_not_told_as_0():
    found = line(group("g", [row(QueueState.NOT_APPLICABLE, group="g")]))
    assert found.startswith("ORDERLY OK - g: NOT_APPLICABLE, the backlog is not known | ")


def test_one_message_is_not_messages():
    assert "backlog 1 message in 1 queue" in line(group("g", [row(group="g", backlog=1)]))


def test_without_a_group_there_is_no_data():
    assert line() == "ORDERLY UNKNOWN - no group found"
