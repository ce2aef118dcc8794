"""A real broker with a short lease behind a proxy."""

import contextlib

from orderly.testing.ports import free_port
from tests.support.leases import SHORT, leasing_broker
from tests.support.proxy import Proxy


@contextlib.contextmanager
def proxied_broker():
    """(proxy, broker): clients reach the broker through the proxy only. It stands first."""
    port = free_port(-2, 1)
    with (
        Proxy(f"127.0.0.2:{port}", f"127.0.0.1:{port}") as proxy,
        leasing_broker(
            SHORT, broker_port=port, broker_properties={"brokerIP1": "127.0.0.2"}
        ) as broker,
    ):
        yield proxy, broker
