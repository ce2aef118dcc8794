"""What cannot be is refused before anything is sent; what is much is asked for twice."""

import pytest

from orderly.bench.plan import ConsumePlan, SendPlan, too_much
from orderly.errors import ConfigError


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"count": 0}, "1 message or more"),
        ({"size": 10}, "24 to 4194304 bytes"),
        ({"size": 5 << 20}, "24 to 4194304 bytes"),
        ({"threads": 0}, "1 to 64"),
        ({"threads": 4, "keys": 3}, "more threads than keys"),
        ({"skew": -1}, "0 to 10"),
        ({"rate": 0.0}, "more than 0"),
    ],
)
def test_what_cannot_be_sent(fields, text):
    with pytest.raises(ConfigError, match=text):
        SendPlan(**fields)


def test_what_no_handler_takes():
    with pytest.raises(ConfigError, match="0 to 10000 ms"):
        ConsumePlan(handler_ms=-1)


@pytest.mark.parametrize(
    ("fields", "queues", "text"),
    [
        ({}, 8, ""),
        ({"count": 3_000_000, "size": 30}, 8, "3000000 messages"),
        ({"count": 1_000_000, "size": 2000}, 8, "2.0 GB"),
        ({"seconds": 3600.0}, 8, "3600 s of it"),
        ({}, 300, "300 queues on each broker"),
    ],
)
def test_what_is_much(fields, queues, text):
    assert too_much(SendPlan(**fields), queues) == text


def test_the_user_is_told_before():
    plan = SendPlan(count=10, size=1000, keys=2, threads=2, sync=True, rate=5.0, seconds=2.0)
    assert plan.text() == (
        "for 2 s, at most 10 messages of 1000 bytes (0.0 MB), 5 a second, 2 keys, by send from 2"
        " threads"
    )
    waits = ConsumePlan(handler_ms=5, coroutines=True)
    assert waits.text() == "by queue, at most 20 calls at once, on coroutines, 5 ms each"
