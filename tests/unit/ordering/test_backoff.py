"""How long to wait after a failure."""

from __future__ import annotations

import email.message
import urllib.error
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.ordering.backoff import backoff, doubled, retry_after
from tests.support.case_ids import shown

# --- backoff --------------------------------------------------------------------------------------
# Waits double, stay within their bounds whatever the count is, and are spread by chance.


FIRST = st.floats(0.01, 3600)
LONGEST = st.floats(0.01, 3600)
FAILURES = st.integers(0, 2**64)
DRAW = st.floats(0, 1, exclude_max=True)


@given(FAILURES, FIRST, LONGEST, DRAW)
def test_a_wait_is_within_its_bounds_whatever_the_count_is(failures, first, longest, draw):
    assert 0.01 <= backoff(failures, first, longest, draw) <= longest


@given(FAILURES, FIRST, LONGEST, DRAW)
def test_one_failure_more_never_shortens_it(failures, first, longest, draw):
    shorter = backoff(failures, first, longest, draw)
    assert shorter <= backoff(failures + 1, first, longest, draw)


@pytest.mark.parametrize("huge", [2**31, 2**63, 10**400], ids=["int", "long", "endless"])
def test_no_count_overflows(huge):
    assert doubled(huge, 0.01, 3600.0) == 3600.0
    assert doubled(huge, 5.0, 60.0) == 60.0
    assert doubled(huge, 1e300, 60.0) == 60.0


def test_it_doubles_from_the_first_wait_to_the_longest():
    assert [doubled(n, 1.0, 60.0) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert doubled(0, 1.0, 60.0) == 1.0


def test_the_draw_spreads_over_the_upper_half_also_at_the_longest():
    assert backoff(3, 1.0, 60.0, 0.0) == 2.0
    assert backoff(3, 1.0, 60.0, 0.5) == 3.0
    assert backoff(99, 1.0, 60.0, 0.0) == 30.0
    assert 59.9 < backoff(99, 1.0, 60.0, 0.999) < 60.0


def test_the_shortest_wait_is_a_queues_shortest():
    assert backoff(1, 0.01, 60.0, 0.0) == 0.01


# --- retry after ----------------------------------------------------------------------------------
# How long an exception asks to wait is read wherever it says so, and nonsense is no wish.


MOMENT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
NOW = MOMENT.timestamp()
NAN, INF = float("nan"), float("inf")


class Asks(Exception):
    """Has the attributes it is made with."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


def http(value):
    return Asks(response=SimpleNamespace(headers={"Retry-After": value}))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(0, 0), (5, 5), (2.5, 2.5), (timedelta(minutes=2), 120), ("7", 7), (366 * 86_400, 31_622_400)],
)
def test_its_own_attribute_is_read(value, seconds):
    assert retry_after(Asks(retry_after=value), NOW) == seconds


@pytest.mark.parametrize(("value", "seconds"), [("0", 0), ("120", 120), (" 5 ", 5), ("1.5", 1.5)])
def test_seconds_of_a_response_are_read(value, seconds):
    assert retry_after(http(value), NOW) == seconds


@pytest.mark.parametrize(
    "date",
    [
        format_datetime(MOMENT + timedelta(seconds=90), usegmt=True),
        format_datetime((MOMENT + timedelta(seconds=90)).astimezone(timezone(timedelta(hours=9)))),
        "Sat, 21 Nov 2026 08:01:30 -0000",
        "Saturday, 21-Nov-26 08:01:30 GMT",
    ],
)
def test_an_http_date_is_a_wait_until_then(date):
    assert retry_after(http(date), NOW) == 90


def test_urllibs_error_carries_the_headers_itself_in_any_case():
    headers = email.message.Message()
    headers["retry-after"] = "30"
    with urllib.error.HTTPError("http://example.org", 503, "busy", headers, None) as error:
        assert retry_after(error, NOW) == 30


def test_a_malformed_attribute_does_not_hide_the_header():
    error = http("30")
    error.retry_after = NAN
    assert retry_after(error, NOW) == 30


@pytest.mark.parametrize(
    "value",
    [
        None, True, "", "soon", "-1", "1e3", "inf", "nan", "0x10", "1_000", "٣", "9" * 5000,
        -1, -0.001, NAN, INF, -INF, 10**400, 366 * 86_400 + 1, [5], b"5", 5j, object(),
        SimpleNamespace, timedelta(seconds=-1), timedelta.max,
        "Sat, 21 Nov 2026 07:59:59 GMT", "Fri, 31 Dec 9999 23:59:59 GMT",
        "Sat, 99 Nov 2026 25:61:00",
    ],
    # ASCII: mutmut collects twice in one process, and the second time pytest escapes its escapes.
    ids=lambda value: shown(value)[:30].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_nonsense_is_no_wish(value):
    assert retry_after(Asks(retry_after=value), NOW) is None
    assert retry_after(http(value), NOW) is None


class Hostile(Exception):
    def __init__(self, error):
        self.error = error

    def __getattribute__(self, name):
        raise object.__getattribute__(self, "__dict__")["error"]


class Endless(Exception):
    def __getattr__(self, name):
        return self

    def __getitem__(self, name):
        return self.__getitem__(name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: OSError("down"),
        lambda: Hostile(ValueError()),
        lambda: Hostile(SystemExit()),
        lambda: Hostile(MemoryError()),
        Endless,
        lambda: Asks(response=None),
        lambda: Asks(response=SimpleNamespace(headers=None)),
        lambda: Asks(response=SimpleNamespace(headers=[("Retry-After", "5")])),
        lambda: None,
    ],
)
def test_it_never_raises_whatever_the_error_does(make):
    assert retry_after(make(), NOW) is None


@given(st.text() | st.floats() | st.integers() | st.timedeltas() | st.none())
def test_what_it_returns_can_be_waited_for(value):
    seconds = retry_after(http(value), NOW)
    assert seconds is None or 0 <= seconds <= 366 * 86_400
