"""The listener alone: no broker, no consumer, no waiting."""

from __future__ import annotations

from shipping import shipping

from orderly import Ack, Message, Park, Skip, Suspend


def step(body: bytes) -> Message:
    """A message of an order."""
    return Message("orders", body, sharding_key="order-1001")


def test_a_step_is_told_to_the_carrier(carrier):
    told = carrier()
    assert shipping(told).run(step(b'{"name": "packed"}')) == Ack()
    assert told.next(1) == [("order-1001", "packed")]


def test_what_is_not_for_us_is_passed_over(carrier):
    assert isinstance(shipping(carrier()).run(step(b'{"name": "praised"}')), Skip)


def test_a_carrier_that_does_not_answer_is_asked_again(carrier):
    assert isinstance(shipping(carrier(failures=1)).run(step(b'{"name": "packed"}')), Suspend)


def test_a_body_without_a_step_parks_its_order(carrier):
    assert isinstance(shipping(carrier()).run(step(b"{}")), Park)


def test_a_body_that_is_no_json_parks_its_order(carrier):
    assert isinstance(shipping(carrier()).run(step(b"{")), Park)
