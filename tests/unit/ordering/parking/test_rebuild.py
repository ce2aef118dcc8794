"""Parked keys worked out from the park queue alone, whatever came to be there."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import LockLost, NotAvailableYet, OrderlyError, RequestTimeout
from orderly.ordering.calls import LockQueues, ParkedRead, converse
from orderly.ordering.parking.keys import Kept
from orderly.ordering.parking.rebuild import rebuild
from orderly.protocol.park_record import (
    Command,
    ParkMessage,
    Released,
    Result,
    Verb,
    control_message,
)
from orderly.protocol.seal import SEAL
from tests.support.park_queue import PARK_QUEUE, parked_message, stored
from tests.support.state_queue import QUEUE

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
    assert rebuilt([]).kept == Kept()


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

    with pytest.raises(OrderlyError, match="cannot be read from orders-park/broker-a/0"):
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
