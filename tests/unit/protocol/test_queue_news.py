"""What our members tell of their queues: it comes back as it was, stays small, and harms nobody."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.model import MessageQueue
from orderly.protocol.queue_news import (
    LONGEST,
    LONGEST_REASON,
    MOST_QUEUES,
    QueueNews,
    news_texts,
    queue_news,
)
from orderly.protocol.running_info import (
    QueueInfo,
    RunningInfo,
    decode_running_info,
    encode_running_info,
)

QUEUE = MessageQueue("orders", "broker-a", 3)
texts = st.none() | st.text(max_size=LONGEST).map(lambda t: t.encode("utf-8", "replace").decode())
tenths = st.none() | st.integers(0, 10**9).map(lambda n: n / 10)
news = st.builds(
    QueueNews,
    why=st.sampled_from(["HUNG", "SUSPENDED"]),
    offset=st.none() | st.integers(0, 2**62),
    key=texts,
    attempts=st.integers(0, 2**31),
    failing_for=tenths,
    fingerprint=texts,
    reason=texts,
    seconds=tenths,
    parked=st.integers(0, 10**6),
)


def told(pairs):
    """What a reader makes of the news of some queues, over the wire."""
    info = RunningInfo({}, (), {queue: QueueInfo() for queue, _ in pairs}, user=news_texts(pairs))
    return queue_news(decode_running_info(encode_running_info(info)))


@given(news)
def test_what_was_told_is_read(one):
    assert told([(QUEUE, one)]) == {QUEUE: one}


def test_it_is_one_line_of_json_that_names_the_queue():
    (name, text), *_ = news_texts([(QUEUE, QueueNews(why="HUNG", offset=7))]).items()
    assert name == "orderly orders/broker-a/3"
    assert json.loads(text) == {"v": 1, "why": "HUNG", "offset": 7, "attempts": 0, "parked": 0}


def test_whatever_keys_and_failures_hold_it_stays_small():
    long = QueueNews(why="S" * 10**6, key="\x00€" * 10**6, reason="\udc00" * 10**6,
                     fingerprint="f" * 10**6)  # fmt: skip
    pairs = [(MessageQueue("t" * 127, "broker-a", n), long) for n in range(1000)]
    written = news_texts(pairs)
    assert len(written) == MOST_QUEUES
    assert list(told(pairs)) == [queue for queue, _ in pairs[:MOST_QUEUES]], "the first are kept"
    assert sum(len(text.encode()) for text in written.values()) < 128 * 1024
    first = told(pairs)[pairs[0][0]]
    assert (len(first.key), len(first.reason)) == (LONGEST, LONGEST_REASON)


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", '{"v":2,"why":"HUNG"}', '{"v":1}', '{"v":1,"why":"HUNG","offset":-1}',
     '{"v":1,"why":"HUNG","attempts":"2"}', "\ud800"],
)  # fmt: skip
def test_what_is_not_ours_is_left_out(text):
    user = {f"orderly {QUEUE}": text, "something else": "of the user's"}
    assert queue_news(RunningInfo({}, (), {QUEUE: QueueInfo()}, user=user)) == {}


def test_news_of_a_queue_the_member_does_not_have_are_left_out():
    assert queue_news(RunningInfo({}, user=news_texts([(QUEUE, QueueNews(why="HUNG"))]))) == {}
