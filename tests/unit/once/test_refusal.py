"""A refusal is never silent and says which; where nothing may be acknowledged it raises."""

import pytest
import structlog

from orderly.errors import LockLost, QueueRecreated
from orderly.once.place import Naming
from orderly.once.refusal import tell
from orderly.once.rule import Verdict
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message

ERRORS = {Verdict.STALE_OWNER: LockLost, Verdict.RECREATED: QueueRecreated}


def refuse(verdict, naming=None):
    """The events of a verdict on a message of key "alice"."""
    refused = message(7, "alice")
    place = (naming or Naming()).place(refused, ConsumeContext(QUEUE, "shipping"))
    with structlog.testing.capture_logs() as events:
        if verdict in ERRORS:
            with pytest.raises(ERRORS[verdict], match="generation=1"):
                tell(verdict, place, refused, 4, (9, 5))
        else:
            tell(verdict, place, refused, 4, (9, 5))
    return events


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if not verdict])
def test_each_refusal_is_an_event_that_says_which_and_where(verdict):
    structlog.configure(processors=[])
    (event,) = refuse(verdict)
    expected = {
        "verdict": verdict.value, "group": "shipping", "topic": "orders", "broker": "broker-a",
        "queue_id": 0, "offset": 7, "key": "=alice", "attempt": 1, "message_id": "id-7",
        "token": 4, "applied_offset": 9, "applied_token": 5, "generation": 0,
    }  # fmt: skip
    assert expected.items() <= event.items()


def test_what_is_applied_is_no_event():
    structlog.configure(processors=[])
    assert refuse(Verdict.APPLY) == []


def test_a_redacted_key_is_not_in_the_event():
    structlog.configure(processors=[])
    assert "alice" not in str(refuse(Verdict.REPEAT, Naming(redact=True)))
