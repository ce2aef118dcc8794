from __future__ import annotations

import socket
import threading
from contextlib import closing

import pytest

from orderly.client.connection import Connection
from orderly.client.pool import Connections
from orderly.client.security import security_of
from orderly.config import ClientConfig
from orderly.errors import ConnectFailed, ConnectionLost, LifecycleError
from orderly.protocol.codes import RequestCode
from orderly.protocol.frame import request

SOON = 30.0
LONG = 30.0


@pytest.fixture
def settings():
    """Of the client whose connections they are; a test may set some."""
    return {}


@pytest.fixture
def pool(inbox, settings, awake):
    opened, lost, requests = inbox(), inbox(), inbox()
    pool = Connections(
        awake=awake,
        connect_timeout=2.0,
        max_frame=2**24,
        on_request=lambda connection, command: requests((connection, command)),
        on_open=opened,
        on_loss=lost,
        security=security_of(ClientConfig(**({"namesrv": "127.0.0.1:1"} | settings))),
    )
    pool.opened, pool.lost, pool.requests = opened, lost, requests
    yield pool
    pool.close()


def test_one_connection_however_many_ask_at_once(pool, server, in_thread):
    gate = threading.Barrier(16)

    def get():
        gate.wait(SOON)
        return pool.get(server.address)

    connections = [f.result(SOON) for f in [in_thread(get) for _ in range(16)]]
    assert len(set(connections)) == 1
    assert pool.get(server.address) is connections[0]
    assert pool.opened.items == [connections[0]]
    server.accept()
    assert server.pending_connections() == 0


def test_connected_never_connects(pool, server):
    assert pool.connected(server.address) is None
    assert server.pending_connections() == 0
    connection = pool.get(server.address)
    assert pool.connected(server.address) is connection


def test_a_lost_connection_is_reported_and_replaced_at_the_next_use(pool, server):
    first = pool.get(server.address)
    server.accept().close()
    assert pool.lost.wait() == [first]
    assert pool.connected(server.address) is None
    second = pool.get(server.address)
    assert second is not first
    assert second.alive
    assert pool.opened.items == [first, second]


def test_a_failure_to_connect_reaches_the_caller_and_the_next_try_connects(pool, server):
    address = server.address
    server.stop_listening()
    with pytest.raises(ConnectFailed, match=address):
        pool.get(address)
    with pytest.raises(ConnectFailed):
        pool.get(address)
    assert pool.opened.items == []


def test_requests_of_the_peer_come_with_their_connection(pool, server):
    connection = pool.get(server.address)
    server.accept().send(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
    ((source, command),) = pool.requests.wait()
    assert source is connection
    assert command.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


def test_close_closes_all_reports_no_loss_and_refuses_more(pool, server, in_thread):
    connection = pool.get(server.address)
    peer = server.accept()
    answer = in_thread(connection.call, request(RequestCode.GET_MAX_OFFSET), LONG)
    peer.read()
    pool.close()
    pool.close()
    with pytest.raises(ConnectionLost):
        answer.result(SOON)
    assert peer.at_end()
    assert pool.lost.items == []
    assert pool.connected(server.address) is None
    with pytest.raises(LifecycleError, match="closed"):
        pool.get(server.address)


def test_a_connection_opened_while_the_pool_closes_is_closed_again(pool, server, monkeypatch):
    def close_meanwhile(*args, **kwargs):
        connection = Connection(*args, **kwargs)
        pool.close()
        return connection

    monkeypatch.setattr("orderly.client.pool.Connection", close_meanwhile)
    with pytest.raises(LifecycleError):
        pool.get(server.address)
    assert server.accept().at_end()


# --- where to ----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"broker_hosts": "10.0.0.0/8;*.mq.example.com"}], ids=[""])
def test_a_host_that_is_not_allowed_is_never_connected_to(pool, server):
    for _ in range(2):
        with pytest.raises(ConnectFailed, match=rf"{server.address}.*ORDERLY_BROKER_HOSTS"):
            pool.get(server.address)
    assert server.pending_connections() == 0
    assert pool.opened.items == []


@pytest.mark.parametrize("settings", [{"broker_hosts": "10.0.0.0/8,127.0.0.1"}], ids=[""])
def test_a_host_that_is_allowed_is(pool, server):
    assert pool.get(server.address).alive


def test_a_name_server_was_named_by_the_user_and_is_allowed(inbox, server, awake):
    config = ClientConfig(namesrv=server.address, broker_hosts="10.0.0.0/8")
    with closing(
        Connections(
            awake=awake,
            connect_timeout=2.0,
            max_frame=2**24,
            on_request=lambda *_: None,
            on_open=inbox(),
            on_loss=inbox(),
            security=security_of(config),
        )
    ) as pool:
        assert pool.get(server.address).alive


@pytest.fixture
def everywhere(server, monkeypatch):
    """Every address leads to `server`."""
    here = server.address.split(":")
    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda _, timeout: connect(here, timeout))


KEYS = {"access_key": "app", "secret_key": "secret12345"}


@pytest.mark.parametrize(
    ("settings", "address", "told"),
    [
        (KEYS, "10.0.0.1:10911", True),
        (KEYS, "broker-a:10911", True),
        (KEYS, "[2001:db8::1]:10911", True),
        (KEYS, "127.0.0.7:10911", False),
        (KEYS, "localhost:10911", False),
        (KEYS, "[::1]:10911", False),
        ({}, "10.0.0.1:10911", False),
        (KEYS | {"namesrv": "10.0.0.1:9876"}, "10.0.0.1:9876", False),
        (
            KEYS | {"namesrv": "10.0.0.1:9876", "sign_name_server_requests": True},
            "10.0.0.1:9876",
            True,
        ),
    ],
)
def test_keys_that_go_through_a_network_unencrypted_are_warned_of(
    pool, everywhere, address, told, caplog
):
    pool.get(address)
    assert ("keys.not_encrypted" in caplog.text) is told
    assert ("ORDERLY_TLS" in caplog.text) is told
    assert "secret12345" not in caplog.text


@pytest.mark.parametrize("settings", [KEYS], ids=[""])
def test_that_warning_comes_once(pool, everywhere, caplog):
    for host in ("10.0.0.1", "10.0.0.2"):
        pool.get(f"{host}:10911")
    assert caplog.text.count("keys.not_encrypted") == 1


def test_of_keys_that_are_encrypted_nothing_is_said():
    security = security_of(ClientConfig(namesrv="127.0.0.1:1", tls=True, **KEYS))
    assert not security.exposes_keys_to("10.0.0.1:10911")
