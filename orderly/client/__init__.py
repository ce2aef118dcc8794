"""Everything a process says to name servers and brokers, apart from the messages themselves.

Shell code: sockets, threads and time live here. What the bytes mean is `orderly.protocol`'s
business; what keeps messages in order is decided in `orderly.ordering`, for the producer and the
consumer.
"""

from orderly.client.client import Client

__all__ = ["Client"]
