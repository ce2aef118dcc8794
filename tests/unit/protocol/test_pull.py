from __future__ import annotations

from orderly.protocol.heartbeat import Subscription
from orderly.protocol.pull import FilterCheck, decode_filter_check, encode_filter_check


def test_the_question_about_a_filter_survives_the_wire():
    check = FilterCheck("c", "g", Subscription("t", "a > 1", version=3, expression_type="SQL92"))
    assert decode_filter_check(encode_filter_check(check)) == check
