"""What a new owner finds, whatever the former ones left, and what that costs."""

from dataclasses import replace

import pytest

from orderly.errors import NotAvailableYet, OrderlyError, RequestTimeout, TopicNotFound
from orderly.ordering.broker_calls import (
    AppendRecord,
    LockQueues,
    OffsetReset,
    Peek,
    Peeked,
    QueryOffset,
    ReadParked,
    ReadRecords,
    RecordsRead,
    converse,
)
from orderly.ordering.fence import Fence, Landmark
from orderly.ordering.new_group import NewGroup
from orderly.ordering.ownership import Recreated, Resumed, check_generation, resume, take_over
from orderly.ordering.parking import ParkingState
from orderly.ordering.start import StartPosition
from orderly.ordering.state_records import RecordedState
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.state_record import Acquire, Confirm, Entry, decode_record, encode_record
from tests.support.owners import PARK_QUEUE, QUEUE, STATE_QUEUE, StateBroker, parked_message

FIRST, SECOND, THIRD = "first@1", "second@2", "third@3"


@pytest.fixture
def broker():
    return StateBroker()


@pytest.fixture
def inherit(broker):
    return lambda client=SECOND: broker.taken_over(client)


@pytest.fixture
def owner(broker, inherit):
    """The first owner: calling it remembers and commits."""
    memory = inherit(FIRST).memory

    def commit(low, *runs, committed=True, **how):
        dialogue = memory.remember(low, broker.offset, runs, **how)
        converse(dialogue, broker.performer(FIRST))
        broker.offset = low if committed else broker.offset

    commit.memory = memory
    return commit


def close(owner, broker, *runs):
    owner(broker.offset, *runs, closed=True)


def entry_of(broker, client=FIRST, **fields):
    """An entry as the first owner could have sent it."""
    content = {"number": 1, "token": 0, "previous": 1, "epoch": 1, "low": 0, "previous_low": 0}
    runs = {"runs": ((90, 99),), "chunks": 1}
    return encode_record(Entry(**{"owner": client} | content | runs | fields))


# --- the usual ---------------------------------------------------------------------------------


def test_the_first_owner_begins_at_the_committed_offset(broker, inherit):
    broker.offset = 7
    found = inherit()
    assert (found.start, found.fence.written, found.finished) == (7, 7, ())
    assert (found.reset, found.unclean, found.damaged) == (False, False, False)
    assert (found.memory.token, found.memory.epoch, found.memory.generation) == (0, 1, 0)


def test_without_a_committed_offset_the_start_is_committed_first(broker, inherit):
    broker.offset = None
    assert (inherit().start, broker.offset) == (0, 0)


def test_what_is_finished_ahead_is_inherited(owner, inherit):
    owner(3, (5, 7), (9, 10))
    found = inherit()
    assert (found.start, found.finished, found.reset) == (3, ((5, 7), (9, 10)), False)
    assert found.unclean


def test_an_owner_that_died_before_its_commit_hands_on_what_it_remembered(owner, inherit):
    owner(3, (5, 7))
    owner(4, (5, 8), committed=False)
    found = inherit()
    assert (found.start, found.fence.written, found.finished) == (4, 3, ((5, 8),))
    assert not found.reset


def test_a_closed_queue_is_clean(owner, broker, inherit):
    owner(3, (5, 7))
    close(owner, broker, (5, 7))
    found = inherit()
    assert (found.start, found.finished, found.unclean) == (3, ((5, 7),), False)


def test_an_owner_that_left_no_mark_was_unclean(owner, broker, inherit):
    close(owner, broker)
    assert not inherit(SECOND).unclean
    assert inherit(THIRD).unclean


def test_progress_without_anything_ahead_needs_no_record(owner, broker, inherit):
    owner(3, (5, 7))
    owner(7)
    broker.offset = 20
    found = inherit()
    assert (found.start, found.finished, found.reset) == (20, (), False)


