"""With keys every request is signed, whichever way it goes; answers to the peer are not."""

import pytest

from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import reply_to, request
from orderly.protocol.signing import Credentials, signed
from orderly.remoting.security import Security

APP = Credentials("app", "secret12345")
SOON = 30.0


@pytest.fixture
def security():
    return Security(credentials=APP)


def ask(**fields):
    return request(RequestCode.HEART_BEAT, {"a": "b"}, b"{}", **fields)


def wait_for_reply(connection, in_thread):
    in_thread(connection.call, ask(), SOON)


def submit(connection, in_thread):
    connection.submit(ask(), SOON, lambda _: None)


def send_oneway(connection, in_thread):
    connection.send_oneway(ask(oneway=True))


@pytest.mark.parametrize("way", [wait_for_reply, submit, send_oneway])
def test_every_request_is_signed(server, connect, in_thread, way):
    way(connect(), in_thread)
    peer = server.accept()
    received = peer.read()
    assert received.ext == signed(ask(), APP).ext
    assert "Signature" in received.ext
    peer.close()


def test_what_is_sent_twice_is_signed_twice_and_never_kept(server, connect):
    connection, command = connect(), ask()
    for _ in range(2):
        connection.submit(command, SOON, lambda _: None)
    peer = server.accept()
    assert peer.read().ext == peer.read().ext
    assert command.ext == {"a": "b"}


def test_answers_to_the_peer_are_not_signed(server, connect):
    connect(on_request=lambda connection, command: connection.reply(reply_to(command)))
    peer = server.accept()
    peer.send(request(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "g"}))
    assert peer.read().ext == {}
