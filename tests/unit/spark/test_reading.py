"""Pulls ahead of their answers, and whole ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import (
    BrokerUnavailable,
    ConnectionLost,
    DataLost,
    NoPermission,
    ProtocolError,
    RouteError,
    TopicNotFound,
)
from orderly.model import MessageQueue
from orderly.protocol.codes import ResponseCode
from orderly.protocol.frame import reply_to, request
from orderly.protocol.send import encode_batch
from orderly.protocol.stored_message import SysFlag
from orderly.spark import reading as module
from orderly.spark.offsets import CUT, EXPIRED, Loss, QueueRange
from orderly.spark.options import ScanOptions
from orderly.spark.reading import LEFT_OUT, PullWindow, read_range
from tests.support.messages import stored_bytes


class Asked:
    """What a broker was asked for and has not answered."""

    def __init__(self, ahead):
        self.ahead = ahead
        self.waiting = {}
        self.offsets = []

    def send(self):
        while (pull := self.ahead.next_pull()) is not None:
            start, count = pull
            self.waiting[start] = count
            self.offsets += range(start, start + count)


@given(st.data(), st.integers(0, 200), st.integers(1, 40), st.integers(1, 8))
def test_whatever_the_broker_gives_every_offset_comes_once_and_in_order(data, end, batch, depth):
    ahead = PullWindow(0, end, batch=batch, depth=depth)
    asked, taken = Asked(ahead), []
    while ahead.position < end:
        asked.send()
        assert 0 < len(asked.waiting) <= depth
        start = data.draw(st.sampled_from(sorted(asked.waiting)))
        got = data.draw(st.integers(1, asked.waiting.pop(start)))
        ahead.answered(start, start + got, (start, start + got))
        for begin, upto, answer in ahead.take():
            assert answer == (begin, upto)
            taken += range(begin, upto)
    assert taken == list(range(end))
    assert ahead.next_pull() is None


@given(st.integers(1, 100), st.integers(2, 8))
def test_what_a_short_answer_leaves_out_is_all_that_is_asked_for_again(cap, depth):
    ahead = PullWindow(0, 1000, batch=100, depth=depth)
    asked = Asked(ahead)
    answered = []
    while ahead.position < 1000:
        asked.send()
        start = max(asked.waiting)  # the last one first
        got = min(asked.waiting.pop(start), cap)
        answered += range(start, start + got)
        ahead.answered(start, start + got, b"")
        list(ahead.take())
    assert sorted(answered) == list(range(1000))


def test_the_brokers_limit_is_learnt_and_tried_again_later():
    ahead = PullWindow(0, 10_000, batch=512, depth=1)
    counts = []
    for _ in range(70):
        start, count = ahead.next_pull()
        counts.append(count)
        ahead.answered(start, start + min(count, 32), b"")
        list(ahead.take())
    assert counts[:2] == [512, 32]
    assert counts.count(32) >= 60
    assert 1 <= counts.count(64) <= 3


def test_after_an_answer_that_was_too_large_half_as_many_are_asked_for():
    ahead = PullWindow(0, 100, batch=8, depth=2)
    assert [ahead.next_pull(), ahead.next_pull()] == [(0, 8), (8, 8)]
    ahead.too_much(0, 8)
    assert ahead.next_pull() == (0, 4)
    ahead.too_much(0, 4)
    ahead.too_much(8, 16)
    assert [ahead.next_pull(), ahead.next_pull()] == [(0, 4), (4, 4)]
    ahead.too_much(0, 4)
    assert ahead.next_pull() == (0, 2)


def test_an_answer_that_goes_beyond_what_was_asked_covers_what_comes_next():
    ahead = PullWindow(0, 100, batch=10, depth=2)
    assert [ahead.next_pull(), ahead.next_pull()] == [(0, 10), (10, 10)]
    ahead.answered(10, 20, "second")
    ahead.answered(0, 15, "first")
    assert list(ahead.take()) == [(0, 15, "first"), (15, 20, "second")]


def test_after_a_failure_what_was_not_answered_is_asked_for_again():
    ahead = PullWindow(0, 30, batch=10, depth=3)
    for _ in range(3):
        ahead.next_pull()
    ahead.answered(10, 20, "kept")
    ahead.forget_unanswered()
    assert [ahead.next_pull(), ahead.next_pull(), ahead.next_pull()] == [(0, 10), (20, 10), None]


def test_an_answer_to_a_pull_that_was_given_up_is_passed_over():
    ahead = PullWindow(0, 30, batch=10, depth=3)
    ahead.next_pull()
    ahead.go_to(20)
    ahead.answered(0, 10, "late")
    assert list(ahead.take()) == []
    assert ahead.next_pull() == (20, 10)


def test_few_answers_wait_for_an_earlier_one():
    ahead = PullWindow(0, 10_000, batch=10, depth=2)
    asked = Asked(ahead)
    asked.send()
    while len(asked.waiting) > 1:
        start = max(asked.waiting)
        ahead.answered(start, start + asked.waiting.pop(start), b"")
        asked.send()
    assert max(asked.offsets) < 2 * 2 * 10


# --- ranges ---------------------------------------------------------------------------------------


QUEUE = MessageQueue("orders", "broker-a", 3)
SCAN = ScanOptions(("queue_offset", "tag"), pull_batch=8, pull_depth=3, batch_bytes=2000)


class Broker:
    """A broker's answers to pulls, and the client that asks: no thread, no socket."""

    def __init__(self, low, high, *, cap=32, tags=("a",), failures=()):
        self.low, self.high, self.cap, self.tags = low, high, cap, tags
        self.failures = list(failures)
        self.missing = set()
        self.asked = []
        self.routes = self.connections = self

    def address(self, queue):
        assert queue == QUEUE
        return "broker:10911"

    def refresh(self, topic): ...

    def get(self, address):
        assert address == "broker:10911"
        return self

    def submit(self, command, timeout, on_reply):
        assert timeout > 0
        assert command.ext["consumerGroup"] == "orderly-spark"
        failure = self.failures.pop(0) if self.failures else None
        if isinstance(failure, Exception):
            on_reply(failure)
        elif failure is not None:
            on_reply(reply_to(command, failure))
        else:
            on_reply(self.answer(command))

    def answer(self, command):
        start, count = int(command.ext["queueOffset"]), int(command.ext["maxMsgNums"])
        self.asked.append(start)
        if not self.low <= start < self.high:
            code = 19 if start == self.high else 21
            return self.reply(command, code, min(max(start, self.low), self.high))
        wanted = command.ext["subscription"]
        end, bodies = start, []
        while end < min(self.high, start + 4 * count) and len(bodies) < min(count, self.cap):
            if end not in self.missing and wanted in ("*", self.tag(end)):
                bodies.append(self.message(end))
            end += 1
            if wanted == "*" and end == start + count:
                break
        return self.reply(command, 0 if bodies else 20, end, b"".join(bodies))

    def reply(self, command, code, next_offset, body=b""):
        numbers = {"nextBeginOffset": next_offset, "minOffset": self.low, "maxOffset": self.high}
        ext = {name: str(number) for name, number in numbers.items()}
        return reply_to(command, code, ext={**ext, "suggestWhichBrokerId": "0"}, body=body)

    def tag(self, offset):
        return self.tags[offset % len(self.tags)]

    def message(self, offset):
        return stored_bytes(offset=offset, properties=f"TAGS\x01{self.tag(offset)}\x02".encode())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)