def test_tokens_rise_and_take_overs_are_counted(broker, inherit):
    found = [inherit(client) for client in (FIRST, SECOND, THIRD)]
    tokens = [each.memory.token for each in found]
    assert tokens == sorted(set(tokens))
    assert [each.memory.epoch for each in found] == [1, 2, 3]


def test_an_heir_that_wrote_nothing_loses_nothing(owner, inherit):
    owner(3, (5, 7))
    inherit(SECOND)
    assert inherit(THIRD).finished == ((5, 7),)


# --- what it costs -----------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [0, 1, 40])
def test_a_take_over_is_two_appends_a_lock_a_read_an_offset_and_a_look_below_it(
    owner, broker, inherit, commits
):
    runs = tuple((i, i + 1) for i in range(5, 200, 2))
    for count in range(commits):
        owner(3, *runs, (300, 301 + count))
    close(owner, broker)
    broker.calls.clear()
    inherit()
    kinds = (AppendRecord, LockQueues, ReadRecords, QueryOffset, Peek)
    below = 1 if broker.offset else 0
    assert [broker.asked(kind) for kind in kinds] == [2, 1, 1, 1, below]
    assert len(broker.calls) == 5 + below


def test_a_state_behind_many_failed_take_overs_is_found(owner, broker, inherit):
    owner(3, (5, 7))
    broker.log += [encode_record(Acquire(THIRD))] * 100
    broker.calls.clear()
    assert inherit().finished == ((5, 7),)
    assert broker.asked(ReadRecords) == 4


# --- resets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 2, 4, 6, 50])
def test_a_reset_is_obeyed_and_told(owner, broker, inherit, offset):
    owner(1)
    owner(3, (5, 7))
    broker.offset = offset
    found = inherit()
    assert (found.start, found.finished, found.reset) == (offset, (), True)


def test_a_reset_to_the_former_offset_is_obeyed_after_a_clean_end(owner, broker, inherit):
    owner(3, (5, 7))
    owner(4, (5, 7))
    close(owner, broker, (5, 7))
    broker.offset = 3
    assert inherit().reset


def test_a_reset_to_the_former_offset_is_obeyed_once_nothing_is_ahead(owner, broker, inherit):
    owner(3, (5, 7))
    owner(7)
    owner(9)
    broker.offset = 3
    found = inherit()
    assert (found.start, found.reset) == (3, True)


@pytest.mark.parametrize("told", [True, False])
def test_a_reset_to_an_offset_sent_just_before_is_obeyed_by_an_heir_that_is_told_of_it(
    told, owner, broker
):
    """Without the word of the broker it looks as if that had been killed."""
    owner(3, (5, 7))
    owner(4, (5, 8))
    broker.offset, broker.owner = 3, None

    def perform(call):
        nonlocal told
        if isinstance(call, Peek) and told:
            told = False
            raise OffsetReset(QUEUE, 3)
        return broker.answer(call, SECOND)

    obeyed = told
    broker.owner = SECOND
    found = converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), perform)
    assert found.reset == obeyed
    assert (found.start, found.finished) == ((3, ()) if obeyed else (4, ((5, 8),)))
    later = broker.taken_over(SECOND)
    assert (later.start, later.finished) == (found.start, found.finished), "it is on record"


def test_what_a_reset_discarded_does_not_come_back(owner, broker, inherit):
    owner(1)
    owner(3, (5, 7))
    broker.offset = 0
    inherit(SECOND)
    broker.offset = 3
    assert inherit(THIRD).finished == ()


def test_an_offset_that_vanished_is_no_reset(owner, broker, inherit):
    """A broker that was killed forgets it: what is on record is committed again."""
    owner(3, (5, 7))
    broker.offset = None
    found = inherit()
    assert (found.start, found.finished, found.reset) == (3, ((5, 7),), False)
    assert (broker.offset, found.begin.forgotten, found.begin.former) == (3, True, None)


