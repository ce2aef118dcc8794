from __future__ import annotations

import ipaddress
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from orderly.producer.message_ids import MessageIds
from orderly.protocol.outgoing import parse_unique_key


def test_ids_are_unique_over_threads_and_producers():
    makers = [MessageIds("10.0.0.1@1#a") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda number: makers[number % 4].next(), range(20_000)))
    assert len(set(ids)) == 20_000


@pytest.mark.parametrize(
    ("client_id", "address"),
    [("10.0.0.1@7#ff", "10.0.0.1"), ("2001:db8::1@7#ff", "2001:db8::1"), ("myhost@7", "0.0.0.0")],
)
def test_an_id_tells_address_and_process(client_id, address):
    parts = parse_unique_key(MessageIds(client_id).next())
    assert ipaddress.ip_address(parts.ip) == ipaddress.ip_address(address)
    assert parts.pid == os.getpid() & 0xFFFF
