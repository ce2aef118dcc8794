"""Every key has its own row, with a name of bounded length that is the same tomorrow."""

import subprocess
import sys

import hypothesis.strategies as st
import pytest
from hypothesis import given

from orderly.errors import ConfigError
from orderly.model import MessageQueue
from orderly.once.place import MAX_KEY, Naming, arrival, key_text
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message

PARTS = st.none() | st.text() | st.integers() | st.binary()
KEYS = PARTS | st.recursive(PARTS, lambda part: st.lists(part).map(tuple))


@given(KEYS, KEYS, st.booleans())
def test_different_keys_have_different_texts(one, other, redact):
    same = key_text(one, redact=redact) == key_text(other, redact=redact)
    assert same == (one == other)


def test_keys_that_look_alike_have_different_texts():
    alike = ["1", 1, b"1", ("1",), (1,), ("1", ""), ("", "1"), (("1",),), None, "", (), (None,)]
    assert len({key_text(key, redact=True) for key in alike}) == len(alike)
    assert key_text(("ab", "c")) != key_text(("a", "bc"))


@given(KEYS)
def test_a_text_is_short_and_every_database_takes_it(key):
    text = key_text(key)
    assert len(text) <= MAX_KEY + 1
    assert "\0" not in text
    text.encode()


def test_a_short_text_can_be_read():
    assert key_text("order-1001") == "=order-1001"
    assert key_text("ä" * MAX_KEY) == "=" + "ä" * MAX_KEY
    assert key_text("ä" * (MAX_KEY + 1)).startswith("#")


@given(st.text())
def test_a_redacted_key_cannot_be_read(key):
    text = key_text(key, redact=True)
    assert text.startswith("#")
    assert len(text) == 65


def test_the_texts_are_the_same_in_another_process():
    code = "from orderly.once.place import key_text; print(key_text(('a', 1, b'x', None)))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == key_text(("a", 1, b"x", None))


@pytest.mark.parametrize("key", [1.5, object(), frozenset("a"), ("a", 1.5)])
def test_a_key_without_a_lasting_form_is_refused(key):
    with pytest.raises(ConfigError, match="`key=`"):
        key_text(key)


def test_the_key_is_the_lanes_and_else_the_sharding_key():
    by_key = ConsumeContext(QUEUE, "g", key=7)
    assert Naming().place(message(0, "a"), by_key).key == key_text(7)
    assert Naming().place(message(0, "a"), ConsumeContext(QUEUE, "g")).key == "=a"
    assert Naming().place(message(0), ConsumeContext(QUEUE, "g")).key == ""


def test_whatever_tells_two_queues_apart_tells_rows_apart():
    context, first = ConsumeContext(QUEUE, "g"), message(0, "a")
    queues = [MessageQueue("other", "broker-a", 0), MessageQueue("orders", "broker-b", 0),
              MessageQueue("orders", "broker-a", 1)]  # fmt: skip
    places = {
        Naming().place(first, context),
        Naming(generation=1).place(first, context),
        Naming(cluster="c").place(first, context),
        Naming().place(first, ConsumeContext(QUEUE, "h")),
        *(Naming().place(message(0, "a", queue), context) for queue in queues),
    }
    assert len(places) == 4 + len(queues)


@pytest.mark.parametrize("generation", [-1, 2**31, "1"])
def test_a_generation_that_is_none_is_refused(generation):
    with pytest.raises(ConfigError, match="generation"):
        Naming(generation=generation)


def test_only_the_senders_own_id_tells_a_duplicate():
    """Without UNIQ_KEY, messages of one batch have the id of the batch."""
    context = ConsumeContext(QUEUE, "g")
    assert arrival(message(3), context).message_id is None
    sent = message(3)
    sent.properties["UNIQ_KEY"] = "A" * 500
    assert len(arrival(sent, context).message_id) == 24
