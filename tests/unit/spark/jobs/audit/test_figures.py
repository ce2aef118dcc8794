"""Verdict and headline of an audit, for each thing that can be found."""

import pytest

from orderly.monitoring.backlog.states import Verdict
from orderly.spark.jobs.audit.figures import AuditFigures, headline

UNNUMBERED = "21 % of messages with a key have no number in 'n'."
KEYLESS = "10 messages without a key are not judged."
UNSEEN = "1 suspect key was not looked at one by one."
READ = {"messages": 100, "judged": 100, "keys": 9}


@pytest.mark.parametrize(
    ("found", "verdict", "said"),
    [
        (READ, Verdict.OK, "All 100 messages of 9 keys are in order."),
        ({}, Verdict.UNKNOWN, "Not judged: no messages were read."),
        (
            {"lost": 3},
            Verdict.UNKNOWN,
            "Not judged: no messages were read; 3 messages gone.",
        ),
        (
            {"messages": 5, "keyless": 5},
            Verdict.UNKNOWN,
            "Not judged: none of 5 messages has a sharding key.",
        ),
        (
            {"messages": 5, "keyless": 1, "unnumbered": 4, "keys": 2},
            Verdict.UNKNOWN,
            "Not judged: none of 4 messages with a key has a whole number in the property 'n'.",
        ),
        (READ | {"inversions": 2, "wrong": 1}, Verdict.CRITICAL, "2 inversions, in 1 of 9 keys."),
        (
            READ | {"across": 1, "wrong": 1},
            Verdict.CRITICAL,
            "1 inversion across queues, in 1 of 9 keys.",
        ),
        (
            READ | {"gaps": 1, "missing": 7, "repeats": 1, "wrong": 2},
            Verdict.CRITICAL,
            "1 gap and 1 repeat, in 2 of 9 keys.",
        ),
        (
            READ | {"mixed": 2, "moved": 3, "wrong": 2},
            Verdict.CRITICAL,
            "2 keys in several queues at once, in 2 of 9 keys.",
        ),
        (READ | {"moved": 3}, Verdict.OK, "All 100 messages of 9 keys are in order."),
        (READ | {"repeats": 4, "wrong": 1}, Verdict.WARNING, "4 repeats, in 1 of 9 keys."),
        (
            READ | {"repeats": 4, "repeated_sends": 3, "wrong": 1},
            Verdict.WARNING,
            "1 repeat and 3 repeated sends, in 1 of 9 keys.",
        ),
        (
            READ | {"lost": 2},
            Verdict.UNKNOWN,
            "The messages read are in order, but 2 messages were gone.",
        ),
        (
            READ | {"inexact": 1},
            Verdict.UNKNOWN,
            f"No error was found in 100 messages of 9 keys. {UNSEEN}",
        ),
        (
            READ | {"lost": 2, "inversions": 1, "wrong": 1},
            Verdict.CRITICAL,
            "1 inversion, in 1 of 9 keys.",
        ),
        (
            {"messages": 200, "judged": 150, "keyless": 10, "unnumbered": 40, "keys": 9},
            Verdict.OK,
            f"All 150 messages of 9 keys are in order. {UNNUMBERED} {KEYLESS}",
        ),
        (
            READ | {"inversions": 9, "wrong": 5, "inexact": 4},
            Verdict.CRITICAL,
            "9 inversions, in 5 of 9 keys. 4 suspect keys were not looked at one by one.",
        ),
    ],
)
def test_it_is_judged_and_said(found, verdict, said):
    figures = AuditFigures(**found)
    assert figures.verdict is verdict
    assert headline(figures, "n") == said


def test_what_may_be_wrong_without_numbers_is_no_clean_topic():
    assert AuditFigures(messages=9, keys=1, mixed=1, wrong=1).verdict is Verdict.UNKNOWN
