"""Host addresses in stored messages: the bytes of an IP address, then a 32-bit port.

Names of hosts, and which address is ours, are the shell's business.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from orderly.errors import ProtocolError

IPV4_SIZE = 8
IPV6_SIZE = 20


def host_to_text(data: bytes) -> str:
    """Return "1.2.3.4:port" or "[::1]:port" for the 8 or 20 bytes of a host."""
    address, port = data[:-4], int.from_bytes(data[-4:], signed=True)
    if len(data) == IPV4_SIZE:
        return f"{address[0]}.{address[1]}.{address[2]}.{address[3]}:{port}"
    return f"[{IPv6Address(address)}]:{port}"


@lru_cache(maxsize=1024)  # a broker stores its own address with every message
def host_from_text(text: str) -> bytes:
    """Return the bytes of a host written as `host_to_text` does.

    Raises:
        ProtocolError: anything else.
    """
    host, _, port = text.rpartition(":")
    try:
        return ip_address(host.strip("[]")).packed + struct.pack(">i", int(port))
    except (ValueError, struct.error) as error:
        raise ProtocolError(f"{text!r:.80} is no IP address and port") from error
