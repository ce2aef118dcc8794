"""What lies in a park queue, told apart: whose parked messages, and what nobody here can read."""

from __future__ import annotations

from orderly.errors import NotAvailableYet
from orderly.model import MessageQueue, ReceivedMessage
from orderly.protocol.park_record import Parked, Unknown, read_park


def parked_of(stored: ReceivedMessage, source: MessageQueue) -> Parked | None:
    """Return a message of a park queue as a parked one of `source`; None: it is something else.

    Raises:
        NotAvailableYet: a newer release parked it: to pass it over would be to lose it.
        ProtocolError: it is foreign, or damaged.
    """
    record = read_park(stored)
    if isinstance(record, Unknown):
        raise NotAvailableYet(
            f"position {stored.queue_offset} of {stored.queue} is of format {record.version}, which"
            " this release cannot read: a newer one parked it; upgrade this one"
        )
    return record if isinstance(record, Parked) and record.original.queue == source else None