# --- others ------------------------------------------------------------------------------------


def test_without_the_lock_nothing_is_confirmed(broker):
    broker.owner = THIRD
    dialogue = take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first")
    assert converse(dialogue, broker.performer(SECOND)) is None
    assert len(broker.log) == 1


@pytest.mark.parametrize("after", [AppendRecord, LockQueues])
def test_who_is_overtaken_before_it_confirms_gives_up(broker, inherit, after):
    perform = broker.performer(SECOND)
    overtaken = []

    def overtake(call):
        answer = perform(call)
        if isinstance(call, after) and not overtaken:
            overtaken.append(inherit(THIRD))
            broker.owner = SECOND
        return answer

    assert converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), overtake) is None


def test_who_is_overtaken_before_it_reads_gives_up(broker, inherit):
    perform = broker.performer(SECOND)

    def overtake(call):
        if isinstance(call, ReadRecords) and broker.owner == SECOND:
            inherit(THIRD)
        return perform(call)

    broker.owner = SECOND
    assert converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), overtake) is None


def test_what_a_former_owner_sends_after_the_confirmation_does_not_count(owner, broker, inherit):
    owner(3, (5, 7))
    inherit(SECOND)
    broker.log.append(entry_of(broker, number=2, previous=2, low=3, previous_low=3))
    assert inherit(THIRD).finished == ((5, 7),)


def test_what_a_former_owner_sent_before_it_does(owner, broker, inherit):
    owner(3, (5, 7))
    perform = broker.performer(SECOND)

    def late(call):
        if isinstance(call, LockQueues):
            broker.log.append(entry_of(broker, number=2, previous=2, low=3, previous_low=3))
        return perform(call)

    broker.owner = SECOND
    assert converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), late).finished == (
        (90, 99),
    )


def test_a_send_that_arrives_after_a_later_one_does_not_count(owner, broker, inherit):
    owner(3, (5, 7))
    owner(3, (5, 8))
    broker.log.append(entry_of(broker, number=1, previous=1, low=3, previous_low=3))
    assert inherit().finished == ((5, 8),)


def test_half_a_state_does_not_count(owner, broker, inherit):
    owner(3, (5, 7))
    half = entry_of(broker, number=2, previous=2, low=3, previous_low=3, chunk=0, chunks=2)
    broker.log.append(half)
    assert inherit().finished == ((5, 7),)


# --- what is broken ----------------------------------------------------------------------------


def test_instead_of_a_damaged_record_the_one_before_is_taken(owner, broker, inherit):
    owner(3, (5, 7))
    owner(3, (5, 8))
    broker.log[-1] = b"?" + broker.log[-1][1:]
    found = inherit()
    assert (found.finished, found.damaged) == (((5, 7),), True)
    assert found.memory.due(3, 0, ((5, 7),)), "the damage is covered as soon as possible"


def test_with_nothing_readable_the_committed_offset_is_left(owner, broker, inherit):
    owner(3, (5, 7))
    broker.log[-1] = b"?"
    found = inherit()
    assert (found.start, found.finished, found.damaged) == (3, (), True)


def test_what_builds_on_a_damaged_record_is_damaged(owner, broker, inherit):
    runs = tuple((i, i + 1) for i in range(5, 20, 2))
    for count in range(3):
        owner(3, *runs, (30, 31 + count))
    broker.log[-3] = b"?"
    found = inherit()
    assert (found.start, found.finished, found.damaged) == (3, (), True)


def test_what_builds_on_an_expired_record_is_gone(owner, broker, inherit):
    owner(3, (5, 7))
    broker.floor = 3  # of what the take-over wrote nothing is left
    found = inherit()
    assert (found.start, found.finished, found.damaged) == (3, (), False)


