"""A trace's context in a message: it goes through whole, it costs no message, it trusts nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from orderly.message import Message
from orderly.producer.pending import properties_text
from orderly.protocol.properties import decode_properties
from orderly.telemetry.spans import link_to, with_context
from tests.support.messages import message as received

MESSAGE = Message("orders", b"x", sharding_key="k", properties={"mine": "1"})


def context(trace_id=0x1234, span_id=0x56, state=()):
    span = SpanContext(trace_id, span_id, False, TraceFlags(1), TraceState(state))
    return set_span_in_context(NonRecordingSpan(span), Context())


def arrived(message):
    """The message as a consumer gets it."""
    properties = decode_properties(properties_text(message, "0" * 32).encode())
    return replace(received(0), properties=properties)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1))
def test_what_is_sent_is_what_the_link_says(trace_id, span_id):
    state = [("vendor", "value")]
    link = link_to(arrived(with_context(MESSAGE, context(trace_id, span_id, state))))
    assert (link.context.trace_id, link.context.span_id) == (trace_id, span_id)
    assert link.context.trace_flags.sampled
    assert dict(link.context.trace_state) == dict(state)


def test_the_names_are_the_w3cs_and_the_users_properties_stay():
    properties = with_context(MESSAGE, context(state=[("a", "b")])).properties
    assert properties == {
        "mine": "1",
        "traceparent": f"00-{0x1234:032x}-{0x56:016x}-01",
        "tracestate": "a=b",
    }
    assert MESSAGE.properties == {"mine": "1"}


@pytest.mark.parametrize("name", ["traceparent", "tracestate"])
def test_a_context_the_user_has_set_is_kept_as_it_is(name):
    message = replace(MESSAGE, properties={name: "mine"})
    assert with_context(message, context(state=[("a", "b")])) is message


def test_without_a_trace_nothing_is_added():
    assert with_context(MESSAGE, Context()) is MESSAGE


@pytest.mark.parametrize("room", range(40, 80))
def test_a_message_without_room_goes_without(room):
    bare = replace(MESSAGE, properties={"long": "x"})
    free = 32473 - len(properties_text(bare, "0" * 32)) + 1
    message = replace(bare, properties={"long": "x" * (free - room)})
    properties_text(message, "0" * 32)
    carrying = with_context(message, context())
    properties_text(carrying, "0" * 32)
    needed = len("traceparent") + 55 + 2
    assert (carrying is message) is (room < needed)


@pytest.mark.parametrize("wrong", [{"a": ""}, {"a": 1}, {"a\x01": "b"}])
def test_what_is_wrong_with_a_message_is_left_to_the_producer(wrong):
    properties = {"b": "c"}
    message = replace(MESSAGE, properties=properties)
    properties |= wrong  # a dict can be changed afterwards
    assert with_context(message, context()) is message


@given(st.dictionaries(st.sampled_from(["traceparent", "tracestate"]), st.text()))
def test_hostile_properties_make_no_link_and_no_error(properties):
    link = link_to(replace(received(0), properties=properties))
    assert link is None or link.context.is_valid


@given(st.text(max_size=600))
def test_a_hostile_tracestate_beside_a_good_parent_is_no_error(text):
    good = f"00-{0x1234:032x}-{0x56:016x}-01"
    properties = {"traceparent": good, "tracestate": text}
    assert link_to(replace(received(0), properties=properties)).context.span_id == 0x56
