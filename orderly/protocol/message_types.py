"""What kind of messages a topic is declared for: attribute "message.type" of its settings.

Source: TopicMessageType and TopicAttributes in Java. Brokers keep it; only proxies hold producers
to it, and only to what comes over gRPC.
"""

from __future__ import annotations

from enum import StrEnum

from orderly.protocol import properties as names

ATTRIBUTE = "message.type"


class MessageType(StrEnum):
    """The types that release 5.5 knows; a topic without one is NORMAL."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"
    LITE = "LITE"
    MIXED = "MIXED"
    UNSPECIFIED = "UNSPECIFIED"


# A message that has one of these becomes visible later than it was sent: at a time, or when its
# transaction ends. Messages sent after it come before it.
APPEARS_LATER: frozenset[str] = frozenset(
    {
        names.DELAY,
        "TIMER_DELAY_LEVEL",
        "TIMER_DELAY_MS",
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "TRAN_MSG",
    }
)
