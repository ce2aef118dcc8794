"""With keys every request is signed, whichever way it goes; answers to the peer are not."""

from __future__ import annotations

import pytest

from orderly.client.connection import Connection
from orderly.client.security import Security, security_of
from orderly.config import ClientConfig
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import reply_to, request
from orderly.protocol.signing import Credentials, signed

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


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("token", ["", "token-1"])
def test_a_name_server_gets_no_signature_unless_it_is_to(
    server, timeouts, awake, in_thread, signs, token
):
    """It checks none: it would learn key, token and something to try secrets on."""
    keys = {"access_key": "app", "secret_key": "secret12345", "security_token": token}
    security = security_of(
        ClientConfig(namesrv=server.address, sign_name_server_requests=signs, **keys)
    )
    connection = Connection(
        server.address,
        timeouts=timeouts,
        awake=awake,
        connect_timeout=2.0,
        max_frame=2**24,
        on_request=lambda *_: None,
        on_close=lambda _: None,
        security=security,
    )
    wait_for_reply(connection, in_thread)
    received = server.accept().read()
    connection.close()
    assert ("Signature" in received.ext) is ("AccessKey" in received.ext) is signs
    assert ("SecurityToken" in received.ext) is (signs and token != "")
    assert security.credentials_for("10.0.0.1:10911") is not None, "brokers check it"
