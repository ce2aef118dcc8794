"""What is raised to Spark: one step, the text, and every cause."""

import traceback

import pytest

from orderly.errors import BrokerUnavailable, SendFailed
from orderly.spark.tracebacks import short_traceback


@short_traceback
def fail():
    refused = OSError("connection refused")
    away = BrokerUnavailable("10.0.0.1:10911 is away", address="10.0.0.1:10911")
    away.__cause__ = refused
    raise SendFailed("given up after 120 s") from away


def test_an_error_of_ours_is_short_and_keeps_its_causes():
    with pytest.raises(SendFailed) as raised:
        fail()
    told = "".join(traceback.format_exception(raised.value))
    assert "in fail" not in told
    assert told.splitlines()[-3:] == [
        "orderly.errors.SendFailed: given up after 120 s",
        "caused by BrokerUnavailable: 10.0.0.1:10911 is away",
        "caused by OSError: connection refused",
    ]


def test_any_other_error_keeps_all():
    @short_traceback
    def broken():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as raised:
        broken()
    assert "in broken" in "".join(traceback.format_exception(raised.value))