@pytest.mark.parametrize("body", [b"orderly-state 2 new", b"orderly-state 1x entry"])
def test_a_record_of_a_newer_release_is_not_passed_over(owner, broker, inherit, body):
    owner(3, (5, 7))
    broker.log.append(body)
    if b" 2 " in body:
        with pytest.raises(NotAvailableYet, match="upgrade"):
            inherit()
    else:
        assert inherit().damaged


# --- parked keys -------------------------------------------------------------------------------

PARKED = ParkingState((ParkedKey("a", 3, 0, 1, 100),), commands=1)


def test_parked_keys_are_inherited_without_a_look_at_the_park_queue(owner, broker, inherit):
    owner(3, (5, 7), kept=PARKED)
    broker.park.append(parked_message("orphan", 9, 0))
    found = inherit()
    assert (found.kept, found.rebuilt) == (PARKED, False)
    assert broker.asked(ReadParked) == 1, "of the first owner, for whom nothing was on record"


def test_a_reset_keeps_parked_keys(owner, broker, inherit):
    owner(3, (5, 7), kept=PARKED)
    broker.offset = 1
    found = inherit()
    assert (found.start, found.finished, found.reset, found.kept) == (1, (), True, PARKED)
    assert inherit(THIRD).kept == PARKED


def test_a_clean_end_hands_them_on(owner, broker, inherit):
    owner(3, kept=PARKED)
    owner(3, kept=PARKED, closed=True)
    assert inherit().kept == PARKED


@pytest.mark.parametrize("damage", [True, False], ids=["damaged", "missing"])
def test_without_a_record_they_are_read_from_the_park_queue(owner, broker, inherit, damage):
    owner(3, (5, 7), kept=PARKED)
    broker.park += [parked_message("a", 3, 0), parked_message("b", 6, 1, attempts=2)]
    if damage:
        broker.log[-1] = b"?"
    else:
        broker.log.clear()
        broker.shown = 0
    found = inherit()
    assert [(p.key, p.next, p.at, p.messages) for p in found.kept.parked] == [
        ("a", 3, 0, 1),
        ("b", 6, 1, 1),
    ]
    assert (found.rebuilt, found.damaged) == (True, damage)
    again = inherit(THIRD)
    assert (again.kept, again.rebuilt) == (found.kept, False), "it is on record at once"
    assert (again.start, again.reset) == (3, False)


def test_an_older_record_is_not_trusted_to_tell_of_parked_keys(owner, broker, inherit):
    """A key may have been parked since: its messages must not be handled."""
    owner(3, (5, 7), kept=PARKED)
    owner(3, (5, 8), kept=ParkingState((*PARKED.parked, ParkedKey("b", 6, 1))))
    broker.log[-1] = b"?"
    broker.park += [parked_message("a", 3, 0), parked_message("b", 6, 1)]
    found = inherit()
    assert [each.key for each in found.kept.parked] == ["a", "b"]
    assert found.finished == ((5, 7),)


def test_that_the_park_queue_is_empty_is_on_record_at_once(broker, inherit):
    assert inherit().rebuilt
    assert [decode_record(body).parked for body in broker.log[2:]] == [()]
    assert not inherit(THIRD).rebuilt
    assert broker.asked(ReadParked) == 1


def test_a_park_queue_that_cannot_be_read_ends_the_take_over(broker):
    perform = broker.performer(SECOND)

    def unreadable(call):
        if isinstance(call, ReadParked):
            raise RequestTimeout("late")
        return perform(call)

    with pytest.raises(
        OrderlyError, match=r"the record of parked keys is gone, and .* cannot be read"
    ) as raised:
        converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), unreadable)
    assert isinstance(raised.value.__cause__, RequestTimeout)


def test_a_crash_between_the_rebuilt_record_and_the_commit_is_no_reset(owner, broker, inherit):
    owner(3, (5, 7))
    owner(7, (9, 11), committed=False)
    broker.log.append(b"?")
    broker.park.append(parked_message("a", 3, 0))
    assert inherit().reset is False
    found = inherit(THIRD)
    assert (found.start, found.finished, found.reset) == (7, ((9, 11),), False)


