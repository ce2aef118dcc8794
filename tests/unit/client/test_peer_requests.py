"""What brokers ask of a member is answered, never on a reader thread, whatever happens."""

import threading
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from orderly.client.peer_requests import GroupAnswers, PeerRequests
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.codes import RequestCode, ResponseCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import MessageModel, decode_heartbeat
from orderly.protocol.members import (
    ConsumeDirectly,
    DirectOutcome,
    DirectResult,
    GetRunningInfo,
    QueueInfo,
    RunningInfo,
    decode_direct_result,
    decode_running_info,
)
from orderly.protocol.offsets import (
    GetMemberOffsets,
    ResetMemberOffset,
    decode_member_offsets,
    encode_reset,
    encode_reset_list,
)
from orderly.protocol.stored_message import encode_stored_message
from tests.support.waiting import SOON, Inbox, eventually

QUEUE = MessageQueue("orders", "broker-a", 1)
INFO = RunningInfo({"PROP_CONSUMEORDERLY": "true"}, queues={QUEUE: QueueInfo(commit_offset=7)})
MESSAGE = ReceivedMessage(
    QUEUE, 5, b"body", {"TAGS": "t"}, "", "", 1.0, 2.0, "10.0.0.1:1", "10.0.0.2:2", 0, 0, 0, 99, 0
)


class Member:
    """Answers as told, and remembers what it was asked on which thread."""

    def __init__(self):
        self.asked = Inbox()
        self.info = INFO
        self.result = DirectResult(DirectOutcome.SUCCESS, remark="fine")
        self.error = None
        self.hold = lambda: None

    def _note(self, question, argument):
        self.asked((question, argument, threading.current_thread().name))
        if self.error:
            raise self.error

    def running_info(self, stack):
        self._note("info", stack)
        return self.info

    def reset_offsets(self, offsets):
        self._note("reset", offsets)

    def offsets(self, topic):
        self._note("offsets", topic)
        return {QUEUE: 7}

    def consume_directly(self, message):
        self._note("direct", message)
        self.hold()
        return self.result

    def answers(self):
        return GroupAnswers(
            self.running_info, self.reset_offsets, self.offsets, self.consume_directly
        )


@pytest.fixture
def member(client, broker):
    """A member of group "g" that brokers know."""
    member = Member()
    client.heartbeat.register_consumer(
        "g",
        subscriptions=tuple,
        on_members_changed=lambda: None,
        answers=member.answers(),
    )
    client.routes.get("orders")
    client.heartbeat.heartbeat_now()
    return member


@pytest.fixture
def ask(broker):
    """Send a request to the client; returns its answer."""

    def ask(header, body=b""):
        before = len(answers(broker))
        broker.push(request(header.code, to_ext(header), body))
        return eventually(lambda: answers(broker)[before:], within=SOON)[0]

    return ask


def answers(broker):
    return [command for _, command in list(broker.received) if command.is_response]


def directly(group="g"):
    return ConsumeDirectly(consumer_group=group, broker_name="broker-a", msg_id="0A")


def test_a_running_info_is_given(member, ask):
    for stack in (True, False):
        reply = ask(GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=stack))
        assert reply.code == 0
        assert decode_running_info(reply.body) == INFO
    assert [(asked[0], asked[1]) for asked in member.asked.items] == [
        ("info", True),
        ("info", False),
    ]
    assert {asked[2] for asked in member.asked.items} == {"orderly-answers"}


def test_offsets_are_given(member, ask):
    reply = ask(GetMemberOffsets(group="g", topic="orders"))
    assert decode_member_offsets(reply.body) == {QUEUE: 7}
    assert member.asked.one()[:2] == ("offsets", "orders")


@pytest.mark.parametrize("encode", [encode_reset, encode_reset_list])
def test_a_reset_is_taken_and_not_answered(member, ask, broker, encode):
    header = ResetMemberOffset(topic="orders", group="g", timestamp=-1)
    broker.push(request(header.code, to_ext(header), encode({QUEUE: 3}), oneway=True))
    question, offsets, thread = member.asked.one()
    assert (question, offsets, thread) == ("reset", {QUEUE: 3}, "orderly-answers")
    assert ask(GetMemberOffsets(group="g", topic="orders")).code == 0
    assert len(answers(broker)) == 1


def test_a_message_is_consumed_directly_on_a_thread_of_its_own(member, ask):
    reply = ask(directly(), encode_stored_message(MESSAGE))
    assert decode_direct_result(reply.body) == member.result
    _, message, thread = member.asked.one()
    assert (message.queue, message.queue_offset, message.body) == (QUEUE, 5, b"body")
    assert thread == "orderly-direct-g"


