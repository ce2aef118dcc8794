"""What an owner puts on record, and when."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import LockLost, OrderlyError, RequestTimeout
from orderly.ordering import state_records
from orderly.ordering.broker_calls import AppendRecord, ReadRecords, converse
from orderly.ordering.fence import Fence, Landmark
from orderly.ordering.offset_runs import finished_runs
from orderly.ordering.parking import NOTHING_PARKED, ParkingState
from orderly.ordering.state_records import (
    MAX_CHANGES,
    RecordPart,
    StateContent,
    StateWriter,
    change,
)
from orderly.protocol.java_json import dumps
from orderly.protocol.parked_key import MOST_OF_KEY, PARKED_KEY, ParkedKey
from orderly.protocol.state_record import (
    MAX_RECORD,
    MAX_RUNS,
    MAX_TOKEN_TIME,
    RUN_BYTES,
    RUNS_A_RECORD,
    Acquire,
    Confirm,
    Entry,
    Trying,
    decode_record,
    encode_record,
)
from tests.support.owners import STATE_QUEUE, StateBroker

# --- content --------------------------------------------------------------------------------------
# What a change says, and when it is written instead of everything.


numbers = st.integers(0, 3)
keys = st.one_of(st.sampled_from(["a", "b", "c" * 30, "d" * 300]), numbers)
tables = st.dictionaries(keys, numbers, max_size=6)
runs = st.sampled_from([(), ((5, 7),), ((5, 7), (9, 10)), ((9, 10),)])


def remembered(table, runs):
    parked = sorted((ParkedKey(key, at, at) for key, at in table.items()), key=str)
    return StateContent(runs=runs, kept=ParkingState(tuple(parked)))


def size(part):
    parked = [[*PARKED_KEY.write(it), it.generation, it.counted_to] for it in part.parked]
    told = parked + list(part.released)
    return len(part.runs) * RUN_BYTES + sum(len(dumps(each)) + 1 for each in told)


@given(tables, tables, runs, runs)
def test_a_change_is_written_if_it_is_less_than_everything(before, after, runs_before, runs_after):
    last, content = remembered(before, runs_before), remembered(after, runs_after)
    told = RecordPart(
        tuple(run for run in runs_after if run not in runs_before),
        tuple(each for each in content.kept.parked if each not in last.kept.parked),
        tuple(each.key for each in last.kept.parked if each.key not in after),
    )
    can_say = set(runs_before) <= set(runs_after)
    less = size(told) < size(RecordPart(runs_after, content.kept.parked))
    assert change(last, content) == (told if can_say and less else None)


# --- memory ---------------------------------------------------------------------------------------
# What an owner writes, when, how much, and when it learns that it is no longer the owner.


ME, OTHER = "me@1", "other@2"


@pytest.fixture
def broker():
    return StateBroker()


@pytest.fixture
def memory(broker):
    return broker.taken_over(ME).memory


@pytest.fixture
def remember(broker, memory):
    def write(low, previous_low, *runs, **how):
        converse(memory.remember(low, previous_low, runs, **how), broker.performer(ME))

    return write


def entries(broker):
    """All but the first, which a take-over writes where nothing is on record."""
    found = [record for record in map(decode_record, broker.log) if isinstance(record, Entry)]
    return found[1:]


def every_other(count, low=0):
    """That many runs of one offset."""
    return tuple((low + 2 * i + 1, low + 2 * i + 2) for i in range(count))


# --- when --------------------------------------------------------------------------------------


def test_nothing_finished_ahead_writes_nothing(broker, memory, remember):
    for low in range(5):
        assert not memory.due(low + 1, low, ())
        remember(low + 1, low)
    assert not entries(broker)


def test_what_is_ahead_is_written_once(broker, memory, remember):
    remember(3, 0, (5, 7))
    assert not memory.due(3, 0, ((5, 7),))
    remember(3, 0, (5, 7))
    assert len(entries(broker)) == 1


@pytest.mark.parametrize(
    ("low", "previous_low", "runs"), [(3, 0, ((5, 8),)), (4, 0, ((5, 7),)), (3, 3, ((5, 7),))]
)
def test_any_change_is_due_while_something_is_ahead(memory, remember, low, previous_low, runs):
    remember(3, 0, (5, 7))
    assert memory.due(low, previous_low, runs)


def test_nothing_ahead_any_longer_is_written_and_settled_and_then_there_is_peace(broker, remember):
    remember(3, 0, (5, 7))
    remember(7, 3)
    remember(9, 7)  # the broker is known to have 7
    for low in range(9, 15):
        remember(low + 1, low)
    assert [(e.low, e.previous_low, e.runs) for e in entries(broker)] == [
        (3, 0, ((5, 7),)),
        (7, 3, ()),
        (7, 7, ()),
    ]


def test_closing_and_refreshing_write_in_any_case(broker, memory, remember):
    remember(5, 5, refresh=True)
    remember(6, 6, closed=True)
    assert [(e.low, e.previous_low, e.closed) for e in entries(broker)] == [
        (5, 5, False),
        (6, 6, True),
    ]
    assert memory.closed


def test_what_may_not_be_written_is_due_again(broker, memory):
    def cut_off(call):
        raise RequestTimeout("no answer")

    with pytest.raises(RequestTimeout):
        converse(memory.remember(3, 0, ((5, 7),)), cut_off)
    assert memory.due(3, 0, ((5, 7),))
    assert memory.due(0, 0, ())


def test_what_the_fence_knows_is_written_along_and_makes_no_record_due(broker, memory, remember):
    fence = Fence(3, landmark=Landmark(6, 1_700_000_000_060))
    remember(5, 3, (6, 7), fence=fence)
    written = len(broker.log)
    fence.note(4, 1.0)
    fence.landmark = Landmark(9, 1_700_000_000_090)
    assert not memory.due(5, 3, ((6, 7),))
    remember(5, 3, (6, 7), fence=fence)
    assert len(broker.log) == written
    remember(5, 3, (6, 8), fence=fence)
    assert [(e.window, e.landmark) for e in entries(broker)] == [
        ((3,), (6, 1_700_000_000_060)),
        ((3, 4), (9, 1_700_000_000_090)),
    ]


def test_the_first_landmark_makes_a_record_due_and_no_later_one(broker, memory, remember):
    """Without it on record nobody could prove a new generation; afterwards it stays."""
    fence = Fence(3)
    assert not memory.due(3, 3, (), fence=fence)
    fence.landmark = Landmark(6, 1_700_000_000_060)
    assert memory.due(3, 3, (), fence=fence)
    remember(3, 3, fence=fence)
    assert [e.landmark for e in entries(broker)] == [(6, 1_700_000_000_060)]
    assert not memory.due(3, 3, (), fence=fence)
    remember(3, 3, fence=fence)
    assert len(entries(broker)) == 1


def test_an_heir_owes_no_record_for_a_landmark_that_is_there(broker, remember):
    fence = Fence(3, landmark=Landmark(6, 1_700_000_000_060))
    remember(3, 3, fence=fence, closed=True)
    broker.offset = 3
    assert not broker.taken_over(OTHER).memory.due(3, 3, (), fence=fence)


def test_the_record_of_a_new_generation_has_its_minimum_the_keys_and_nothing_else(
    broker, memory, remember
):
    kept = ParkingState((ParkedKey("a", 3, 0),))
    fence = Fence(3, landmark=Landmark(6, 1_700_000_000_060))
    remember(5, 3, (6, 7), kept=kept, fence=fence)
    converse(memory.begin_generation(2, kept), broker.performer(ME))
    entry = entries(broker)[-1]
    assert (entry.low, entry.previous_low, entry.runs) == (2, 2, ())
    assert (entry.landmark, entry.generation) == (None, 1)
    assert (entry.parked, entry.closed) == (kept.parked, False)
    assert memory.due(2, 2, (), kept, fence=fence), "its first landmark is to be written yet"


def test_a_new_generation_is_counted_once_however_often_it_is_written(broker, memory):
    def lost(call):
        broker.answer(call, ME)
        raise RequestTimeout("its answer was lost")

    with pytest.raises(RequestTimeout):
        converse(memory.begin_generation(0, NOTHING_PARKED), lost)
    converse(memory.begin_generation(0, NOTHING_PARKED), broker.performer(ME))
    assert [entry.generation for entry in entries(broker)] == [1, 1]
    assert broker.taken_over(OTHER).memory.generation == 1


def test_each_record_tells_the_generation_and_the_time_of_its_token(broker):
    broker.state_made_anew()
    memory = broker.taken_over(ME).memory
    converse(memory.remember(3, 0, ((5, 7),)), broker.performer(ME))
    converse(memory.remember(3, 0, ((5, 8),)), broker.performer(ME))
    (told,) = {(e.generation, e.token_time) for e in entries(broker)}
    assert told == (0, (memory.fencing_token - memory.token >> 22) + 1_577_836_800_000)


@given(st.integers(0, 3_700_000_000_000), st.integers(0, 2**31), st.integers(0, 2**31))
def test_fencing_tokens_rise_with_the_offset_and_with_the_second(moment, offset, more):
    def token(moment, offset):
        settings = {
            "confirm": offset + 1,
            "epoch": 1,
            "found": StateContent(),
            "token_time": moment,
        }
        return StateWriter(STATE_QUEUE, ME, offset, **settings).fencing_token

    later = max(moment, 1_577_836_800_000) + 1000
    assert token(moment, offset) < token(moment, offset + 1 + more)
    assert token(moment, offset) < token(later, 0)
    assert 0 <= token(moment, offset) < 2**63


# --- how much ----------------------------------------------------------------------------------


def test_a_change_costs_what_is_new(broker, remember):
    runs = every_other(100)
    remember(0, 0, *runs)
    remember(0, 0, *runs, (300, 305))
    assert entries(broker)[-1].runs == ((300, 305),)
    assert broker.taken_over(OTHER).finished == (*runs, (300, 305))


def test_what_the_offset_passed_is_no_longer_finished_ahead(broker, remember):
    remember(0, 0, *every_other(10))
    later = (*every_other(10)[4:], (300, 301))
    remember(8, 0, *later)
    assert entries(broker)[-1].runs == ((300, 301),)
    broker.offset = 8
    assert broker.taken_over(OTHER).finished == later


def test_everything_is_written_again_after_some_changes(broker, remember):
    for count in range(2, MAX_CHANGES + 5):
        remember(0, 0, *every_other(count))
    kinds = [entry.chunks for entry in entries(broker)]
    assert kinds == [1] + [0] * MAX_CHANGES + [1, 0]


def test_what_a_change_cannot_say_is_written_whole(broker, remember):
    remember(0, 0, *every_other(10))
    remember(0, 0, *every_other(9))  # one less
    assert entries(broker)[-1].chunks == 1
    assert broker.taken_over(OTHER).finished == every_other(9)


def test_a_large_state_takes_several_records(broker, remember):
    runs = every_other(2 * RUNS_A_RECORD + 1)
    remember(0, 0, *runs)
    assert [(e.chunk, e.chunks) for e in entries(broker)] == [(0, 3), (1, 3), (2, 3)]
    assert broker.taken_over(OTHER).finished == runs


def test_beyond_the_limit_the_highest_are_left_out(broker, memory, monkeypatch):
    assert MAX_RUNS >= 1_000_000
    monkeypatch.setattr(state_records, "MAX_RUNS", 3)
    converse(memory.remember(0, 0, every_other(5)), broker.performer(ME))
    assert broker.taken_over(OTHER).finished == every_other(3)


# --- parked keys -------------------------------------------------------------------------------

ONE = ParkingState((ParkedKey("a", 3, 0),))


def test_a_parked_key_is_due_at_once_though_nothing_is_ahead(broker, memory, remember):
    assert memory.due(0, 0, (), ONE)
    remember(0, 0, kept=ONE)
    assert not memory.due(0, 0, (), ONE)
    assert memory.recorded("a")
    assert not memory.recorded("b")


def test_what_may_not_be_stored_is_not_recorded(memory):
    def cut_off(call):
        raise RequestTimeout("no answer")

    with pytest.raises(RequestTimeout):
        converse(memory.remember(0, 0, (), ONE), cut_off)
    assert not memory.recorded("a")
    assert memory.due(0, 0, (), ONE)


def test_what_may_have_been_taken_off_the_record_is_not_recorded(broker, memory, remember):
    remember(0, 0, kept=ONE)

    def lose_the_reply(call):
        broker.answer(call, ME)
        raise RequestTimeout("no answer")

    with pytest.raises(RequestTimeout):
        converse(memory.remember(0, 0, ()), lose_the_reply)
    assert not memory.recorded("a")
    remember(0, 0, kept=ONE)
    assert memory.recorded("a")


def test_a_key_on_record_stays_so_while_another_is_written(memory, remember):
    """Or each parked message would cost a record as soon as two keys are parked."""
    remember(0, 0, kept=ONE)
    both = ParkingState((*ONE.parked, ParkedKey("b", 4, 1)))

    def look_and_fail(call):
        assert memory.recorded("a")
        assert not memory.recorded("b")
        raise RequestTimeout("no answer")

    with pytest.raises(RequestTimeout):
        converse(memory.remember(0, 0, (), both), look_and_fail)
    assert memory.recorded("a")


def test_while_a_key_stays_parked_the_offset_moves_without_a_record(broker, memory, remember):
    remember(0, 0, kept=ONE)
    for low in range(9):
        remember(low + 1, low, kept=ONE)
    assert len(entries(broker)) == 1
    broker.offset = 9
    heir = broker.taken_over(OTHER)
    assert (heir.start, heir.kept, heir.reset) == (9, ONE, False)


def test_a_change_names_keys_that_are_new_changed_or_gone(broker, remember):
    keys = {name: ParkedKey(name, 3, 0, 1, 10) for name in "abcdefgh"}
    remember(0, 0, kept=ParkingState(tuple(keys.values()), 1))
    del keys["b"]
    keys["c"] = ParkedKey("c", 3, 0, 2, 20)
    keys["i"] = ParkedKey("i", 5, 4)
    remember(0, 0, kept=ParkingState(tuple(keys.values()), 7))
    change = entries(broker)[-1]
    assert (change.chunks, change.parked, change.released) == (0, (keys["c"], keys["i"]), ("b",))
    assert change.commands == 7
    assert broker.taken_over(OTHER).kept == ParkingState(tuple(keys.values()), 7)


def test_the_last_key_that_goes_leaves_nothing(broker, remember):
    remember(0, 0, kept=ONE)
    remember(0, 0)
    assert broker.taken_over(OTHER).kept == ParkingState()


def test_many_parked_keys_take_records_of_their_own(broker, remember):
    long = "x" * (MOST_OF_KEY - 10)
    parked = tuple(ParkedKey(f"{n:04}{long}", 2**62, 2**62, 2**62, 2**62) for n in range(1000))
    runs = every_other(RUNS_A_RECORD + 1)
    remember(0, 0, *runs, kept=ParkingState(parked, 2**62))
    assert max(map(len, broker.log)) <= MAX_RECORD
    assert [bool(e.parked) for e in entries(broker)] == [True] * 6 + [False] * 2
    heir = broker.taken_over(OTHER)
    assert (heir.finished, heir.kept) == (runs, ParkingState(parked, 2**62))


def test_a_change_that_does_not_fit_is_written_whole(broker, remember):
    long = "x" * (MOST_OF_KEY - 10)
    parked = tuple(ParkedKey(f"{n:04}{long}", 1, 1) for n in range(600))
    remember(0, 0, kept=ParkingState(parked[:300]))
    remember(0, 0, kept=ParkingState(parked))
    assert entries(broker)[-1].chunks == 3
    assert broker.taken_over(OTHER).kept == ParkingState(parked)


def test_what_cannot_be_on_record_is_an_error_and_not_left_out(broker, memory):
    long = "x" * (MOST_OF_KEY - 10)
    parked = tuple(ParkedKey(f"{n:05}{long}", 1, 1) for n in range(13_000))
    with pytest.raises(OrderlyError, match="release some"):
        converse(memory.remember(0, 0, (), ParkingState(parked)), broker.performer(ME))
    assert not entries(broker)


END = 60
KEPT = st.builds(
    lambda keys, commands: ParkingState(
        tuple(ParkedKey(k, n, n) for k, n in sorted(keys.items())), commands
    ),
    st.dictionaries(st.integers(0, 6), st.integers(0, 3), max_size=4),
    st.integers(0, 3),
)
STEPS = st.lists(
    st.tuples(
        st.sets(st.integers(0, END - 1), min_size=1, max_size=6),
        st.sampled_from(["done"] * 4 + ["refresh", "request lost", "reply lost"]),
        KEPT,
    ),
    min_size=1,
    max_size=25,
)


@given(STEPS, st.integers(1, 32))
def test_whatever_is_remembered_last_is_inherited(steps, block):
    broker = StateBroker(block=block)
    memory, stored, finished = broker.taken_over(ME).memory, 0, set()
    for more, fate, kept in [*steps, (set(), "done", steps[-1][2])]:
        finished |= more
        low = next(offset for offset in range(END + 1) if offset not in finished)
        runs = finished_runs(sorted(set(range(END)) - finished), low, END)
        dialogue = memory.remember(low, stored, runs, kept, refresh=fate == "refresh")
        try:
            converse(dialogue, partial(perform_with, fate, broker))
        except RequestTimeout:
            continue
        broker.offset = stored = low
    heir = broker.taken_over(OTHER)
    assert (heir.start, heir.finished, heir.reset) == (low, runs, False)
    assert heir.kept == kept


def perform_with(fate, broker, call):
    if fate == "request lost":
        raise RequestTimeout("no answer")
    answer = broker.answer(call, ME)
    if fate == "reply lost":
        raise RequestTimeout("no answer")
    return answer


# --- the fence ---------------------------------------------------------------------------------


def append(broker, record):
    broker.log.append(record if isinstance(record, bytes) else encode_record(record))


def test_one_append_is_all_that_a_commit_costs(broker, remember):
    broker.calls.clear()
    remember(3, 0, (5, 7))
    remember(3, 3, (5, 8))
    assert [type(call) for call in broker.calls] == [AppendRecord, AppendRecord]


def test_a_confirmed_successor_ends_it(broker, remember):
    remember(3, 0, (5, 7))
    broker.taken_over(OTHER)
    for _ in range(2):
        with pytest.raises(LockLost, match="confirmed"):
            remember(3, 3, (5, 8))


def test_a_successor_that_is_not_confirmed_ends_nothing(broker, remember):
    append(broker, Acquire(OTHER))
    append(broker, Confirm(OTHER, 0))  # and neither does a former owner
    remember(3, 0, (5, 7))
    assert broker.asked(ReadRecords) == 2
    remember(3, 3, (5, 8))
    assert broker.asked(ReadRecords) == 2


def test_a_send_that_was_stored_without_a_reply_ends_nothing(broker, memory, remember):
    perform = broker.performer(ME)

    def lose_the_reply(call):
        perform(call)
        raise RequestTimeout("no answer")

    with pytest.raises(RequestTimeout):
        converse(memory.remember(3, 0, ((5, 7),)), lose_the_reply)
    remember(4, 0, (5, 8))
    broker.offset = 4
    assert broker.taken_over(OTHER).finished == ((5, 8),)


def test_what_its_owner_is_trying_ends_nothing(broker, remember):
    remember(3, 0, (5, 7))
    append(broker, Trying(ME, 0, 4))
    remember(3, 3, (5, 8))
    append(broker, Trying(ME, 0, 4))
    broker.offset = 3
    heir = broker.taken_over(OTHER)
    assert (heir.finished, heir.damaged, heir.memory.epoch) == (((5, 8),), False, 2)


@pytest.mark.parametrize("unreadable", [b"garbage", b"orderly-state 2 whatever"])
def test_what_cannot_be_read_may_have_been_a_successor(broker, remember, unreadable):
    append(broker, unreadable)
    with pytest.raises(LockLost):
        remember(3, 0, (5, 7))


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_log_that_lost_its_end_ends_it(broker, remember, lost):
    remember(3, 0, (5, 7))
    remember(3, 3, (5, 8))
    del broker.log[-lost:]
    broker.shown = len(broker.log)
    with pytest.raises(LockLost):
        remember(4, 3, (5, 9))


def test_a_log_that_lost_its_end_and_grew_again_ends_it(broker, remember):
    remember(3, 0, (5, 7))
    del broker.log[1:]
    broker.shown = 1
    for _ in range(4):
        append(broker, Acquire(OTHER))
    with pytest.raises(LockLost):
        remember(4, 3, (5, 9))


def test_the_greatest_token_fits_into_63_bits():
    settings = {"confirm": 0, "epoch": 1, "found": StateContent(), "token_time": MAX_TOKEN_TIME}
    memory = StateWriter(STATE_QUEUE, ME, (1 << 22) - 1, **settings)
    assert memory.fencing_token == (1 << 63) - 1
