"""A process that stands still, or its machine: what it is answered meanwhile counts."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from orderly.client import connection as connection_module
from orderly.client.connection import PendingCalls
from orderly.errors import RequestTimeout
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request
from tests.support.waiting import PATIENCE, eventually

TIMEOUT = 0.2  # seconds


@pytest.fixture(autouse=True)
def _stands_still(monkeypatch):
    """As soon as a request is entered, 4 s pass in which no thread runs."""
    passed, add = [0.0], PendingCalls.add

    def add_and_stand_still(calls, request_id, call):
        added = add(calls, request_id, call)
        passed[0] += 4.0
        return added

    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + passed[0])
    monkeypatch.setattr(connection_module, "time", clock)
    monkeypatch.setattr(PendingCalls, "add", add_and_stand_still)


@pytest.fixture(params=["call", "submit"])
def ask(request, connect, in_thread, inbox):
    """Ask the server for something; what comes of it, and the connection."""
    kind = request.param

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
    monkeypatch.setattr(connection_module, "_AFTER_STANDSTILL", PATIENCE)
    _, outcomes = ask()
    peer = server.accept()
    asked, since = peer.read(), time.monotonic()
    eventually(lambda: time.monotonic() > since + TIMEOUT)
    peer.answer(asked, remark="while nobody read")
    assert outcomes.one().remark == "while nobody read"


def test_without_one_the_request_times_out_a_while_later(server, ask, monkeypatch):
    monkeypatch.setattr(connection_module, "_AFTER_STANDSTILL", TIMEOUT)
    connection, outcomes = ask()
    server.accept()
    assert isinstance(outcomes.one(), RequestTimeout)
    assert connection.alive


def test_on_a_machine_that_is_always_late_requests_time_out_too(
    server, connect, inbox, monkeypatch
):
    monkeypatch.setattr(connection_module, "_AFTER_STANDSTILL", -4.0)  # late the second time, too
    outcomes = inbox()
    connect().submit(command(), TIMEOUT, outcomes)
    server.accept()
    assert isinstance(outcomes.one(), RequestTimeout)
