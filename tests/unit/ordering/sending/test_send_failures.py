"""What the errors of messages that were not sent say."""

import pytest

from orderly.model import MessageQueue
from orderly.ordering.sending.batch import Entry
from orderly.ordering.sending.send_failures import preceding_failed, send_failed

QUEUE = MessageQueue("T", "broker-a", 3)
HELD = "are refused until producer.resume() or hold_failed_key is over"


@pytest.mark.parametrize(
    ("lane", "attempts", "told"),
    [
        ("k", 0, f"a message of key 'k' for {QUEUE} was not sent: no. Later messages of its key"),
        ("k", 3, f"a message of key 'k' for {QUEUE} failed at attempt 3: no. Later messages of"),
        ("", 1, f"a message for {QUEUE} failed at attempt 1: no. Later messages of its queue"),
    ],
)
def test_a_failure_says_what_was_tried_and_what_is_held(lane, attempts, told):
    cause = ValueError("no")
    error = send_failed(Entry(lane, 1, 0, 9.0), QUEUE, cause, attempts)
    assert str(error).startswith(told)
    assert str(error).endswith(HELD)
    assert error.__cause__ is cause


def test_a_failure_without_a_key_holds_nothing():
    error = send_failed(Entry(None, 1, 0, 9.0), QUEUE, ValueError("no"), 1)
    assert str(error) == f"a message for {QUEUE} failed at attempt 1: no"


def test_what_is_held_back_names_what_failed_before_it():
    entry = Entry("k", 1, 0, 9.0)
    ahead = send_failed(entry, QUEUE, ValueError("no"), 1)
    error = preceding_failed(entry, QUEUE, ahead)
    assert str(error).startswith(f"a message of key 'k' for {QUEUE} was not sent: an earlier one")
    assert error.__cause__ is ahead