def test_a_zombie_of_a_lost_past_does_not_count(broker, inherit):
    inherit(FIRST)
    inherit(SECOND)  # token 2, confirmed at 3
    del broker.log[1:]
    broker.shown = 1
    inherit(THIRD)  # token 1, confirmed at 2
    inherit(THIRD)  # token 3, confirmed at 4
    broker.log.append(entry_of(broker, SECOND, token=2, previous=3))
    assert inherit(FIRST).finished == ()
    broker.log.append(entry_of(broker, SECOND, token=3, previous=4))
    assert inherit(FIRST).finished == ()


@pytest.mark.parametrize(
    "wrong",
    [{"previous": 0}, {"previous": 7}, {"previous": 3}, {"token": 1}, {"owner": THIRD}],
)
def test_an_entry_that_follows_nothing_of_its_own_does_not_count(owner, broker, inherit, wrong):
    good = {"number": 2, "previous": 1, "low": 3, "previous_low": 3}
    broker.offset = 3
    broker.log.append(encode_record(replace(decode_record(entry_of(broker, **good)), **wrong)))
    assert inherit().finished == ()


def test_a_confirmation_that_is_not_shown_yet_is_waited_for(broker):
    perform = broker.performer(SECOND)
    reads = []

    def slowly(call):
        if isinstance(call, ReadRecords):
            reads.append(call)
            if len(reads) < 3:
                return RecordsRead((), call.offset, 0)
        return perform(call)

    assert converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), slowly) is not None
    assert all(call.wait for call in reads)


def test_a_confirmation_that_is_never_shown_is_an_error(broker):
    perform = broker.performer(SECOND)

    def hidden(call):
        if isinstance(call, ReadRecords):
            return RecordsRead((), call.offset, 0)
        return perform(call)

    with pytest.raises(OrderlyError, match="cannot be read"):
        converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), hidden)


def test_a_confirmation_that_the_broker_lost_is_none(broker):
    perform = broker.performer(SECOND)

    def losing(call):
        answer = perform(call)
        if isinstance(call, AppendRecord) and len(broker.log) == 2:
            broker.log[1:] = [encode_record(Acquire(THIRD)), encode_record(Confirm(THIRD, 1))]
        return answer

    assert converse(take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), losing) is None


# --- a broker that went back -------------------------------------------------------------------

ENTRY = Entry(
    owner="me", token=0, number=1, previous=1, epoch=1, low=10, previous_low=8, runs=((12, 15),),
    window=(3, 6),
)  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "resumed"),
    [
        (StartPosition(10), Resumed(10, ((12, 15),), reset=False)),
        (StartPosition(8), Resumed(10, ((12, 15),), reset=False)),
        (StartPosition(6), Resumed(10, ((12, 15),), reset=False)),  # it was killed
        (StartPosition(3), Resumed(10, ((12, 15),), reset=False)),
        (StartPosition(10, forgotten=True), Resumed(10, ((12, 15),), reset=False)),
        (StartPosition(2), Resumed(2, (), reset=True)),  # an operator's
        (StartPosition(4), Resumed(4, (), reset=True)),
        (StartPosition(11), Resumed(11, (), reset=True)),
        (StartPosition(10, reset=True), Resumed(10, (), reset=True)),  # the broker says so
        (StartPosition(6, reset=True), Resumed(6, (), reset=True)),
        (StartPosition(0, former=10), Resumed(0, (), reset=False)),  # of another generation
        (StartPosition(10, former=10), Resumed(10, (), reset=False)),
        (StartPosition(6, former=10), Resumed(6, (), reset=False)),
    ],
)
def test_where_to_go_on(begin, resumed):
    assert resume(RecordedState(5, ENTRY, ENTRY.runs, PARKED), begin, takeovers=0) == resumed


