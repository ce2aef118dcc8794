"""The rule of `orderly.once`, cell by cell; the names of rows; the events of refusals."""

from __future__ import annotations

import subprocess
import sys

import hypothesis.strategies as st
import pytest
import structlog
from hypothesis import given

from orderly.config import ProducerConfig
from orderly.errors import ConfigError, LockLost, QueueRecreated
from orderly.model import MessageQueue
from orderly.once.rule import (
    MAX_KEY,
    RECENT,
    Arrival,
    Naming,
    Row,
    Verdict,
    arrival,
    decide,
    key_text,
    report_refusal,
)
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message


def came(offset, token=5, stored_at=None, message_id=None):
    return Arrival(
        offset, token, 1000 + offset if stored_at is None else stored_at, message_id or f"m{offset}"
    )


ROW = Row(10, 5, 1010, ("m9", "m10"))


def test_the_first_message_of_a_key_is_applied_and_noted():
    assert decide(None, came(0)) == (Verdict.APPLY, Row(0, 5, 1000, ("m0",)))


def test_the_next_one_is_applied_gaps_or_not():
    assert decide(ROW, came(14)) == (Verdict.APPLY, Row(14, 5, 1014, ("m9", "m10", "m14")))


def test_what_was_applied_is_a_repeat():
    assert decide(ROW, came(10)) == (Verdict.REPEAT, ROW)
    assert decide(ROW, came(3)) == (Verdict.REPEAT, ROW)


def test_a_repeat_by_a_new_owner_keeps_the_former_one_out_at_once():
    verdict, row = decide(ROW, came(10, token=6))
    assert (verdict, row) == (Verdict.REPEAT, Row(10, 6, 1010, ROW.recent))
    assert decide(row, came(11, token=5))[0] is Verdict.STALE_OWNER


def test_a_former_owner_is_told_so_whatever_it_brings():
    for offset in (3, 10, 11):
        assert decide(ROW, came(offset, token=4)) == (Verdict.STALE_OWNER, ROW)


def test_a_producers_retry_is_a_duplicate_and_its_offset_counts():
    assert decide(ROW, came(11, message_id="m10")) == (
        Verdict.DUPLICATE,
        Row(11, 5, 1011, ("m9", "m10")),
    )


def test_a_batch_that_is_stored_a_second_time_has_no_effect_a_second_time():
    batch, row = ProducerConfig().batch_messages, None
    for offset in range(batch):
        verdict, row = decide(row, came(offset))
        assert verdict is Verdict.APPLY
    for offset in range(batch):
        verdict, row = decide(row, came(batch + offset, message_id=f"m{offset}"))
        assert verdict is Verdict.DUPLICATE


def test_messages_without_an_id_are_told_apart_by_offsets():
    row = decide(None, Arrival(4, 5, 1004, None))[1]
    assert row.recent == ()
    assert decide(row, Arrival(4, 5, 1004, None))[0] is Verdict.REPEAT
    assert decide(row, Arrival(5, 5, 1005, None))[0] is Verdict.APPLY


def test_a_later_message_at_a_lower_offset_is_of_a_queue_made_anew():
    assert decide(ROW, came(2, stored_at=5000, message_id="new")) == (Verdict.RECREATED, ROW)
    assert decide(ROW, came(2, stored_at=5000, message_id="m9"))[0] is Verdict.REPEAT


def test_a_clock_that_was_set_back_is_no_queue_made_anew():
    row = decide(decide(None, came(1, stored_at=9000))[1], came(2, stored_at=1000))[1]
    for index in range(3, 3 + RECENT):
        row = decide(row, came(index, stored_at=1000 + index))[1]
    assert decide(row, came(1, stored_at=9000))[0] is Verdict.REPEAT


def test_a_row_keeps_the_last_ids_only():
    row = None
    for offset in range(RECENT + 2):
        row = decide(row, came(offset))[1]
    assert row.recent == tuple(f"m{offset}" for offset in range(2, RECENT + 2))


def test_without_tokens_offsets_decide_and_the_token_stays():
    assert decide(ROW, came(10, token=None))[0] is Verdict.REPEAT
    verdict, row = decide(ROW, came(11, token=None))
    assert (verdict, row.token) == (Verdict.APPLY, 5)
    assert decide(Row(10, None, 1010), came(11, token=0))[1].token == 0


def test_only_apply_is_true():
    assert [verdict for verdict in Verdict if verdict] == [Verdict.APPLY]


@given(st.data())
def test_every_message_is_applied_once_and_in_order_by_whichever_owner(data):
    """A log with retries in it; owners with rising tokens read it, each from where it may."""
    ids = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    numbers = [sum(ids[: n + 1]) for n in range(len(ids))]  # a retry follows its original
    log = [came(n, message_id=f"n{number}") for n, number in enumerate(numbers)]
    row, applied, owners = None, [], {0: 0}
    for _ in range(data.draw(st.integers(0, 80))):
        owner = data.draw(st.sampled_from(sorted(owners)))
        if data.draw(st.integers(0, 9)) == 0:  # another one takes over, a little behind
            owner = max(owners) + 1
            done = -1 if row is None else row.offset
            owners[owner] = data.draw(st.integers(0, min(done + 1, len(log) - 1)))
        place = owners[owner]
        if place == len(log):
            continue
        verdict, new = decide(row, Arrival(place, owner, 1000 + place, log[place].message_id))
        assert new.offset >= (row.offset if row else -1)
        if verdict is Verdict.STALE_OWNER:
            assert owner < row.token
            assert new == row
            continue
        assert verdict is not Verdict.RECREATED
        assert new.token == owner
        row, owners[owner] = new, place + 1
        if verdict:
            applied.append(numbers[place])
    assert applied == list(dict.fromkeys(numbers))[: len(applied)]
    assert len(row.recent if row else ()) <= RECENT
    assert row is None or set(applied) == set(numbers[: row.offset + 1])


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
    code = "from orderly.once.rule import key_text; print(key_text(('a', 1, b'x', None)))"
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


ERRORS = {Verdict.STALE_OWNER: LockLost, Verdict.RECREATED: QueueRecreated}


def refuse(verdict, naming=None):
    """The events of a verdict on a message of key "alice"."""
    refused = message(7, "alice")
    place = (naming or Naming()).place(refused, ConsumeContext(QUEUE, "shipping"))
    with structlog.testing.capture_logs() as events:
        if verdict in ERRORS:
            with pytest.raises(ERRORS[verdict], match="generation=1"):
                report_refusal(verdict, place, refused, 4, (9, 5))
        else:
            report_refusal(verdict, place, refused, 4, (9, 5))
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
