"""Every event has a sentence, whose fields the event has; what says where comes by itself."""

import string

import pytest

from orderly.log import where
from orderly.sentences import SENTENCES, sentence
from tests.frozen.tables import events

OF_EVERY = {*where("group"), "error", "hint"}


def named(text):
    return {field for _, field, _, _ in string.Formatter().parse(text) if field is not None}


def test_each_event_of_the_page_has_one_and_no_other():
    assert set(SENTENCES) == set(events())


@pytest.mark.parametrize("name", sorted(SENTENCES))
def test_it_names_fields_that_the_event_has(name):
    assert named(SENTENCES[name]) - OF_EVERY <= events()[name][2]


def test_it_says_why_what_to_do_and_where():
    event = {"event": "key.parked", "group": "shipping", "topic": "orders", "broker": "broker-a"}
    event |= {"queue_id": 3, "offset": 7, "key": "order-9", "attempt": 2, "token": 12345}
    event |= {"reason": "a rule", "error": "KeyError: 'pot'", "hint": "mend it"}
    assert sentence(event) == (
        "a key is parked: this message and all later ones of the key are set aside:"
        " KeyError: 'pot'; mend it"
        " (group shipping, orders/broker-a/3 at 7, key order-9, attempt 2, key.parked)"
    )


def test_what_does_not_apply_is_left_out():
    event = {**where("shipping"), "event": "consumer.started", "topics": ["a", "b"]}
    assert sentence(event) == ("the consumer has started: a, b (group shipping, consumer.started)")


def test_a_field_that_is_missing_is_shown_as_such():
    assert sentence({"event": "key.suspended"}) == "a key waits - s (key.suspended)"


def test_a_cause_that_the_sentence_has_is_not_repeated():
    event = {"event": "message.not_applied", "verdict": "STALE", "reason": "late"}
    assert sentence(event).startswith("the effect of a message was refused: STALE: late (")
    event = {"event": "park.refused", "why": "full", "seconds": 1}
    assert sentence(event).count("full") == 1
