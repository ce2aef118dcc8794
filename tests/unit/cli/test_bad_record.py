"""The demo's bad record: chosen so that much waits behind it; only the mended code can read it."""

from datetime import datetime

import pytest

from orderly.cli.demo.bad_record import Parking, pick_bad, read_time, read_time_mended
from orderly.cli.demo.flights import DAY, FlightEvent

EVENTS = [
    FlightEvent(DAY + n, n, "arrival", f"N{n % 7 if n % 3 else n}", "UA1", "EWR", "IAH")
    for n in range(400)
]


def test_it_comes_early_and_many_of_its_aircraft_follow():
    bad = pick_bad(EVENTS, 200)
    assert 200 <= bad.number < 220
    assert EVENTS[bad.number].tail == bad.key
    assert sum(event.tail == bad.key for event in EVENTS[bad.number :]) > 15
    assert not any(event.tail == bad.key for event in EVENTS[200 : bad.number])


@pytest.mark.parametrize("count", [1, 2, 30])
def test_few_events_are_enough(count):
    assert pick_bad(EVENTS[:count], count // 2).number >= count // 2


def test_only_the_mended_code_reads_its_time():
    time = pick_bad(EVENTS, 200).time
    assert time == "2013-01-02T24:00"
    with pytest.raises(ValueError, match="2013-01-02T24:00"):
        read_time(time)
    assert read_time_mended(time) == datetime(2013, 1, 3)  # noqa: DTZ001  a local clock


@pytest.mark.parametrize("read", [read_time, read_time_mended])
def test_both_read_all_other_times(read):
    assert read("2013-01-02T23:59") == datetime(2013, 1, 2, 23, 59)  # noqa: DTZ001  as above


def test_what_was_not_parked_or_not_released_is_no_success():
    bad = pick_bad(EVENTS, 200)
    assert not Parking(bad).ok
    assert "never parked" in Parking(bad).story(replayed=0, meanwhile=0)
    assert "not released" in Parking(bad, parked_at=1.0).story(replayed=0, meanwhile=0)