@pytest.mark.parametrize(
    ("stored", "start"), [(10, 10), (8, 10), (6, 6), (3, 3)], ids=["low", "before", "6", "3"]
)
def test_with_nothing_ahead_an_offset_of_the_window_is_obeyed_and_discards_nothing(stored, start):
    """Whoever set it, a broker that was killed or an operator."""
    entry = replace(ENTRY, runs=())
    found = resume(RecordedState(5, entry, (), PARKED), StartPosition(stored), takeovers=0)
    assert found == Resumed(start, (), reset=False)


@pytest.mark.parametrize(
    ("stored", "closed", "takeovers", "reset"),
    [(20, False, 0, False), (20, True, 1, False), (20, True, 0, True), (4, False, 1, True)],
)
def test_with_nothing_ahead_an_offset_further_on_is_progress(stored, closed, takeovers, reset):
    entry = replace(ENTRY, runs=(), closed=closed)
    found = resume(RecordedState(5, entry, (), PARKED), StartPosition(stored), takeovers)
    assert found == Resumed(stored, (), reset=reset)


def test_what_a_killed_broker_comes_back_with_is_no_reset(owner, broker, inherit):
    fence = Fence(0)
    for low in range(1, 30):  # keys are parked: a commit each
        owner(low, (40, 45), fence=fence)
        fence.note(low, 1.0 + low * 0.01)
    for stored in range(30):
        broker.offset = stored
        found = inherit(f"heir@{stored}")
        assert (found.start, found.finished, found.reset) == (29, ((40, 45),), False)
        assert found.fence.written == stored


def test_an_heir_knows_what_its_former_owner_sent_and_so_does_the_next(owner, broker, inherit):
    fence = Fence(3)
    fence.note(5, 1.0)
    owner(7, (9, 11), fence=fence)
    for client in (SECOND, THIRD):
        found = inherit(client)
        assert {3, 5, 7} <= set(found.fence.window)
        assert found.fence.written == 7


# --- a topic that was made anew ----------------------------------------------------------------


@pytest.fixture
def recreated(owner, broker):
    """The first owner left runs and a parked key; then the topic was made anew."""
    fence = Fence(0, landmark=broker.landmark(14))
    owner(10, (12, 15), kept=PARKED, fence=fence)

    def make(end=200, **how):
        broker.made_anew(end, **how)

    return make


@pytest.mark.parametrize("end", [0, 5, 10, 200])
@pytest.mark.parametrize("minimum", [0, 4])
def test_in_a_new_generation_everything_from_its_minimum_on_is_to_come(
    recreated, broker, inherit, end, minimum
):
    recreated(max(end, minimum), minimum=minimum)
    found = inherit()
    assert (found.start, broker.offset, found.finished, found.reset) == (
        minimum,
        minimum,
        (),
        False,
    )
    assert (found.begin.former, found.memory.generation) == (10, 1)
    assert found.fence.written == minimum


def test_an_offset_of_the_former_one_that_a_killed_broker_brings_back_passes_nothing_over(
    recreated, broker, inherit
):
    """It is on its disk still, when the topic was deleted and the start committed just before."""
    recreated()
    inherit(SECOND)
    broker.offset = 10
    found = inherit(THIRD)
    assert (found.start, found.reset, found.memory.generation) == (0, False, 1)
    assert found.fence.explains(10)


def test_parked_keys_are_kept_and_known_to_be_of_the_former_one(recreated, inherit):
    recreated()
    found = inherit()
    assert found.kept == PARKED
    assert [each.generation for each in found.kept.parked] == [0]
    again = inherit(THIRD)
    assert (again.kept, again.memory.generation) == (PARKED, 1)


def test_it_is_on_record_at_once_and_nothing_of_the_former_one_comes_back(
    recreated, broker, inherit
):
    recreated()
    inherit()
    for stored in (10, 0):  # offsets of both: those of the new one count
        broker.offset = stored
        found = inherit(THIRD)
        assert (found.begin.former, found.memory.generation) == (None, 1)
        assert found.finished == ()


