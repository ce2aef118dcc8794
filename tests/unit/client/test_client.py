import re
import threading

import pytest

from orderly.client import Client
from orderly.config import ClientConfig
from orderly.errors import ConfigError, LifecycleError
from orderly.protocol.codes import RequestCode
from orderly.protocol.heartbeat import Subscription


def threads():
    return {t.name for t in threading.enumerate() if t.name.startswith("orderly-")}


def test_client_ids_differ_and_name_host_and_process(new_client):
    one, other = new_client(), new_client()
    assert re.fullmatch(r"127\.0\.0\.1@\d+#[0-9a-f]{8}", one.client_id)
    assert one.client_id != other.client_id


def test_a_name_server_that_does_not_resolve_does_not_stop_the_making(monkeypatch):
    def unresolvable(*_, **__):
        raise OSError("no such host")

    monkeypatch.setattr("socket.getaddrinfo", unresolvable)
    assert Client(namesrv="nowhere:9876").client_id.startswith("127.0.0.1@")


def test_the_argument_wins_over_the_config_and_both_over_the_environment(monkeypatch):
    monkeypatch.setenv("ORDERLY_NAMESRV", "127.0.0.1:1")
    config = ClientConfig(namesrv="127.0.0.1:2", request_timeout=7.0)
    assert Client().config.addresses == ("127.0.0.1:1",)
    assert Client(config).config.addresses == ("127.0.0.1:2",)
    client = Client(config, namesrv="127.0.0.1:3;127.0.0.1:4")
    assert client.config.addresses == ("127.0.0.1:3", "127.0.0.1:4")
    assert client.name_servers.addresses == client.config.addresses
    assert client.config.request_timeout == 7.0


def test_no_name_server_at_all(monkeypatch):
    monkeypatch.delenv("ORDERLY_NAMESRV", raising=False)
    with pytest.raises(ConfigError, match="ORDERLY_NAMESRV"):
        Client()


def test_a_client_made_and_not_started_leaves_no_thread(new_client):
    before = threads()
    client = new_client()
    assert threads() <= before, "those of earlier tests may end late"
    client.close()


def test_requests_work_without_a_start(new_client, broker):
    assert new_client().routes.get("orders").topic == "orders"


def test_start_may_be_repeated_by_those_who_share_it(new_client):
    client = new_client()
    assert client.start() is client
    client.start()


def test_close_ends_all_threads_and_connections_and_is_idempotent(new_client, broker, name_server):
    before = threads()
    with new_client() as client:
        client.heartbeat.register_producer("p")
        client.routes.get("orders")
        client.heartbeat.heartbeat_now()
        client.schedule.after(3600, lambda: None)
        assert threads() - before
    client.close()
    assert threads() <= before


def test_close_leaves_all_groups_before_it_disconnects(new_client, broker):
    client = new_client().start()
    client.heartbeat.register_consumer(
        "g",
        subscriptions=lambda: (Subscription.from_expression("orders", "*", 1),),
        on_members_changed=lambda: None,
    )
    client.heartbeat.register_producer("p")
    client.heartbeat.heartbeat_now()
    client.close()
    left = broker.requests(RequestCode.UNREGISTER_CLIENT)
    assert [request.ext.get("consumerGroup") for request in left] == ["g", None]
    assert [request.ext.get("producerGroup") for request in left] == [None, "p"]


def test_a_closed_client_says_so(new_client, broker):
    client = new_client().start()
    client.close()
    with pytest.raises(LifecycleError, match="closed"):
        client.start()
    with pytest.raises(LifecycleError, match="closed"):
        client.routes.get("orders")


def test_close_from_several_threads_at_once(new_client, broker):
    client = new_client().start()
    client.routes.get("orders")
    closing = [threading.Thread(target=client.close, daemon=True) for _ in range(4)]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(30)
        assert not thread.is_alive()
