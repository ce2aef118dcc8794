"""Typed outcomes are checked when they are made, and nothing can be changed in them."""

import dataclasses
import typing

import pytest

from orderly.errors import ConfigError
from orderly.ordering.outcomes import Ack, Answer, DeadLetter, Fail, Park, Suspend
from orderly.ordering.results import ConsumeResult

NAN = float("nan")


@pytest.mark.parametrize("seconds", [0.01, 1, 30.0, 3600])
def test_suspend_takes_what_some_consumer_allows(seconds):
    assert Suspend(seconds).seconds == seconds


def test_suspend_leaves_the_wait_to_the_consumer():
    assert Suspend().seconds is None


@pytest.mark.parametrize("seconds", [0, 0.009, 3600.1, -1, NAN, float("inf"), True, "1"])
def test_suspend_refuses_what_no_consumer_allows(seconds):
    with pytest.raises(ConfigError, match=r"0\.01 to 3600"):
        Suspend(seconds)


@pytest.mark.parametrize(
    "outcome", [Ack(), Suspend(1), Fail("r"), Park("r"), DeadLetter("r")], ids=str
)
def test_an_outcome_is_a_value(outcome):
    assert outcome == dataclasses.replace(outcome)
    assert not hasattr(outcome, "__dict__")
    for field in dataclasses.fields(outcome):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(outcome, field.name, "another")


def test_the_answers_are_these_and_javas_four():
    assert set(typing.get_args(Answer)) == {ConsumeResult, Ack, Suspend, Fail, Park, DeadLetter}
