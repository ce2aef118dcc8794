import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.errors import ProtocolError
from orderly.protocol.hosts import host_from_text, host_to_text


@given(st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20))
def test_a_host_survives_its_text_form(host):
    assert host_from_text(host_to_text(host)) == host


def test_both_families_are_written_with_their_port():
    assert host_to_text(bytes([10, 0, 0, 7]) + (10911).to_bytes(4)) == "10.0.0.7:10911"
    assert host_to_text(bytes(15) + b"\x01" + (80).to_bytes(4)) == "[::1]:80"


@pytest.mark.parametrize(
    "text", ["", "localhost:80", "1.2.3.4", "1.2.3.4:x", "1.2.3.4:99999999999"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ProtocolError):
        host_from_text(text)
