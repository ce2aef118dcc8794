"""Parked keys of a queue: the table, its limits, and where the messages are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.config.consumer import ParkLimits
from orderly.errors import (
    ConfigError,
    LockLost,
    NotAvailableYet,
    OrderlyError,
    ProtocolError,
    RequestTimeout,
)
from orderly.model import MessageQueue, UndecodableMessage
from orderly.ordering.broker_calls import LockQueues, ParkedRead, converse
from orderly.ordering.parking import (
    FREE,
    WINDOW,
    KeyIndex,
    KeyRatio,
    ParkedKeys,
    ParkedPlace,
    ParkingState,
    limit_reached,
    parked_of,
    rebuild,
)
from orderly.protocol.park_record import (
    PARKED,
    Command,
    ParkMessage,
    Released,
    Result,
    Verb,
    control_message,
    read_parked,
)
from orderly.protocol.parked_key import ParkedKey
from orderly.protocol.record_format import SEAL
from tests.support.owners import PARK_QUEUE, QUEUE, parked_message, stored

# --- keys -----------------------------------------------------------------------------------------
# The table of parked keys: what is on record of them follows from what was noted.


def table(*parked, commands=0):
    return ParkedKeys(ParkingState(parked, commands))


def test_the_first_message_noted_parks_its_key():
    parking = table()
    assert not parking.parked("a")
    parking.note("a", offset=7, position=3, size=10)
    assert parking.parked("a")
    assert parking.get("a") == ParkedKey("a", next=7, at=3, messages=1, size=10, counted_to=8)
    assert (len(parking), parking.messages, parking.size) == (1, 1, 10)


def test_later_ones_are_counted_and_the_newest_position_is_kept():
    parking = table()
    for offset in (7, 9, 12):
        parking.note("a", offset, position=offset + 1, size=10)
    assert parking.get("a") == ParkedKey("a", next=7, at=8, messages=3, size=30, counted_to=13)
    assert parking.last_position("a") == 13


def test_what_was_appended_again_counts_once():
    parking = table()
    parking.note("a", 7, position=3, size=10)
    parking.note("a", 9, position=4, size=10)
    parking.note("a", 9, position=5, size=10)
    assert (parking.messages, parking.size, parking.last_position("a")) == (2, 20, 5)


def test_an_offset_below_the_next_one_is_to_be_replayed_again():
    """The committed offset was set back: these were settled before."""
    parking = table(ParkedKey("a", next=20, at=4, messages=2, size=20, counted_to=23))
    for offset in (5, 6, 20, 22):
        parking.note("a", offset, position=9, size=10)
    after = ParkedKey("a", next=5, at=4, messages=4, size=40, counted_to=23)
    assert parking.get("a") == after, "the other two were counted before"


def test_what_an_heir_appends_again_was_counted_by_the_former_owner():
    parking = table(ParkedKey("a", next=7, at=4, messages=2, size=20, counted_to=10))
    for offset in (7, 9, 11, 11):
        parking.note("a", offset, position=offset, size=10)
    assert parking.get("a") == ParkedKey("a", next=7, at=4, messages=3, size=30, counted_to=12)
    parking.release("a")
    parking.note("a", 8, position=20, size=10)
    assert parking.messages == 1, "it is parked anew"


def test_what_an_older_release_counted_is_not_known():
    parking = table(ParkedKey("a", next=7, at=4, messages=1, size=10))
    parking.note("a", 7, position=9, size=10)
    assert parking.messages == 2


def test_of_an_inherited_key_the_newest_position_is_not_known():
    parking = table(ParkedKey("a", next=20, at=4))
    assert parking.last_position("a") == 4


def test_progress_of_a_replay_is_noted():
    parking = table(ParkedKey("a", next=7, at=3, messages=5, size=50))
    parking.settled("a", 9, messages=2, size=20)
    assert parking.get("a") == ParkedKey("a", next=9, at=3, messages=3, size=30)
    parking.settled("a", 10, messages=9, size=90)
    assert parking.get("a") == ParkedKey("a", next=10, at=3, messages=0, size=0)
    assert (parking.messages, parking.size) == (0, 0)


def test_a_released_key_is_gone_and_can_be_put_back():
    parking = table(ParkedKey("a", 7, 3, 5, 50), ParkedKey("b", 1, 1, 1, 1))
    parking.note("a", 30, position=90, size=10)
    before = parking.get("a")
    parking.release("a")
    assert not parking.parked("a")
    assert (len(parking), parking.messages, parking.size) == (1, 1, 1)
    parking.restore(before)
    assert parking.get("a") == before
    assert parking.last_position("a") == 90, "a later replay looks up to there"
    assert (parking.messages, parking.size) == (7, 61)


def test_of_keys_still_parked_the_newest_position_stays_when_another_is_released():
    parking = table()
    for key, position in (("a", 3), ("b", 4), ("a", 9)):
        parking.note(key, offset=position, position=position, size=1)
    parking.release("b")
    assert parking.last_position("a") == 9


def test_messages_that_were_all_appended_again_are_found_at_a_new_place():
    parking = table(ParkedKey("a", 7, 3, 5, 50))
    parking.moved("a", at=40)
    assert parking.get("a") == ParkedKey("a", 7, 40, 5, 50)


def test_keys_that_are_equal_are_one_as_in_lanes():
    parking = table(ParkedKey(1, 7, 3))
    assert parking.parked(True)
    assert parking.parked(1.0)
    assert not parking.parked("1")


KEYS = st.one_of(st.integers(0, 3), st.sampled_from(["a", "b", "1"]))


@given(st.lists(st.tuples(KEYS, st.booleans(), st.integers(0, 9))))
def test_the_sums_are_those_of_the_keys_and_the_snapshot_gives_them_back(steps):
    parking = table()
    for place, (key, end, size) in enumerate(steps):
        if end and parking.parked(key):
            parking.release(key)
        else:
            parking.note(key, place, place, size)
    kept = parking.kept
    assert parking.messages == sum(each.messages for each in kept.parked)
    assert parking.size == sum(each.size for each in kept.parked)
    assert len(parking) == len(kept.parked)
    assert ParkedKeys(kept).kept == kept, "sorted in one way only"


# --- limits ---------------------------------------------------------------------------------------
# Limits of what is parked, for one queue and for the keys of one member.


LIMITS = ParkLimits(keys=2, messages=10, size=1000)


@pytest.fixture
def parking():
    return ParkedKeys(ParkingState((ParkedKey("a", 1, 1, 4, 400), ParkedKey("b", 2, 2, 4, 400))))


def test_within_the_limits_nothing_is_refused(parking):
    assert limit_reached(LIMITS, parking, "a", messages=2, size=200) is None


@pytest.mark.parametrize(
    ("key", "messages", "size", "why"),
    [
        ("c", 1, 1, "2 keys of the queue are parked"),
        (
            "a",
            3,
            1,
            "8 messages of the queue are parked, 3 more are over its share of the limit, 10",
        ),
        (
            "a",
            1,
            201,
            "800 bytes of the queue are parked, 201 more are over its share of the limit, 1000",
        ),
    ],
)
def test_at_a_limit_it_says_why(parking, key, messages, size, why):
    assert why in limit_reached(LIMITS, parking, key, messages, size)


def test_a_queues_share_is_rounded_up():
    assert ParkLimits(keys=1000, messages=9, size=8).share(8) == ParkLimits(125, 2, 1)
    assert ParkLimits(keys=3).share(8).keys == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": 0}, {"keys": 10_001}, {"keys": True}, {"messages": 0}, {"size": 1.5},
        {"ratio": 0}, {"ratio": 1.1}, {"ratio": float("nan")}, {"ratio": "half"}, {"ratio": True},
    ],
    ids=repr,
)  # fmt: skip
def test_limits_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match=f"ParkLimits' {next(iter(wrong))}"):
        ParkLimits(**wrong)


# --- the part of the keys seen lately ------------------------------------------------------------


def seen(ratio, count, now=0.0):
    keys = KeyRatio(ratio)
    for number in range(count):
        keys.saw(number, now)
    return keys


def park(keys, count, now=0.0):
    """Park the first `count` keys as far as that is allowed; returns how many were."""
    parked = 0
    for number in range(count):
        if keys.refuses(number, now) is None:
            keys.parks(number, now)
            parked += 1
    return parked


def test_a_few_keys_may_be_parked_whatever_was_seen():
    assert park(seen(0.5, FREE), FREE) == FREE


def test_beyond_that_only_a_part_of_the_keys_seen():
    assert park(seen(0.5, 40), 40) == 20


def test_a_limit_of_all_is_none():
    assert park(seen(1.0, 30), 30) == 30


def test_it_says_why():
    keys = seen(0.5, 10)
    park(keys, 5)
    assert "5 of 10 keys of the last 5 minutes are parked" in keys.refuses(9, 0.0)


def test_a_key_that_is_parked_already_is_not_counted_twice():
    keys = seen(0.5, 12)
    park(keys, 6)
    assert keys.refuses(5, 0.0) is None
    assert keys.refuses(6, 0.0) is not None


def test_what_is_older_than_the_window_does_not_count():
    keys = seen(0.5, 100)
    park(keys, 50)
    assert keys.refuses(60, WINDOW - 1) is not None
    assert keys.refuses(60, WINDOW) is None


def test_keys_seen_again_stay_in_the_window():
    keys = seen(0.5, 100)
    park(keys, 6)
    for number in range(100):
        keys.saw(number, WINDOW / 2)
    for number in range(6):
        keys.parks(number, WINDOW / 2)
    assert keys.refuses(60, WINDOW) is None, "6 of 100"


def test_memory_is_bounded():
    keys = seen(0.5, 30_000)
    assert len(keys._seen) == 10_000


# --- index ----------------------------------------------------------------------------------------
# The order of a replay: the source queue's, each message once, whatever is in the park queue.


def parked(key, offset, position, attempts=0):
    return read_parked(parked_message(key, offset, position, attempts))


def index_of(*messages, key="a", first=0):
    index = KeyIndex(key, first)
    for each in messages:
        index.add(each)
    return index


def test_messages_come_in_the_order_of_their_source_queue():
    index = index_of(parked("a", 9, 0), parked("a", 3, 1), parked("a", 5, 2))
    assert index.lowest(9) == [ParkedPlace(3, 1), ParkedPlace(5, 2), ParkedPlace(9, 0)]
    assert index.lowest(2) == [ParkedPlace(3, 1), ParkedPlace(5, 2)]


def test_another_key_with_the_same_tag_is_not_taken():
    index = KeyIndex("a", 0)
    assert not index.add(parked("b", 9, 0))
    assert index.add(parked("a", 9, 0))
    assert len(index) == 1


def test_what_is_settled_is_not_taken():
    assert index_of(parked("a", 4, 0), parked("a", 5, 1), first=5).lowest(9) == [ParkedPlace(5, 1)]


def test_of_two_copies_the_last_one_is_taken():
    assert index_of(parked("a", 4, 0), parked("a", 4, 7)).lowest(9) == [ParkedPlace(4, 7)]


def test_a_copy_that_was_not_tried_never_hides_one_that_was():
    """Appended again after a crash, it no longer knows what went wrong."""
    assert index_of(parked("a", 4, 0, 3), parked("a", 4, 7, 0)).lowest(9) == [ParkedPlace(4, 0)]


@pytest.mark.parametrize("attempts", [0, 9])
@pytest.mark.parametrize(
    "change",
    [
        {"flag": 99},
        {"body": b"another"},
        {"properties": {"mine": "another"}},
        {"offset_message_id": "another"},  # of a former topic of this name
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_later_copy_with_another_content_does_not_count(change, attempts):
    first, later = parked("a", 4, 0, 1), parked("a", 4, 7, attempts)
    other = replace(later, original=later.original.changed(**change))
    again = parked("a", 4, 9, 1)
    assert index_of(first, other).lowest(9) == [ParkedPlace(4, 0)]
    assert index_of(first, other, again).lowest(9) == [ParkedPlace(4, 9)]
    index = index_of(first)
    assert not index.add(other)


def test_nor_does_one_that_cannot_be_read():
    first, later = parked("a", 4, 0), parked("a", 4, 7)
    broken = replace(later, original=UndecodableMessage(later.original, "why"))
    assert index_of(first, broken).lowest(9) == [ParkedPlace(4, 0)]


def test_settling_forgets_what_is_below_also_what_is_still_to_come():
    index = index_of(parked("a", 4, 0), parked("a", 6, 1))
    assert index.lowest(9)
    index.settle(6)
    assert index.lowest(9) == [ParkedPlace(6, 1)]
    assert not index.add(parked("a", 5, 2))


COPIES = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.sampled_from([0, 3])))


@given(COPIES, st.integers(0, 9))
def test_each_message_of_the_key_from_the_first_on_comes_once_and_in_order(copies, first):
    messages = [parked(key, at, n, tries) for n, (key, at, tries) in enumerate(copies)]
    places = index_of(*messages, first=first).lowest(99)
    assert [place.offset for place in places] == sorted(
        {at for key, at, _ in copies if key == "a" and at >= first}
    )
    for place in places:
        key, at, tries = copies[place.position]
        assert (key, at) == ("a", place.offset)
        tried = [n for n, copy in enumerate(copies) if copy == (key, at, 3)]
        assert place.position == (tried[-1] if tried else place.position)
        assert copies[place.position + 1 :].count((key, at, tries)) == 0


# --- telling apart --------------------------------------------------------------------------------
# What lies in a park queue is told apart by itself, never by where it stands.


ONE = parked_message("a", 3, 0)


def source_of(message):
    told = json.loads(message.properties[PARKED])
    return MessageQueue(told["topic"], told["broker"], told["queueId"])


def test_a_message_of_the_queue_is_parked():
    assert parked_of(ONE, source_of(ONE)).offset == 3


def test_a_message_of_another_queue_is_nothing():
    assert parked_of(ONE, replace(source_of(ONE), queue_id=99)) is None


def test_a_tombstone_is_nothing():
    assert parked_of(stored(control_message(Released("a", 3, 1))), source_of(ONE)) is None


def test_what_is_nobodys_is_an_error():
    with pytest.raises(ProtocolError):
        parked_of(stored(ParkMessage({"mine": "x"}, b"hello")), source_of(ONE))


def test_what_a_newer_release_parked_is_never_passed_over():
    told = json.loads(ONE.properties[PARKED]) | {"v": 2}
    newer = replace(ONE, properties={**ONE.properties, PARKED: json.dumps(told)})
    with pytest.raises(NotAvailableYet, match="format 2"):
        parked_of(newer, source_of(ONE))


# --- rebuild --------------------------------------------------------------------------------------
# Parked keys worked out from the park queue alone, whatever came to be there.


FOREIGN = ParkMessage({"mine": "x"}, b"hello")
END = ParkedRead((), 0, 0)


def rebuilt(messages, block=32, floor=0):
    """What is found; the broker has deleted what is below `floor`."""

    def perform(call):
        assert call.queue == PARK_QUEUE
        at = call.offset
        if at < floor:
            return ParkedRead((), floor, floor)
        found = tuple(messages[at : at + block])
        return ParkedRead(found, at + len(found), floor)

    return converse(rebuild(PARK_QUEUE), perform)


def queue(*contents):
    """A park queue: (key, offset) is a parked message, all else is a control record."""
    return [
        parked_message(*content, position)
        if isinstance(content, tuple)
        else stored(content if content is FOREIGN else control_message(content), position)
        for position, content in enumerate(contents)
    ]


def keys_of(found):
    return [(p.key, p.next, p.at, p.messages) for p in found.kept.parked]


def command(id_):
    return Command(id_, Verb.RELEASE, "a", "me", 1)


def test_an_empty_queue_has_no_keys():
    assert rebuilt([]).kept == ParkingState()


def test_messages_describe_themselves():
    found = rebuilt(queue(("a", 5), ("b", 7), ("a", 3)))
    assert keys_of(found) == [("a", 3, 0, 2), ("b", 7, 1, 1)]
    assert found.kept.parked[0].size > 0


def test_copies_of_one_message_count_once():
    assert keys_of(rebuilt(queue(("a", 5), ("a", 6), ("a", 5)))) == [("a", 5, 0, 2)]


def test_what_is_settled_is_not_parked():
    found = rebuilt(queue(("a", 5), ("a", 6), ("b", 2), Released("a", 7, 1)))
    assert keys_of(found) == [("b", 2, 2, 1)]
    found = rebuilt(queue(("a", 5), ("a", 6), Released("a", 6, 1)))
    assert keys_of(found) == [("a", 6, 1, 1)]


def test_what_was_parked_after_a_release_is_parked():
    found = rebuilt(queue(("a", 5), Released("a", 6, 1), ("a", 8), ("a", 4)))
    assert keys_of(found) == [("a", 4, 2, 2)], "4: the committed offset was set back"


def test_a_message_of_another_source_queue_parks_no_key():
    elsewhere = [replace(m, queue=replace(PARK_QUEUE, queue_id=7)) for m in queue(("a", 1))]

    def perform(call):
        found = tuple(elsewhere[call.offset :])
        return ParkedRead(found, call.offset + len(found), 0)

    found = converse(rebuild(replace(PARK_QUEUE, queue_id=7)), perform)
    assert (found.kept.parked, found.passed_over) == ((), 1)


def test_foreign_and_damaged_messages_are_passed_over_and_counted():
    found = rebuilt(queue(FOREIGN, ("a", 5), FOREIGN))
    assert (keys_of(found), found.passed_over) == ([("a", 5, 1, 1)], 2)


def test_the_first_command_without_a_final_result_is_the_next_one():
    contents = [command("1"), command("2"), Result("1", done=True), Result("2", done=False)]
    assert rebuilt(queue(*contents)).kept.commands == 1
    assert rebuilt(queue(*contents, Result("2", done=True))).kept.commands == 5


def test_what_the_broker_deleted_is_gone():
    messages = queue(("a", 5), ("b", 7), ("a", 9))
    assert keys_of(rebuilt(messages, floor=1)) == [("a", 9, 2, 1), ("b", 7, 1, 1)]


def test_a_newer_releases_message_is_not_passed_over():
    newer = stored(ParkMessage({"mine": "x"}, b"orderly-park 2 released whatever"))
    with pytest.raises(NotAvailableYet, match="upgrade"):
        rebuilt([newer])


def test_a_queue_that_cannot_be_read_is_an_error():
    def perform(call):
        raise RequestTimeout("late")

    with pytest.raises(OrderlyError, match="orders-park/broker-a/0 cannot be read"):
        converse(rebuild(PARK_QUEUE), perform)


@pytest.mark.parametrize("granted", [True, False])
def test_the_lock_is_renewed_on_the_way_and_a_refusal_ends_it(granted):
    messages, asked = queue(*[("a", offset) for offset in range(120)]), []

    def perform(call):
        if isinstance(call, LockQueues):
            asked.append(call)
            return frozenset([QUEUE] if granted else [])
        return (
            ParkedRead((messages[call.offset],), call.offset + 1, 0) if call.offset < 120 else END
        )

    if granted:
        assert len(converse(rebuild(PARK_QUEUE, QUEUE), perform).kept.parked) == 1
        assert asked == [LockQueues(QUEUE.broker_name, (QUEUE,))] * 2
    else:
        with pytest.raises(LockLost, match="taken by another member"):
            converse(rebuild(PARK_QUEUE, QUEUE), perform)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9)),
        st.builds(Released, st.sampled_from("ab"), st.integers(0, 11), st.just(1)),
        st.just(FOREIGN),
    ),
    max_size=25,
)


@given(STEPS, st.integers(1, 32))
def test_parked_is_what_was_appended_and_not_settled_since(steps, block):
    truth = {}
    for position, step in enumerate(steps):
        if isinstance(step, tuple):
            truth.setdefault(step[0], {}).setdefault(step[1], position)
        elif isinstance(step, Released):
            places = truth.get(step.key, {})
            truth[step.key] = {at: place for at, place in places.items() if at >= step.below}
    expected = [
        (key, min(places), min(places.values()), len(places))
        for key, places in sorted(truth.items())
        if places
    ]
    assert keys_of(rebuilt(queue(*steps), block)) == expected


# --- seals ---------------------------------------------------------------------------------------


def test_what_has_no_seal_is_never_passed_over():
    def perform(call):
        return ParkedRead((), 1, 0, unsealed=1) if call.offset == 0 else END

    with pytest.raises(OrderlyError, match="record_secrets"):
        converse(rebuild(PARK_QUEUE), perform)


def test_a_tombstone_that_is_appended_again_settles_nothing_that_was_parked_since():
    again = queue(("a", 1), Released("a", 5, 1), ("a", 2), Released("a", 5, 1))
    told = [
        message.changed(properties={**message.properties, SEAL: "0:a genuine one"})
        if message.tags == "released"
        else message
        for message in again
    ]
    assert keys_of(rebuilt(again)) == []
    assert keys_of(rebuilt(told)) == [("a", 2, 2, 1)]
