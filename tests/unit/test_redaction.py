"""`redact_keys`: an event says where and how, and nothing that was in the message."""

import logging

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from orderly.foreign_text import escaped, hidden
from orderly.listening.handler_call import Delivery, FailedCall
from orderly.listening.policy import Events
from orderly.log import get_logger
from orderly.once.rule import Naming, Verdict, report_refusal
from orderly.ordering.context import ConsumeContext
from orderly.ordering.fingerprint import fingerprint
from orderly.redaction import NOT_SHOWN, redacted
from tests.support.messages import QUEUE, message

KEY = "jane@example.org"
SAID = f"no account of {KEY}"


def find(accounts):
    try:
        return accounts[KEY]
    except KeyError as cause:
        raise LookupError(SAID) from cause


def raised():
    try:
        find({})
    except LookupError as error:
        return error


def test_a_key_is_a_hash_that_is_the_same_everywhere():
    assert hidden(KEY) == redacted({"event": "a.b", "key": KEY})["key"]
    assert hidden("7") != hidden(7)
    assert redacted({"event": "a.b", "key": None}) == {"event": "a.b", "key": None}
    assert redacted({"event": "a.b", "keys": [KEY, None]})["keys"] == [hidden(KEY), None]


def test_a_key_that_looks_like_a_hash_does_not_pose_as_the_key_of_that_hash():
    forged = hidden(KEY)
    event = {"event": "a.b", "key": forged, "keys": [forged], "error": f"no account of {forged}"}
    assert forged not in repr(redacted(event))
    assert hidden(forged) not in {forged, hidden(hidden(forged))}


def test_where_it_happened_stays():
    at = {"event": "a.b", "group": "g", "topic": "t", "broker": "b", "queue_id": 1, "offset": 7}
    assert redacted(at) == at


def test_of_an_exception_its_classes_and_places_stay():
    for exc_info in (error := raised(), (type(error), error, error.__traceback__)):
        event = {"event": "handler.raised", "key": KEY, "error": SAID, "exc_info": exc_info}
        told = redacted(event)
        assert told["error"] == "LookupError"
        assert "KeyError" in told["stack"]
        assert "test_redaction.py" in told["stack"]
        assert "exc_info" not in told
        assert KEY not in repr(told)


def test_the_exception_of_the_moment_is_found():
    try:
        find({})
    except LookupError:
        told = redacted({"event": "hook.raised", "error": SAID, "exc_info": True})
    assert told["error"] == "LookupError"
    assert KEY not in repr(told)


@pytest.mark.parametrize("event", ["handler.answered_fail", "message.skipped", "of.the_future"])
def test_a_reason_is_the_programs_unless_it_is_known_as_ours(event):
    assert redacted({"event": event, "reason": SAID})["reason"] == NOT_SHOWN
    assert redacted({"event": "lock.lost", "reason": "60 s"})["reason"] == "60 s"


@pytest.mark.parametrize(
    "event", ["key_function.raised", "command.unreadable", "key.parked", "park.refused"]
)
def test_an_error_that_is_only_a_text_of_others_is_not_shown(event):
    """These events have no exception to tell by, and no key where it is the key that is wrong."""
    assert redacted({"event": event, "error": SAID})["error"] == NOT_SHOWN


@pytest.mark.parametrize("event", ["key.parked", "park.refused"])
def test_of_a_parked_key_neither_the_reason_nor_a_quoted_key_is_shown(event):
    told = redacted({"event": event, "key": KEY, "reason": SAID, "why": f"{KEY} is in the way"})
    assert told["reason"] == NOT_SHOWN
    assert KEY not in repr(told)


@pytest.mark.parametrize("key", [KEY, "it's\n", "a"])
def test_our_own_errors_lose_the_key_they_quote(key):
    error = f"a message of key {key!r} for orders/broker-a/0 failed: broker-b is gone ({key})"
    told = redacted({"event": "send.failed", "key": key, "error": error})["error"]
    assert key not in told.replace(hidden(key), "") or len(key) == 1
    assert "is gone" in told or key == "a"


@given(st.text(min_size=3) | st.text("\ud800\x1b\n'\"", min_size=1))
def test_no_key_stops_an_event(key):
    assert redacted({"event": "a.b", "key": key})["key"] == hidden(key)


def everything_a_listener_tells(context):
    """Each event of `Events`, about a message whose failure quotes it."""
    events, error = Events(), raised()
    delivery = Delivery(message(7, KEY), context)
    failed = FailedCall(f"LookupError: {SAID}", fingerprint(error), error=error)
    events.retry(delivery, failed, None, 1.0, in_place=True)
    events.blocked(delivery, SAID, 1.0)
    events.skipped(delivery, SAID, failed)
    events.replay_failed(delivery, failed)
    events.policy_failed(delivery, SAID, error)
    events.rule_failed(delivery, error)
    place = Naming().place(delivery.message, context)
    report_refusal(
        Verdict.DUPLICATE, place, delivery.message, 1, (9, 1), redact=context.redact_keys
    )


@pytest.mark.parametrize("key", [None, KEY])
def test_a_listener_and_the_ledger_tell_no_key(key, caplog):
    caplog.set_level(logging.DEBUG, logger="orderly")
    shown = ConsumeContext(QUEUE, "g", key=key)
    for context in (shown, ConsumeContext(QUEUE, "g", key=key, redact_keys=True)):
        caplog.clear()
        everything_a_listener_tells(context)
        told = [record.getMessage() for record in caplog.records]
        assert len(told) == 7
        assert [KEY in each for each in told] == [context is shown] * 7


def test_the_mark_itself_is_no_field_and_structlog_gets_the_redacted_event():
    log = get_logger("orderly.test", redact=True)
    with structlog.testing.capture_logs() as events:
        log.warning("a.b", key=KEY)
        get_logger("orderly.test", redact=False).warning("a.b", key=KEY)
    assert [event["key"] for event in events] == [hidden(KEY), KEY]
    assert not any("redact" in event for event in events)


def test_what_others_wrote_is_on_one_line_for_an_applications_own_log():
    hostile = "\x1b[2J\u202eevil\nforged line"
    with structlog.testing.capture_logs() as events:
        get_logger("orderly.test").warning("a.b", key=hostile, stack="a\nb")
    assert events[0]["key"] == escaped(hostile)
    assert events[0]["stack"] == "a\nb"
