"""Producers by group: what a broker writes (release 5.5.0), and what is no such table."""

import pytest

from orderly.errors import ProtocolError
from orderly.protocol.producer_table import decode_producers, encode_producers


def test_what_a_broker_writes_is_read():
    body = (
        b'{"data":{"shop":[{"clientId":"1.2.3.4@7#x","language":"PYTHON","lastUpdateTimestamp":1,'
        b'"remoteIP":"/1.2.3.4:5","version":513},{"clientId":"b"}],"idle":[]}}'
    )
    assert decode_producers(body) == {"shop": ("1.2.3.4@7#x", "b"), "idle": ()}


def test_what_is_written_is_read_again():
    table = {"shop": ("a", "b")}
    assert decode_producers(encode_producers(table)) == table


@pytest.mark.parametrize(
    "body", [b"[]", b'{"data":[]}', b'{"data":{"g":[1]}}', b'{"data":{"g":[{}]}}']
)
def test_anything_else_is_a_protocol_error(body):
    with pytest.raises(ProtocolError):
        decode_producers(body)
