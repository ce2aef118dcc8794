from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from orderly.testing.fake.store import (
    MAX_BYTES,
    MAX_MESSAGES,
    MAX_SCANNED,
    LogEntry,
    QueueLog,
    ReadStatus,
)

CODES = st.integers(0, 3)
OFFSETS = st.integers(-3, 60)


def log_of(codes, dropped=0, size=1):
    log = QueueLog()
    for number, code in enumerate(codes):
        log.append(LogEntry(bytes([number % 256]) * size, code, 10 * number, 0))
    log.drop_before(dropped)
    return log


@given(st.lists(CODES, max_size=50), OFFSETS, OFFSETS)
def test_every_read_has_exactly_one_status(codes, dropped, offset):
    log = log_of(codes, dropped)
    low, high = log.min_offset, log.max_offset
    expected = (
        ReadStatus.NO_MESSAGE_IN_QUEUE if high == 0
        else ReadStatus.OFFSET_TOO_SMALL if offset < low
        else ReadStatus.OFFSET_OVERFLOW_ONE if offset == high
        else ReadStatus.OFFSET_OVERFLOW_BADLY if offset > high
        else ReadStatus.FOUND
    )  # fmt: skip
    assert log.read(offset, 32, None).status is expected


@given(st.lists(CODES, max_size=50), st.sets(CODES), st.integers(1, 64))
def test_reading_on_finds_every_wanted_message_once(codes, wanted, count):
    log = log_of(codes)
    found, at = b"", 0
    while at < log.max_offset:
        read = log.read(at, count, wanted)
        assert read.next_offset > at
        assert len(read.data) <= min(count, MAX_MESSAGES)
        assert (read.status is ReadStatus.FOUND) == bool(read.data)
        found, at = found + read.data, read.next_offset
    assert found == bytes(i for i, code in enumerate(codes) if code in wanted)


@given(st.lists(CODES, max_size=30), OFFSETS)
def test_what_was_dropped_is_gone_and_the_rest_keeps_its_offset(codes, dropped):
    log = log_of(codes, dropped)
    assert log.max_offset == len(codes)
    assert log.min_offset == min(max(dropped, 0), len(codes))
    for offset in range(-1, len(codes) + 1):
        kept = log.min_offset <= offset < len(codes)
        assert (log.entry(offset) is not None) == kept


@given(st.lists(st.integers(0, 20), max_size=30).map(sorted), st.integers(-1, 21))
def test_times_are_found_from_both_sides(times, moment):
    log = QueueLog()
    for ms in times:
        log.append(LogEntry(b"", 0, ms, 0))
    assert log.at_time(moment) == sum(ms < moment for ms in times)
    assert log.at_time(moment, upper=True) == max(sum(ms <= moment for ms in times) - 1, 0)


def test_a_read_stops_at_its_size_but_takes_one_message_of_any():
    log = log_of([0, 0, 0], size=MAX_BYTES // 2)
    assert log.read(0, 32, None).next_offset == 2
    assert log_of([0, 0], size=MAX_BYTES + 1).read(0, 32, None).next_offset == 1


def test_a_read_looks_at_so_many_messages():
    log = log_of([0] * (MAX_SCANNED + 5))
    read = log.read(0, 32, {1})
    assert (read.status, read.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, MAX_SCANNED)
