"""What a peer that was given up had not taken is never sent; a close sends all that was written."""

from __future__ import annotations

import contextlib

import pytest

from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request

SIZE = 15_000_000  # bytes; megabytes of it wait on this side, and 128 KiB on the peer's


@pytest.fixture(params=[False, True], ids=["plain", "TLS"])
def encrypted(request):
    return request.param


@pytest.fixture
def connection(connect):
    return connect()


@pytest.fixture
def peer(connection, server):
    """It rests, and something is written to it."""
    return server.accept()


def write(connection, size):
    connection.send_oneway(request(RequestCode.SEND_MESSAGE_V2, body=b"x" * size))


def taken(peer):
    """How many bytes the peer gets yet."""
    found = 0
    with contextlib.suppress(OSError):  # a reset, which TLS may call otherwise
        while data := peer.sock.recv(65536):
            found += len(data)
    return found


def test_a_peer_that_was_given_up_gets_nothing_more(connection, peer):
    write(connection, SIZE)
    connection.give_up("it does not answer")
    connection._reader.join()
    assert taken(peer) < 1_000_000


def test_a_close_sends_what_was_written(connection, peer):
    write(connection, 50_000)
    connection.close()
    assert taken(peer) > 50_000