@pytest.mark.parametrize("stored", [0, 10], ids=["the minimum", "our old one"])
def test_an_offset_that_was_committed_before_it_was_found_out_does_not_hide_it(
    recreated, broker, inherit, stored
):
    """`check_generation` commits the minimum; a member of an older release what it had."""
    recreated()
    broker.offset = stored
    found = inherit()
    assert (found.start, found.finished, found.memory.generation) == (0, (), 1)


@pytest.mark.parametrize("stored", [2, 6, 11, 150, 300])
def test_the_record_is_the_latest_word_so_an_offset_that_is_not_on_it_counts_for_nothing(
    recreated, broker, inherit, stored
):
    """It may be of the former generation, by a broker that was killed: nothing is passed over."""
    recreated()
    broker.offset = stored
    found = inherit()
    assert (found.start, found.finished, found.memory.generation) == (0, (), 1)
    assert broker.offset == 0


def test_an_offset_that_is_set_once_the_new_one_is_on_record_is_obeyed(recreated, broker, inherit):
    recreated()
    inherit(SECOND)
    broker.offset = 6
    found = inherit(THIRD)
    assert (found.start, found.finished, found.memory.generation) == (6, (), 1)


def test_what_its_owner_puts_on_record_is_what_the_heir_finds(recreated, broker, inherit):
    """`check_generation` of an owner that holds the queue: not counted again."""
    first = inherit(SECOND)
    recreated()
    dialogue = check_generation(QUEUE, first.fence, first.memory, first.kept)
    with pytest.raises(Recreated):
        converse(dialogue, broker.performer(SECOND))
    found = inherit(THIRD)
    assert (found.start, found.finished, found.kept) == (0, (), PARKED)
    assert (found.begin.former, found.memory.generation, found.reset) == (None, 1, False)


def test_nor_does_one_it_brings_back_after_the_owner_itself_began_anew(recreated, broker, inherit):
    first = inherit(SECOND)
    recreated()
    dialogue = check_generation(QUEUE, first.fence, first.memory, first.kept)
    with pytest.raises(Recreated):
        converse(dialogue, broker.performer(SECOND))
    broker.offset = 10  # of the former one
    assert inherit(THIRD).start == 0


def test_generations_are_counted(owner, broker, inherit):
    for generation in range(1, 4):
        fence = Fence(broker.offset, landmark=broker.landmark(14))
        found = inherit(FIRST)
        dialogue = found.memory.remember(10, broker.offset, ((12, 15),), fence=fence)
        converse(dialogue, broker.performer(FIRST))
        broker.made_anew(200)
        assert inherit(f"heir@{generation}").memory.generation == generation


def test_without_a_landmark_it_cannot_be_noticed_and_nothing_is_counted(owner, broker, inherit):
    owner(10, (12, 15))
    broker.made_anew(200)
    found = inherit()
    assert (found.begin.former, found.memory.generation, found.begin.forgotten) == (None, 0, True)


def test_keys_that_are_rebuilt_are_of_the_generation_that_was_on_record(recreated, broker, inherit):
    """They were parked before this take-over; only the newest record is damaged."""
    recreated()
    second = inherit(SECOND).memory
    broker.park += [parked_message("a", 3, 0), parked_message("b", 6, 1)]
    dialogue = second.remember(3, 0, ((5, 7),), PARKED)
    converse(dialogue, broker.performer(SECOND))
    broker.log.append(b"?")
    found = inherit(THIRD)
    assert (found.rebuilt, found.memory.generation) == (True, 1)
    assert [(p.key, p.generation) for p in found.kept.parked] == [("a", 0), ("b", 1)]


# --- a state topic that was made anew ----------------------------------------------------------