def read(broker, start, end, **scan):
    losses = []
    wanted = ScanOptions(**{**{f: getattr(SCAN, f) for f in SCAN.__slots__}, **scan})
    batches = list(read_range(broker, wanted, QueueRange(QUEUE, start, end), losses.append))
    assert all(len(batch) for batch in batches)
    return [offset for batch in batches for offset in batch["queue_offset"].to_pylist()], losses


failures = st.sampled_from(
    [None, ConnectionLost("lost"), ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE]
)


@given(
    st.integers(0, 60), st.integers(0, 60), st.integers(1, 32), st.integers(1, 16),
    st.lists(failures, max_size=6),
)  # fmt: skip
def test_every_message_of_a_range_comes_once_and_in_order(start, count, cap, batch, failures):
    broker = Broker(0, 130, cap=cap, failures=failures)
    assert read(broker, start, start + count, pull_batch=batch) == (
        list(range(start, start + count)),
        [],
    )


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=7), st.integers(1, 8))
def test_only_messages_with_a_wanted_tag_come(tags, cap):
    broker = Broker(0, 130, cap=cap, tags=tags)
    expected = [n for n in range(5, 125) if broker.tag(n) == "b"]
    assert read(broker, 5, 125, tags="b") == (expected, [])


def test_the_hash_of_a_tag_is_not_trusted():
    broker = Broker(0, 20, tags=("BB", "Aa"))  # equal hashes in Java
    broker.answer = lambda command, answer=broker.answer: answer(
        request(command.code, {**command.ext, "subscription": "*"})
    )
    assert read(broker, 0, 20, tags="Aa") == (list(range(1, 20, 2)), [])


@pytest.mark.parametrize(
    ("low", "high", "loss", "left"),
    [
        (20, 100, Loss(QUEUE, 10, 20, EXPIRED), range(20, 50)),
        (0, 30, Loss(QUEUE, 30, 50, CUT), range(10, 30)),
        (0, 0, Loss(QUEUE, 10, 50, CUT), range(0)),
        (200, 300, Loss(QUEUE, 10, 50, EXPIRED), range(0)),
        (0, 10, Loss(QUEUE, 10, 50, CUT), range(0)),
    ],
)
def test_what_is_gone_is_an_error_or_is_told_and_passed_over(low, high, loss, left):
    with pytest.raises(DataLost, match=rf"orders.*\[{loss.start}, {loss.end}\)"):
        read(Broker(low, high), 10, 50)
    assert read(Broker(low, high), 10, 50, fail_on_data_loss=False) == (list(left), [loss])


