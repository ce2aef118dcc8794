"""A process that stands still, or its machine: what it is answered meanwhile counts."""

from __future__ import annotations

import time

import pytest

from orderly import awake as awake_module
from orderly.awake import TICK
from orderly.client import connection as connection_module
from orderly.client.connection import PendingCalls
from orderly.errors import RequestTimeout
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from tests.support.standstill import can_stand_still
from tests.support.waiting import PATIENCE, eventually

TIMEOUT = 0.2  # seconds
STOOD = 4.0


@pytest.fixture
def stand_still(monkeypatch):
    return can_stand_still(monkeypatch)


@pytest.fixture(params=["call", "submit"])
def ask(request, connect, in_thread, inbox, stand_still, monkeypatch):
    """Ask the server for something, and stand still as soon as the request is entered.

    Returns the connection, and what comes of the request.
    """
    kind, add = request.param, PendingCalls.add

    def add_and_stand_still(calls, request_id, call):
        added = add(calls, request_id, call)
        stand_still(STOOD)
        return added

    monkeypatch.setattr(PendingCalls, "add", add_and_stand_still)

    def ask():
        connection, outcomes = connect(), inbox()
        if kind == "submit":
            connection.submit(command(), TIMEOUT, outcomes)
        else:
            in_thread(lambda: outcomes(called(connection)))
        return connection, outcomes

    return ask


def command():
    return request(RequestCode.GET_MAX_OFFSET)


def called(connection):
    try:
        return connection.call(command(), TIMEOUT)
    except RequestTimeout as error:
        return error


def test_a_reply_that_is_read_after_it_is_taken(server, ask, monkeypatch):
    monkeypatch.setattr(awake_module, "_CATCHING_UP", PATIENCE)
    _, outcomes = ask()
    peer = server.accept()
    asked, since = peer.read(), time.monotonic()
    eventually(lambda: time.monotonic() > since + TIMEOUT + TICK)
    peer.answer(asked, remark="while nobody read")
    assert outcomes.one().remark == "while nobody read"


def test_without_one_the_request_times_out_a_while_later(server, ask):
    connection, outcomes = ask()
    server.accept()
    assert isinstance(outcomes.one(), RequestTimeout)
    assert connection.alive


def test_it_is_no_sign_of_a_dead_peer(server, ask, monkeypatch):
    """The request before was not answered either; together that was long ago, but not awake."""
    monkeypatch.setattr(connection_module, "_SILENCE", STOOD / 2)
    connection, outcomes = ask()
    server.accept()
    outcomes.one()
    assert connection.alive


def test_on_a_machine_that_is_always_late_requests_time_out_too(
    server, connect, inbox, awake, stand_still
):
    outcomes = inbox()
    connect().submit(command(), TIMEOUT, outcomes)
    server.accept()

    def looked():
        stand_still(STOOD)
        awake.now()
        return outcomes.items

    assert isinstance(eventually(looked)[0], RequestTimeout)
