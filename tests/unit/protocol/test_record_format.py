"""Seals: what a member wrote is believed where it wrote it, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orderly.errors import ProtocolError
from orderly.protocol.ext import from_ext
from orderly.protocol.park_record import (
    ParkDetails,
    Released,
    control_message,
    park_message,
    park_request,
    parked_again,
    read_park,
)
from orderly.protocol.properties import decode_properties
from orderly.protocol.record_format import SEAL, Seal, without_content, written_behind
from orderly.protocol.send import SendMessage
from tests.support.messages import message
from tests.support.owners import PARK_QUEUE, stored

OLD, NEW, OTHERS = "a secret of sixteen", "another secret, new", "somebody else's one"
GROUP = "shipping"
SEALED = Seal(GROUP, OLD)
DETAILS = ParkDetails(key="a", reason="why", attempts=1, parked_at=9.0, token=1)


def sent(content, seal=SEALED, newest=None):
    """The message as it is pulled that was sent with a seal."""
    command = park_request(GROUP, PARK_QUEUE, content, 1.0, seal=seal, newest=newest)
    properties = decode_properties(from_ext(SendMessage, command.ext).properties.encode())
    return stored(replace(content, properties=properties))


def parked(body=b"body", seal=SEALED):
    return sent(park_message(replace(message(7), body=body), DETAILS), seal)


def line(newest=5, seal=SEALED):
    return sent(control_message(Released("a", 8, 1)), seal, newest)


@pytest.mark.parametrize("made", [parked, line, lambda: parked(b"compressed " * 1000)])
def test_what_a_member_wrote_is_believed_where_it_wrote_it(made):
    assert SEALED.accepts(PARK_QUEUE, made())
    assert read_park(made())


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(PARK_QUEUE, topic="another"),
        replace(PARK_QUEUE, broker_name="another"),
        replace(PARK_QUEUE, queue_id=PARK_QUEUE.queue_id + 1),
    ],
    ids=["topic", "broker", "queue"],
)
def test_it_is_not_believed_in_another_queue(elsewhere):
    assert not SEALED.accepts(elsewhere, parked())


def test_nor_in_another_group():
    assert not Seal("billing", OLD).accepts(PARK_QUEUE, parked())


@pytest.mark.parametrize("name", ["ORDERLY_PARKED", "TAGS", "KEYS", "__SHARDINGKEY", "a user's"])
def test_nor_with_another_property(name):
    genuine = parked()
    properties = dict(genuine.properties) | {name: "changed"}
    assert not SEALED.accepts(PARK_QUEUE, genuine.changed(properties=properties))


def test_nor_with_another_body():
    assert not SEALED.accepts(PARK_QUEUE, parked().changed(body=b"changed"))


@pytest.mark.parametrize("seal", ["", ":", "é", "9:" + "0" * 32])
def test_nor_with_another_seal(seal):
    genuine = line()
    properties = dict(genuine.properties) | {SEAL: seal}
    assert not SEALED.accepts(PARK_QUEUE, genuine.changed(properties=properties))
    del properties[SEAL]
    assert not SEALED.accepts(PARK_QUEUE, genuine.changed(properties=properties))


def test_nothing_moves_from_one_part_to_the_next():
    one = SEALED.put_on(PARK_QUEUE, {"a": "bc"}, b"d")
    assert one[SEAL] != SEALED.put_on(PARK_QUEUE, {"ab": "c"}, b"d")[SEAL]
    assert one[SEAL] != SEALED.put_on(PARK_QUEUE, {"a": "b"}, b"cd")[SEAL]


def test_what_a_broker_adds_does_not_matter():
    genuine = parked()
    properties = dict(genuine.properties) | {"MSG_REGION": "x", "UNIQ_KEY": "1", "CLUSTER": "c"}
    assert SEALED.accepts(PARK_QUEUE, genuine.changed(properties=properties))


def test_without_a_secret_what_is_sent_does_not_change():
    content = control_message(Released("a", 8, 1))
    plain = park_request(GROUP, PARK_QUEUE, content, 1.0)
    unsealed = park_request(GROUP, PARK_QUEUE, content, 1.0, seal=Seal(GROUP), newest=5)
    assert (plain.ext, plain.body) == (unsealed.ext, unsealed.body)
    assert SEAL not in str(plain.ext)


def test_with_a_secret_the_record_is_what_it_is_without():
    assert line().body == line(seal=Seal(GROUP)).body
    assert read_park(line()) == read_park(line(seal=Seal(GROUP)))
    original, without = (read_park(parked(seal=s)).original for s in (SEALED, Seal(GROUP)))
    assert original.changed(stored_size=without.stored_size) == without


def test_secrets_are_changed_one_member_after_the_other():
    by_old, by_new = line(), line(seal=Seal(GROUP, f"{NEW};{OLD}"))
    for secrets in (f"{OLD};{NEW}", f"{NEW};{OLD}"):
        assert Seal(GROUP, secrets).accepts(PARK_QUEUE, by_old)
        assert Seal(GROUP, secrets).accepts(PARK_QUEUE, by_new)
    assert not SEALED.accepts(PARK_QUEUE, by_new)
    assert not Seal(GROUP, OTHERS).accepts(PARK_QUEUE, by_old)


def test_a_first_secret_is_given_to_one_member_after_the_other():
    first = Seal(GROUP, f"{OLD};")
    assert SEALED.accepts(PARK_QUEUE, line(seal=first))
    assert first.accepts(PARK_QUEUE, line(seal=Seal(GROUP)))
    assert not SEALED.accepts(PARK_QUEUE, line(seal=Seal(GROUP)))
    assert SEAL not in line(seal=Seal(GROUP, f";{OLD}")).properties


def test_a_copy_that_somebody_without_a_secret_appends_is_believed():
    again = sent(parked_again(parked()), seal=None)
    assert SEALED.accepts(PARK_QUEUE, again)
    assert SEAL not in read_park(again).original.properties


def test_a_users_property_of_that_name_is_kept_and_means_nothing():
    original = message(7).changed(properties={**message(7).properties, SEAL: "mine"})
    made = sent(park_message(original, DETAILS))
    assert SEALED.accepts(PARK_QUEUE, made)
    assert read_park(made).original.properties[SEAL] == "mine"


@pytest.mark.parametrize("made", [parked, line])
def test_in_the_place_of_what_is_not_believed_nothing_can_be_read(made):
    with pytest.raises(ProtocolError):
        read_park(without_content(made()))
    assert without_content(made()).tags == made().tags


@pytest.mark.parametrize(
    ("told", "behind"),
    [("3:mac", 3), ("0:mac", 0), (":mac", 9), ("11:mac", 9), ("-4:mac", 9), ("9" * 5000, 9)],
)
def test_a_line_tells_what_its_writer_knew_of(told, behind):
    assert written_behind(line().changed(queue_offset=9, properties={SEAL: told})) == behind


def test_without_a_seal_it_knew_of_all_before_it():
    assert written_behind(line(seal=None).changed(queue_offset=9)) == 9