def test_messages_that_expire_while_they_are_read_are_told():
    broker = Broker(0, 1000)
    losses = []
    scan = ScanOptions(("queue_offset",), pull_batch=8, batch_bytes=1, fail_on_data_loss=False)
    batches = read_range(broker, scan, QueueRange(QUEUE, 0, 1000), losses.append)
    read_before = next(batches)["queue_offset"].to_pylist()
    broker.low = 500
    rest = [n for batch in batches for n in batch["queue_offset"].to_pylist()]
    (lost,) = losses
    assert lost.end == 500
    assert lost.why == EXPIRED
    assert read_before + rest == [*range(lost.start), *range(500, 1000)]


def test_messages_that_the_broker_leaves_out_are_lost():
    broker = Broker(0, 100)
    broker.missing = {12, 13, 40}
    with pytest.raises(DataLost, match=r"\[12, 14\)"):
        read(broker, 10, 60)
    offsets, losses = read(broker, 10, 60, fail_on_data_loss=False)
    assert offsets == [n for n in range(10, 60) if n not in broker.missing]
    assert losses == [Loss(QUEUE, 12, 14, LEFT_OUT), Loss(QUEUE, 40, 41, LEFT_OUT)]


def test_a_broker_that_never_comes_back_is_an_error(monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    broker = Broker(0, 100, failures=[ConnectionLost("lost")] * 1000)
    with pytest.raises(ConnectionLost):
        read(broker, 0, 100)
    assert len(broker.failures) > 900


def test_a_broker_that_does_not_give_what_it_has_is_an_error(monkeypatch):
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    broker = Broker(0, 100)
    broker.answer = lambda command: broker.reply(command, 20, 0)
    with pytest.raises(BrokerUnavailable, match="look at its log"):
        read(broker, 0, 100)


@pytest.mark.parametrize(
    ("code", "error"),
    [(ResponseCode.TOPIC_NOT_EXIST, TopicNotFound), (ResponseCode.NO_PERMISSION, NoPermission)],
)
def test_a_refusal_at_the_start_is_an_error_at_once(code, error):
    broker = Broker(0, 100, failures=[code] * 100)
    with pytest.raises(error, match="orders"):
        read(broker, 0, 100)
    assert len(broker.failures) >= 97


def test_a_refusal_while_the_broker_restarts_is_waited_out():
    broker = Broker(0, 100, failures=[None] * 6 + [ResponseCode.TOPIC_NOT_EXIST] * 9)
    assert read(broker, 0, 100) == (list(range(100)), [])


@pytest.mark.parametrize("error", [RouteError("no broker"), TopicNotFound("no topic")])
def test_a_broker_that_is_out_of_the_route_when_the_task_begins_is_waited_for(error):
    broker = Broker(0, 100)
    asked = iter(range(5))

    def address(queue):
        raise error

    def refresh(topic):
        if next(asked, None) == 4:
            del broker.address

    broker.address, broker.refresh = address, refresh
    assert read(broker, 0, 100) == (list(range(100)), [])


def test_the_route_of_an_earlier_task_is_not_trusted():
    broker = Broker(0, 100)
    broker.address = lambda queue: pytest.fail("a route that may be hours old")
    broker.refresh = lambda topic: vars(broker).pop("address", None)
    assert read(broker, 0, 100) == (list(range(100)), [])


def test_a_damaged_message_is_an_error_and_not_passed_over():
    broker = Broker(0, 100)
    broker.message = lambda offset: stored_bytes(offset=offset)[:-1] + b"\xff\xff"
    with pytest.raises(ProtocolError):
        read(broker, 0, 100, fail_on_data_loss=False)


def test_a_batch_stored_as_one_message_gives_no_message_twice():
    flag = int(SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH)
    body, told = encode_batch([(b"", "", 0)] * 10), b"INNER_NUM\x0110\x02"
    broker = Broker(0, 100)

    def answer(command):
        first = int(command.ext["queueOffset"]) // 10 * 10
        batch = stored_bytes(offset=first, body=body, sys_flag=flag, properties=told)
        return broker.reply(command, 0, first + 10, batch)

    broker.answer = answer
    assert read(broker, 5, 37, pull_batch=3) == (list(range(5, 37)), [])


def test_batches_are_as_large_as_asked_for():
    broker = Broker(0, 1000)
    scan = ScanOptions(("queue_offset",), batch_bytes=100 * len(broker.message(0)), pull_batch=10)
    batches = list(read_range(broker, scan, QueueRange(QUEUE, 0, 1000), print))
    assert [len(batch) for batch in batches] == [100] * 10


def test_an_empty_range_asks_nothing():
    broker = Broker(0, 100)
    assert read(broker, 5, 5) == ([], [])
    assert broker.asked == []
