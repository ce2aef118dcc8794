"""Pieces reach their queue in order, once each, whatever one broker does; or it is an error."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from orderly.client import Client
from orderly.errors import ConnectFailed, SendFailed
from orderly.model import MessageQueue
from orderly.ordering.outbox import SendVerdict
from orderly.ordering.repeats import which_attempt
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.send import encode_batch
from orderly.spark import sending as module
from orderly.spark.encoding import Piece
from orderly.spark.sending import SinkSender
from orderly.testing import Cut, Delay, DropRequest, DropResponse, Fail
from orderly.testing.fake.faults import Fault
from tests.support.topics import first_copies, stored

SEND = RequestCode.SEND_BATCH_MESSAGE
ROWS = 10


def piece(number, place=0):
    bodies = [f"{number * ROWS + row}".encode() for row in range(ROWS)]
    properties = "UNIQ_KEY\x01{}\x02".format
    members = [(body, properties(f"id-{place}-{body.decode()}"), 0) for body in bodies]
    return Piece(place, encode_batch(members), ROWS)


@pytest.fixture
def topic(orderly_fake):
    return orderly_fake.create_topic("t", queues=2)


@pytest.fixture
def client(orderly_fake):
    with Client(namesrv=orderly_fake.namesrv) as client:
        yield client


@pytest.fixture
def sender(client, topic):
    """Send pieces of both queues, one after the other; returns what was acknowledged."""

    def send(pieces, patience=10.0, limit=1 << 16, timeout=0.3):
        queues = [MessageQueue(topic, "broker-a", number) for number in range(2)]
        with SinkSender(
            client, queues, max_batch_bytes=limit, send_timeout=timeout, patience=patience
        ) as sending:
            for number in range(pieces):
                for place in range(2):
                    sending.put(piece(number, place))
            return sending.finish()

    return send


def numbers(orderly_fake, topic):
    """What each queue holds."""
    found = [[], []]
    for message in stored(orderly_fake.namesrv, topic, 0, 2):
        found[message.queue.queue_id].append(int(message.body))
    return found


def test_all_is_stored_once_and_in_order(sender, orderly_fake, topic):
    sent = sender(40, limit=1500)
    assert (sent.rows, sent.doubtful, sent.weak) == (800, 0, 0)
    assert numbers(orderly_fake, topic) == [list(range(400))] * 2


@pytest.mark.parametrize(
    ("action", "copies"),
    [
        (DropResponse(), True),
        (DropRequest(), True),
        (Cut(), True),
        (Delay(0.4), True),
        (Fail(ResponseCode.SYSTEM_BUSY), False),
        (Fail(ResponseCode.SERVICE_NOT_AVAILABLE), False),
    ],
)
def test_a_failed_request_is_sent_again_and_nothing_overtakes_it(
    sender, orderly_fake, topic, action, copies
):
    orderly_fake.script(Fault(SEND, action, times=2))
    sent = sender(20, limit=1500, timeout=0.3 if copies else 10.0)  # a busy machine is no time-out
    found = numbers(orderly_fake, topic)
    assert [first_copies(each) for each in found] == [list(range(200))] * 2
    assert sent.rows == 400
    assert bool(sent.doubtful) == copies


def test_copies_of_a_row_are_marked_and_have_one_id_one_born_time_and_one_body(
    sender, orderly_fake, topic
):
    orderly_fake.script(Fault(SEND, DropResponse(), times=4))
    sender(20, limit=1500)
    copies = {}
    for message in stored(orderly_fake.namesrv, topic, 0, 2):
        copies.setdefault(message.message_id, []).append(message)
    assert len(copies) == 400
    again = [found for found in copies.values() if len(found) > 1]
    assert again
    for found in copies.values():
        marks = [which_attempt(message) for message in found]
        assert marks == [*range(1, len(found) + 1)]
        assert len({(message.born_time, message.body) for message in found}) == 1


def test_a_request_that_is_sent_again_is_no_larger_than_the_limit(sender, orderly_fake, topic):
    orderly_fake.script(Fault(SEND, DropResponse(), times=2))
    sizes, command = [], module._command

    def made(at, batch):
        sizes.append((len(batch.entries), len((request := command(at, batch)).body)))
        return request

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_command", made)
        sender(40, limit=2000)
    assert max(count for count, _ in sizes) > 1
    assert max(size for _, size in sizes) <= 2000


def test_a_retry_waits_until_the_broker_would_have_dropped_the_first_attempt(
    sender, orderly_fake, monkeypatch
):
    """The broker keeps a send for 200 ms in its queue: a copy sent earlier may be overtaken."""
    at = []
    transmit = SinkSender._transmit

    def timed(self, place, batch):
        at.append((place, time.monotonic()))
        return transmit(self, place, batch)

    monkeypatch.setattr(SinkSender, "_transmit", timed)
    orderly_fake.script(Fault(SEND, DropResponse(), times=1))
    sender(1)
    first, second, third = at
    place = third[0]
    earlier = next(moment for where, moment in (first, second) if where == place)
    assert third[1] - earlier >= 0.3 + 0.2  # the time-out, and the 200 ms


def test_a_request_the_broker_refuses_ends_the_task(sender, orderly_fake, topic):
    orderly_fake.script(Fault(SEND, Fail(ResponseCode.NO_PERMISSION), times=1))
    with pytest.raises(SendFailed, match="Nothing behind it was sent"):
        sender(20)
    found = numbers(orderly_fake, topic)
    assert [] in found  # the queue whose first request was refused


def test_a_broker_that_stays_away_is_given_up_after_the_patience(sender, orderly_fake):
    orderly_fake.kill_broker()
    began = time.monotonic()
    with pytest.raises(SendFailed):
        sender(5, patience=1.0)
    assert 0.2 < time.monotonic() - began < 60, "the usual patience is 120 s"


def test_a_broker_that_comes_back_within_the_patience_is_found_soon(client, topic):
    queue = MessageQueue(topic, "broker-a", 0)
    with SinkSender(client, [queue], max_batch_bytes=1 << 16) as sending:
        pass
    outbox, now, tried = sending._outboxes[0], 0.0, [0.0]
    outbox.submit(module._Waiting(None, 1, 0, module.PATIENCE, data=b"x", rows=1), now)
    while batch := outbox.take(now, lambda _: True):
        if outbox.refused(batch, SendVerdict.NOT_STORED, ConnectFailed("away"), now):
            break
        now = outbox.wake_at()
        tried.append(now)
    pauses = [later - earlier for earlier, later in pairwise(tried)]
    assert max(pauses) == pytest.approx(10)
    assert tried[-1] >= module.PATIENCE - 10


def test_what_breaks_the_sender_is_the_cause_of_the_error(client, topic, monkeypatch):
    monkeypatch.setattr(SinkSender, "_pump", lambda *_: 1 / 0)
    queue = MessageQueue(topic, "broker-a", 0)
    with SinkSender(client, [queue], max_batch_bytes=1 << 16) as sending:
        sending.put(piece(0))
        with pytest.raises(SendFailed, match="ZeroDivisionError") as raised:
            sending.finish()
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_the_task_waits_while_too_much_is_waiting(sender, orderly_fake, topic, monkeypatch):
    monkeypatch.setattr(module, "_ROOM", 2000)
    orderly_fake.script(Fault(SEND, DropResponse(), times=2))
    sender(30)
    assert [first_copies(each) for each in numbers(orderly_fake, topic)] == [list(range(300))] * 2


def test_one_request_of_a_queue_is_in_flight_at_a_time(sender, orderly_fake, monkeypatch):
    flying, most = set(), []
    transmit, answered = SinkSender._transmit, SinkSender._answered

    def begun(self, place, batch):
        assert place not in flying
        flying.add(place)
        most.append(len(flying))
        return transmit(self, place, batch)

    def ended(self, answer):
        flying.discard(answer.place)
        answered(self, answer)

    monkeypatch.setattr(SinkSender, "_transmit", begun)
    monkeypatch.setattr(SinkSender, "_answered", ended)
    orderly_fake.script(Fault(SEND, Delay(0.02), times=None))
    sender(30, limit=600)
    assert max(most) == 2  # both queues side by side