def test_the_token_rises_over_a_state_topic_that_was_made_anew(owner, broker, inherit):
    before = [inherit(f"heir@{n}").memory for n in range(5)]
    broker.state_made_anew(later=2000)
    after = [inherit(f"later@{n}").memory for n in range(3)]
    assert after[0].token < before[-1].token, "the offset of a record begins again"
    tokens = [memory.fencing_token for memory in (*before, *after)]
    assert tokens == sorted(set(tokens))


def test_the_token_is_made_of_when_its_owner_was_confirmed(broker, inherit):
    memory = inherit().memory
    confirmed = broker.born + memory.token + 1 - 1_577_836_800_000
    assert memory.fencing_token == (confirmed << 22) + memory.token
    assert 0 < memory.fencing_token < 2**63


def test_the_token_rises_though_the_brokers_clock_is_set_back(owner, broker, inherit):
    owner(3, (5, 7))
    tokens = [inherit(SECOND).memory.fencing_token]
    broker.born -= 10_000_000
    tokens.append(inherit(THIRD).memory.fencing_token)
    assert tokens == sorted(set(tokens))


def test_the_token_rises_though_the_last_records_are_lost(owner, broker, inherit):
    owner(3, (5, 7))
    left = len(broker.log)
    tokens = [inherit(SECOND).memory.fencing_token]
    del broker.log[left:]
    broker.shown = min(broker.shown, left)
    broker.born += 2000  # it takes a broker longer to be back
    tokens.append(inherit(THIRD).memory.fencing_token)
    assert tokens == sorted(set(tokens))


def test_a_state_topic_that_is_missing_ends_the_take_over(broker):
    broker.missing = True
    with pytest.raises(TopicNotFound):
        converse(
            take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "first"), broker.performer(SECOND)
        )


# --- the first owner ---------------------------------------------------------------------------


def test_a_start_that_was_chosen_is_on_record_before_anything_is_pulled(broker):
    """The broker may be killed before it writes it down, and messages come in the meantime."""
    broker.offset, broker.end = None, 20
    broker.new_group = NewGroup({QUEUE: Peeked(broker.stored_at(19), 20)})
    dialogue = take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, FIRST, "last")
    assert converse(dialogue, broker.performer(FIRST)).start == 20
    (entry,) = map(decode_record, broker.log[2:])
    assert (entry.low, entry.runs, entry.landmark) == (20, (), (19, broker.stored_at(19)))
    broker.offset, broker.end, broker.owner, broker.new_group = None, 50, SECOND, None
    dialogue = take_over(QUEUE, STATE_QUEUE, PARK_QUEUE, SECOND, "last")
    found = converse(dialogue, broker.performer(SECOND))
    assert (found.start, found.begin.forgotten, broker.offset) == (20, True, 20)


def test_what_the_record_of_a_former_release_does_not_tell_is_not_guessed(broker, inherit):
    broker.log += [encode_record(Acquire(FIRST)), encode_record(Confirm(FIRST, 0))]
    broker.log.append(entry_of(broker, low=10, previous_low=8))
    broker.offset = 8
    found = inherit()
    assert (found.start, found.finished, found.reset) == (10, ((90, 99),), False)
    assert (found.memory.generation, found.begin.landmark) == (0, Landmark(7, broker.stored_at(7)))


# --- what cannot be so ---------------------------------------------------------------------------


def test_nothing_is_finished_that_is_not_stored_yet(owner, broker, inherit):
    owner(3, (5, 2000))
    assert inherit().finished == ((5, 1000),)


def test_nor_is_an_offset_beyond_the_log_gone_on_from(owner, broker, inherit):
    broker.offset = 3
    owner(1001, (1005, 1007), committed=False)
    found = inherit()
    assert (found.start, found.finished, found.reset) == (3, (), True)


def test_where_the_end_was_not_told_a_record_is_believed(owner, broker, inherit):
    owner(3, (5, 2000))
    broker.unreadable = frozenset({2})
    assert inherit().finished == ((5, 2000),)
