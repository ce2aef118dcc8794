"""Ordered messages on Apache RocketMQ: the public names.

They are imported when they are first used, so that a command or a program that needs one part does
not pay for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.config import ClientConfig, ConsumerConfig, ProducerConfig
    from orderly.consumer import (
        ConsumeContext,
        Consumed,
        ConsumeResult,
        ConsumerHooks,
        OrderlyConsumer,
    )
    from orderly.errors import LockLost, OrderlyError
    from orderly.model import Message, MessageQueue, ReceivedMessage, SendResult
    from orderly.ordering.context import AsyncHandler, Handler
    from orderly.ordering.outcomes import Ack, Answer, DeadLetter, Fail, Park, Suspend
    from orderly.producer import OrderlyProducer

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "Answer",
    "AsyncHandler",
    "Client",
    "ClientConfig",
    "ConsumeContext",
    "ConsumeResult",
    "Consumed",
    "ConsumerConfig",
    "ConsumerHooks",
    "DeadLetter",
    "Fail",
    "Handler",
    "LockLost",
    "Message",
    "MessageQueue",
    "OrderlyConsumer",
    "OrderlyError",
    "OrderlyProducer",
    "Park",
    "ProducerConfig",
    "ReceivedMessage",
    "SendResult",
    "Suspend",
    "__version__",
]

_HOMES = {
    "orderly.client": ("Client",),
    "orderly.config": ("ClientConfig", "ConsumerConfig", "ProducerConfig"),
    "orderly.consumer": (
        "Consumed",
        "ConsumerHooks",
        "OrderlyConsumer",
    ),
    "orderly.errors": ("LockLost", "OrderlyError"),
    "orderly.model": ("Message", "MessageQueue", "ReceivedMessage", "SendResult"),
    "orderly.ordering.context": ("AsyncHandler", "ConsumeContext", "Handler"),
    "orderly.ordering.outcomes": ("Ack", "Answer", "DeadLetter", "Fail", "Park", "Suspend"),
    "orderly.ordering.results": ("ConsumeResult",),
    "orderly.producer": ("OrderlyProducer",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            globals()[name] = value = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module 'orderly' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
