"""Everything a process says to name servers and brokers, apart from the messages themselves.

Shell code over `orderly.remoting`. What keeps messages in order is decided elsewhere: in
`orderly.ordering`, for the producer and the consumer.
"""

from orderly.client.client import Client

__all__ = ["Client"]
