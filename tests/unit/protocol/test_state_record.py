"""State records: what is written is read, and whatever is read is bounded."""

import zlib
from contextlib import suppress
from dataclasses import replace
from json import loads

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.state_record import (
    MAX_RECORD,
    MAX_SUSPECTS,
    MAX_TOKEN_TIME,
    MAX_WINDOW,
    RUNS_A_RECORD,
    Acquire,
    Confirm,
    Entry,
    Trying,
    Unknown,
    decode_record,
    encode_record,
    record_kind,
)

OFFSET = st.integers(0, 2**63 - 1)
NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEY = st.one_of(NAME, st.integers(-(2**63) + 1, 2**63 - 1))
GENERATION = st.sampled_from([0, 0, 1, 7])
PARKED = st.builds(ParkedKey, KEY, OFFSET, OFFSET, OFFSET, OFFSET, GENERATION, OFFSET)


def runs_from(offsets):
    edges = sorted(offsets)
    return tuple(zip(edges[0 : len(edges) // 2 * 2 : 2], edges[1::2], strict=True))


RUNS = st.sets(OFFSET, max_size=12).map(runs_from)
CHUNKS = st.sampled_from([(0, 0), (0, 1), (0, 3), (2, 3), (255, 256)])


@st.composite
def entries(draw):
    runs, (chunk, chunks) = draw(RUNS), draw(CHUNKS)
    return Entry(
        owner=draw(NAME),
        token=draw(OFFSET),
        number=draw(OFFSET),
        previous=draw(OFFSET),
        epoch=draw(OFFSET),
        low=draw(st.integers(0, runs[0][0] if runs else 2**63 - 1)),
        previous_low=draw(OFFSET),
        runs=runs,
        closed=draw(st.booleans()),
        chunk=chunk,
        chunks=chunks,
        parked=tuple(draw(st.lists(PARKED, max_size=3))),
        released=tuple(draw(st.lists(KEY, max_size=3))),
        commands=draw(OFFSET),
        deaths=draw(OFFSET),
        suspects=tuple(draw(st.lists(st.tuples(OFFSET, OFFSET), max_size=3))),
        trying=draw(st.none() | OFFSET),
        window=tuple(draw(st.lists(OFFSET, max_size=6))),
        landmark=draw(st.none() | st.tuples(OFFSET, OFFSET)),
        generation=draw(st.sampled_from([0, 0, 1, 2**63 - 1])),
        token_time=draw(st.integers(0, MAX_TOKEN_TIME)),
    )


RECORDS = st.one_of(
    st.builds(Acquire, NAME),
    st.builds(Confirm, NAME, OFFSET),
    st.builds(Trying, NAME, OFFSET, st.none() | OFFSET),
    entries(),
)
ENTRY = Entry(
    owner="me@1", token=7, number=1, previous=8, epoch=2, low=10, previous_low=9, runs=((12, 15),)
)


def sealed(kind, content, version=1):
    return b"orderly-state %d %s %08x " % (version, kind, zlib.crc32(kind + content)) + content


@given(RECORDS)
def test_what_is_written_is_read(record):
    assert decode_record(encode_record(record)) == record


def test_a_record_is_a_line_that_people_can_read():
    assert encode_record(ENTRY) == (
        b'orderly-state 1 entry 47dbc954 {"owner":"me@1","token":7,"number":1,"previous":8,'
        b'"epoch":2,"low":10,"previousLow":9,"closed":false,"chunk":0,"chunks":0,"runs":[2,3]}'
    )


def test_what_a_queue_has_only_now_and_then_is_written_only_then():
    parked = (ParkedKey("a", 11, 4, 2, 300, counted_to=14), ParkedKey("b", 3, 5, generation=1))
    record = replace(
        ENTRY, window=(12, 8, 9), landmark=(14, 1_700_000_000_140), generation=1, token_time=5,
        parked=parked,
    )  # fmt: skip
    text = encode_record(record).split(b'"runs":[2,3]')[1]
    assert text == (
        b',"parked":[["a",11,4,2,300],["b",3,5,0,0]],"window":[-2,2,1],'
        b'"landmark":[14,1700000000140],"generation":1,"tokenTime":5,"parkedIn":[0,1],'
        b'"parkedTo":[14,0]}'
    )


OLDER = (
    b'orderly-state 1 entry 5601893e {"owner":"me@1","token":7,"number":3,"previous":12,"epoch":2,'
    b'"low":10,"previousLow":9,"closed":false,"chunk":0,"chunks":1,"runs":[2,3],'
    b'"parked":[["a",11,4,2,300]],"commands":5,"deaths":1,"suspects":[[13,1]],"trying":13}'
)
"""Written before there were generations."""


def test_what_an_older_release_wrote_is_read_with_nothing_known_of_the_new_fields():
    entry = Entry(
        owner="me@1", token=7, number=3, previous=12, epoch=2, low=10, previous_low=9,
        runs=((12, 15),), chunks=1, parked=(ParkedKey("a", 11, 4, 2, 300),), commands=5, deaths=1,
        suspects=((13, 1),), trying=13,
    )  # fmt: skip
    assert decode_record(OLDER) == entry
    assert (entry.window, entry.landmark, entry.generation, entry.token_time) == ((), None, 0, 0)
    assert entry.parked[0].generation == 0
    assert encode_record(entry) == OLDER, "and nothing is added where nothing is known"


@given(entries())
def test_what_older_releases_know_has_the_form_they_know(entry):
    """They read these fields and pass all others over: parked keys have five values, say."""
    plain = replace(
        entry, window=(), landmark=None, generation=0, token_time=0,
        parked=tuple(replace(each, generation=0, counted_to=0) for each in entry.parked),
    )  # fmt: skip
    old, new = (loads(encode_record(each).split(b" ", 4)[4]) for each in (plain, entry))
    assert {name: new[name] for name in old} == old
    added = {"window", "landmark", "generation", "tokenTime", "parkedIn", "parkedTo"}
    assert new.keys() - old.keys() <= added


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (Acquire("me"), "acquire"),
        (Confirm("me", 3), "confirm"),
        (ENTRY, "entry"),
        (Trying("me", 3, 9), "trying"),
    ],
)
def test_its_kind_is_told_without_reading_it(record, kind):
    assert record_kind(encode_record(record)) == kind


@pytest.mark.parametrize("body", [b"", b"hello", b"orderly-state 2 "])
def test_what_has_no_kind_is_unknown(body):
    assert record_kind(body) == "unknown"


@given(RECORDS, st.data())
def test_a_changed_byte_is_noticed(record, data):
    body = bytearray(encode_record(record))
    place = data.draw(st.integers(0, len(body) - 1))
    body[place] ^= data.draw(st.integers(1, 255))
    try:
        decoded = decode_record(bytes(body))
    except ProtocolError:
        return
    assert isinstance(decoded, Unknown)  # the byte of the version, which no checksum covers


@given(RECORDS, st.data())
def test_a_cut_record_is_noticed(record, data):
    body = encode_record(record)
    with pytest.raises(ProtocolError):
        decode_record(body[: data.draw(st.integers(0, len(body) - 1))])


@pytest.mark.parametrize("body", [b"orderly-state 2 entry 00000000 {}", b"orderly-state 12 \xff"])
def test_another_version_is_unknown_whatever_it_holds(body):
    assert isinstance(decode_record(body), Unknown)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_an_error(data):
    for body in (data, b"orderly-state 1 " + data, sealed(b"entry", data)):
        with suppress(ProtocolError):
            decode_record(body)


GOOD = (
    b'{"owner":"o","token":1,"number":1,"previous":2,"epoch":1,"low":5,"previousLow":5,'
    b'"chunk":%s,"chunks":%s,"runs":%s}'
)
MORE = GOOD[: GOOD.index(b'"chunk"')] + b'"chunk":0,"chunks":1,%s}'


@pytest.mark.parametrize(
    ("chunk", "chunks", "runs"),
    [
        (b"0", b"0", b"[1]"),
        (b"0", b"0", b"[1,0]"),
        (b"0", b"0", b"[-1,3]"),
        (b"0", b"0", b"[1,2,0,2]"),
        (b"0", b"0", b"[1,9223372036854775807]"),
        (b"0", b"0", b"[1,true]"),
        (b"0", b"0", b'{"1":2}'),
        (b"1", b"1", b"[]"),
        (b"1", b"0", b"[]"),
        (b"0", b"257", b"[]"),
        (b"-1", b"1", b"[]"),
    ],
)
def test_what_makes_no_sense_is_refused_under_a_right_checksum(chunk, chunks, runs):
    decode_record(sealed(b"entry", GOOD % (b"0", b"1", b"[0,2,1,2]")))
    with pytest.raises(ProtocolError):
        decode_record(sealed(b"entry", GOOD % (chunk, chunks, runs)))


@pytest.mark.parametrize(
    "more",
    [
        b'"parked":[["a",1,2,3]]', b'"parked":[["a",1,2,3,-4]]', b'"parked":[[true,1,2,3,4]]',
        b'"parked":["a"]', b'"parked":[[["a"],1,2,3,4]]', b'"released":[null]',
        b'"released":[1.5]', b'"commands":-1', b'"deaths":-1', b'"suspects":[7]',
        b'"suspects":[[7]]', b'"suspects":[[7,-1]]', b'"suspects":[[7,"1"]]',
        b'"suspects":[%s[7,1]]' % (b"[7,1]," * MAX_SUSPECTS),
    ],
)  # fmt: skip
def test_parked_keys_and_suspects_that_make_no_sense_are_refused(more):
    decode_record(sealed(b"entry", MORE % b'"parked":[["a",1,2,3,4]],"suspects":[[7,1]]'))
    with pytest.raises(ProtocolError):
        decode_record(sealed(b"entry", MORE % more))


NEW = (
    b'"window":[5,0,-9],"landmark":[7,9],"generation":2,"tokenTime":8,'
    b'"parked":[["a",1,2,3,4],["b",1,2,3,4]],"parkedIn":[0,2],"parkedTo":[8,0]'
)


@pytest.mark.parametrize(
    "more",
    [
        b'"window":[6]', b'"window":[-9223372036854775803]', b'"window":[true]', b'"window":["1"]',
        b'"window":[[1]]', b'"window":{"1":2}', b'"window":7', b'"window":[null]',
        b'"window":[%s1]' % (b"1," * MAX_WINDOW),
        b'"landmark":[7]', b'"landmark":[7,9,9]', b'"landmark":[7,-1]', b'"landmark":[-1,7]',
        b'"landmark":[7,"9"]', b'"landmark":[7,1.5]', b'"landmark":7', b'"landmark":[7,true]',
        b'"generation":-1', b'"generation":"1"', b'"generation":9223372036854775808',
        b'"tokenTime":-1', b'"tokenTime":1.5', b'"tokenTime":true',
        b'"parkedIn":[1]', b'"parked":[["a",1,2,3,4]],"parkedIn":[1,1]',
        b'"parked":[["a",1,2,3,4]],"parkedIn":[-1]', b'"parked":[["a",1,2,3,4]],"parkedIn":["1"]',
        b'"parked":[["a",1,2,3,4]],"parkedIn":[null]', b'"parked":[["a",1,2,3,4]],"parkedIn":1',
        b'"parked":[["a",1,2,3,4,0]],"parkedIn":[0]',
        b'"parkedTo":[1]', b'"parked":[["a",1,2,3,4]],"parkedTo":[1,1]',
        b'"parked":[["a",1,2,3,4]],"parkedTo":[-1]', b'"parked":[["a",1,2,3,4]],"parkedTo":["1"]',
        b'"parked":[["a",1,2,3,4]],"parkedTo":1',
    ],
)  # fmt: skip
def test_windows_landmarks_and_generations_that_make_no_sense_are_refused(more):
    good = decode_record(sealed(b"entry", MORE % NEW))
    assert [each.counted_to for each in good.parked] == [8, 0]
    assert (good.window, good.landmark, good.generation, good.token_time) == (
        (0, 5, 14),
        (7, 9),
        2,
        8,
    )
    assert [each.generation for each in good.parked] == [0, 2]
    with pytest.raises(ProtocolError):
        decode_record(sealed(b"entry", MORE % more))


def test_as_many_runs_as_a_record_may_have_fit_however_large_they_are():
    step = (2**63 - 1) // (2 * RUNS_A_RECORD + 2)
    edges = range(step, 2**63 - 1, step)
    runs = tuple(zip(edges[::2], edges[1::2], strict=True))[:RUNS_A_RECORD]
    entry = Entry(
        owner="x" * 255, token=2**62, number=2**62, previous=2**62, epoch=2**62, low=0,
        previous_low=0, runs=runs, chunk=254, chunks=256, commands=2**62, deaths=2**62,
        suspects=tuple((2**62 + n, 2**31) for n in range(MAX_SUSPECTS)),
        window=tuple(2**63 - 1 - n for n in range(MAX_WINDOW)), landmark=(2**62, 2**62),
        generation=2**62, token_time=MAX_TOKEN_TIME,
    )  # fmt: skip
    body = encode_record(entry)
    assert len(body) <= MAX_RECORD
    assert decode_record(body) == entry


def test_more_than_fits_is_refused_both_ways():
    with pytest.raises(ProtocolError):
        encode_record(Acquire("x" * MAX_RECORD))
    with pytest.raises(ProtocolError):
        decode_record(sealed(b"acquire", b'{"owner":"%s"}' % (b"x" * MAX_RECORD)))


def test_a_token_of_a_forged_time_is_refused():
    """Whoever writes to the state topic could else make tokens that no database has room for."""
    entry = replace(ENTRY, token_time=MAX_TOKEN_TIME)
    assert decode_record(encode_record(entry)) == entry
    with pytest.raises(ProtocolError, match="a token of the time"):
        decode_record(encode_record(replace(entry, token_time=MAX_TOKEN_TIME + 1)))