def test_consuming_directly_may_be_refused(member, ask):
    member.result = None
    reply = ask(directly(), encode_stored_message(MESSAGE))
    assert reply.code == ResponseCode.NO_PERMISSION
    assert "allow_direct_consume" in reply.remark


def test_one_message_at_a_time_is_consumed_directly_and_others_are_answered(member, ask, broker):
    going_on = threading.Event()
    member.hold = lambda: going_on.wait(SOON)
    body = encode_stored_message(MESSAGE)
    broker.push(request(directly().code, to_ext(directly()), body))
    member.asked.wait()
    assert ask(directly(), body).code == ResponseCode.SYSTEM_BUSY
    assert ask(GetRunningInfo(consumer_group="g", client_id="c")).code == 0
    before = len(answers(broker))
    going_on.set()
    (late,) = eventually(lambda: answers(broker)[before:])
    assert late.code == 0
    assert ask(directly(), body).code == 0, "who has the answer may ask again"


@pytest.mark.parametrize("body", [b"", b"garbage", encode_stored_message(MESSAGE) * 2])
def test_a_body_that_is_not_one_message_is_an_error(member, ask, body):
    reply = ask(directly(), body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark
    assert member.asked.items == []


@pytest.mark.parametrize(
    "header",
    [
        GetRunningInfo(consumer_group="stranger", client_id="c"),
        GetMemberOffsets(group="stranger", topic="orders"),
        directly("stranger"),
    ],
)
def test_a_group_this_client_is_no_member_of_is_an_error(member, ask, header):
    reply = ask(header, encode_stored_message(MESSAGE))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "no consumer of group 'stranger'" in reply.remark
    assert member.asked.items == []


def test_a_member_without_answers_says_so(client, broker, ask):
    client.heartbeat.register_consumer("g", subscriptions=tuple, on_members_changed=lambda: None)
    client.routes.get("orders")
    client.heartbeat.heartbeat_now()
    reply = ask(GetRunningInfo(consumer_group="g", client_id="c"))
    assert (reply.code, "'g'" in reply.remark) == (ResponseCode.SYSTEM_ERROR, True)


def test_an_answer_that_fails_is_an_answer_and_ends_no_thread(member, ask, caplog):
    member.error = ZeroDivisionError("the member's own fault")
    for header in (
        GetRunningInfo(consumer_group="g", client_id="c"),
        GetMemberOffsets(group="g", topic="orders"),
        directly(),
    ):
        reply = ask(header, encode_stored_message(MESSAGE))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "the member's own fault" in reply.remark
    assert "request.failed" in caplog.text
    member.error = None
    assert ask(GetRunningInfo(consumer_group="g", client_id="c")).code == 0
    assert ask(directly(), encode_stored_message(MESSAGE)).code == 0


@pytest.mark.parametrize("redact", [False, True])
def test_without_keys_a_failure_is_its_class_for_the_broker_and_the_log(redact, caplog):
    """A key function that raises on a message to be consumed directly may quote it."""
    member, replies = Member(), []
    member.error = LookupError("no account of jane")
    peers = PeerRequests(lambda _: member.answers(), lambda _: None, redact=redact)
    connection = SimpleNamespace(address="a:1", reply=replies.append)
    command = request(directly().code, to_ext(directly()), encode_stored_message(MESSAGE))
    peers.receive(connection, command)
    (reply,) = eventually(lambda: replies, within=SOON)
    peers.close()
    assert reply.remark == ("LookupError" if redact else "LookupError: no account of jane")
    assert "error='LookupError" in caplog.text
    assert ("jane" in caplog.text) is not redact


def test_an_answer_that_cannot_be_written_is_an_error(member, ask):
    member.info = RunningInfo({"name": "\ud800"})
    reply = ask(GetRunningInfo(consumer_group="g", client_id="c"))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "surrogate" in reply.remark


def test_a_request_without_its_fields_is_an_error(member, broker):
    broker.push(request(RequestCode.GET_CONSUMER_RUNNING_INFO))
    (reply,) = eventually(lambda: answers(broker))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "consumerGroup" in reply.remark


@pytest.mark.parametrize(
    ("broadcasting", "model"),
    [(True, MessageModel.BROADCASTING), (False, MessageModel.CLUSTERING)],
)
def test_the_heartbeat_tells_the_message_model(client, broker, broadcasting, model):
    client.heartbeat.register_consumer(
        "g", subscriptions=tuple, on_members_changed=lambda: None, broadcasting=broadcasting
    )
    client.routes.get("orders")
    client.heartbeat.heartbeat_now()
    (beat,) = broker.requests(RequestCode.HEART_BEAT)
    assert decode_heartbeat(beat.body).consumers[0].message_model is model


# --- more than is answered ---------------------------------------------------------------------


class Asking:
    """A peer's end of things: what it was answered, and why it was given up."""

    def __init__(self, address="10.0.0.1:10911"):
        self.address = address
        self.answers = []
        self.ends = []

    def reply(self, command):
        self.answers.append(command)

    def give_up(self, why):
        self.ends.append(why)


@pytest.fixture
def busy():
    """A member that answers nothing until `go_on` is set; `.peers` takes requests in."""
    member, go_on = Member(), threading.Event()
    wait = member.running_info

    def running_info(stack):
        assert go_on.wait(SOON)
        return wait(stack)

    answers = member.answers()
    answers = replace(answers, running_info=running_info)
    peers = PeerRequests(
        lambda group: answers if group == "g" else None, lambda _: None, redact=False
    )
    yield SimpleNamespace(member=member, peers=peers, go_on=go_on)
    go_on.set()
    peers.close()


def info(body=b"", **ext):
    header = GetRunningInfo(consumer_group="g", client_id="c")
    return request(header.code, to_ext(header) | ext, body)


def test_a_peer_that_asks_more_than_is_answered_is_given_up(busy):
    flood, other = Asking(), Asking("10.0.0.2:10911")
    for _ in range(100):
        busy.peers.receive(flood, info())
    assert flood.ends == []
    busy.peers.receive(flood, info())
    (why,) = flood.ends
    assert "100 requests of it" in why
    busy.peers.receive(other, info())
    assert other.ends == [], "it has to do with the one that floods only"
    again = Asking(flood.address)
    busy.peers.receive(again, info())
    assert len(again.ends) == 1, "a new connection has no more than the old one"
    busy.go_on.set()
    eventually(lambda: len(flood.answers) == 100 and len(other.answers) == 1)
    eventually(lambda: not busy.peers._waiting)
    busy.peers.receive(again, info())
    eventually(lambda: again.answers)


@pytest.mark.parametrize(
    "large",
    [
        info(bytes(5 << 20)),
        info(name="x" * (5 << 20)),
        info(**{str(number): "" for number in range(30_000)}),
    ],
    ids=["body", "field", "fields"],
)
def test_a_peer_may_not_have_more_bytes_held_than_a_frame_has(busy, large):
    flood = Asking()
    for _ in range(67):
        busy.peers.receive(flood, large)
    assert len(flood.ends) >= 64
    busy.go_on.set()
    eventually(lambda: not busy.peers._waiting)
    assert len(flood.answers) <= 3


def test_one_request_is_taken_however_large_it_is(busy):
    peer = Asking()
    busy.peers.receive(peer, info(bytes(32 << 20)))
    assert peer.ends == []


def test_messages_to_consume_directly_in_many_groups_start_no_more_threads_than_may_wait(busy):
    """Each group has a thread of its own, and the peer makes the names."""
    flood, holding = Asking(), threading.Event()
    busy.member.hold = lambda: holding.wait(SOON)
    body = encode_stored_message(MESSAGE)
    busy.peers.receive(flood, request(directly().code, to_ext(directly()), body))
    busy.member.asked.wait()
    for _ in range(99):
        busy.peers.receive(flood, info())
    late = directly("another")
    busy.peers.receive(flood, request(late.code, to_ext(late), body))
    assert len(flood.ends) == 1
    holding.set()
    busy.go_on.set()
    eventually(lambda: not busy.peers._waiting)
    assert len(flood.answers) == 100
    busy.peers.receive(flood, request(late.code, to_ext(late), body))
    answer = eventually(lambda: flood.answers[100:])[0]
    assert "no consumer of group 'another'" in answer.remark, "not: busy"


def test_an_answer_that_ends_the_thread_is_counted_out(busy):
    peer = Asking()
    busy.member.error = SystemExit()
    busy.go_on.set()
    busy.peers.receive(peer, info())
    busy.member.asked.wait()
    eventually(lambda: not busy.peers._waiting)


def test_a_flood_ends_the_connection_with_an_event(client, broker, caplog):
    """The whole way: a real connection, a member that is busy, and a broker that does not stop."""
    go_on = threading.Event()
    member = Member()
    answers = replace(member.answers(), running_info=lambda _: go_on.wait(SOON) and INFO)
    client.heartbeat.register_consumer(
        "g", subscriptions=tuple, on_members_changed=lambda: None, answers=answers
    )
    client.routes.get("orders")
    client.heartbeat.heartbeat_now()
    assert broker.open_connections() == 1
    with suppress(OSError):  # it may be closed in the middle
        for _ in range(300):
            broker.push(info())
    eventually(lambda: "connection.given_up" in caplog.text)
    assert "requests of it with" in caplog.text
    assert "request.handler_failed" not in caplog.text
    go_on.set()
