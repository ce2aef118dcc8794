"""A connection that is open and dead: bytes go out, and none comes back."""

from __future__ import annotations

import pytest

from orderly.client import connection as connection_module
from orderly.errors import RequestTimeout
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request

SHORT, LONG = 0.2, 60.0  # seconds


@pytest.fixture(autouse=True)
def _soon_dead(monkeypatch):
    monkeypatch.setattr(connection_module, "_SILENCE", SHORT / 2)


def ask():
    return request(RequestCode.GET_MAX_OFFSET)


def test_a_peer_that_never_says_anything_is_given_up(server, connect):
    connection = connect()
    peer = server.accept()
    with pytest.raises(RequestTimeout):
        connection.call(ask(), SHORT)
    peer.read()
    assert peer.at_end()
    assert not connection.alive


def test_a_peer_that_answers_others_is_only_slow(server, connect, in_thread):
    connection = connect()
    peer = server.accept()
    slow = in_thread(connection.call, ask(), 5 * SHORT)
    peer.read()
    other = in_thread(connection.call, ask(), LONG)
    peer.answer(peer.read())
    other.result()
    with pytest.raises(RequestTimeout):
        slow.result()
    assert connection.alive


def test_one_time_out_is_not_enough(server, connect, monkeypatch):
    connection = connect()
    server.accept()
    monkeypatch.setattr(connection_module, "_SILENCE", LONG)
    with pytest.raises(RequestTimeout):
        connection.call(ask(), SHORT)
    assert connection.alive
