"""What lies in a park queue is told apart by itself, never by where it stands."""

import json
from dataclasses import replace

import pytest

from orderly.errors import NotAvailableYet, ProtocolError
from orderly.model import MessageQueue
from orderly.ordering.parking.telling_apart import parked_of
from orderly.protocol.park_record import PARKED, ParkMessage, Released, control_message
from tests.support.park_queue import parked_message, stored

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
