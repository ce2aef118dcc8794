"""Ordered messages on Apache RocketMQ: the public names.

They are imported when they are first used, so that a command or a program that needs one part does
not pay for the others.
"""

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    raise ImportError(
        "orderly runs on Linux and macOS. It needs sockets that write without waiting, which"
        " Windows does not have: use it in WSL 2 or in a Linux container"
    )

if os.path.exists(f"{__path__[0]}/compiled.txt"):  # noqa: PTH110  pathlib is slow to import
    import_module("orderly.compiled")  # fails if a file of this platform wheel is missing

if TYPE_CHECKING:
    from orderly.client import Client
    from orderly.config import ClientConfig, ConsumerConfig, ParkLimits, ProducerConfig
    from orderly.consumer import (
        ConsumeContext,
        Consumed,
        ConsumeResult,
        ConsumerHooks,
        OrderlyConsumer,
    )
    from orderly.errors import LockLost, OrderlyError
    from orderly.listening import (
        AsyncListener,
        Attempt,
        Block,
        Listener,
        Outcome,
        PoisonRules,
        Retry,
        Skip,
        listener,
    )
    from orderly.message import Message
    from orderly.model import MessageQueue, ReceivedMessage, SendResult
    from orderly.ordering.context import AsyncHandler, Handler
    from orderly.ordering.results import Ack, Answer, DeadLetter, Fail, Park, Suspend
    from orderly.producer import OrderlyProducer

__version__ = "0.1.0"

__all__ = [
    "Ack",
    "Answer",
    "AsyncHandler",
    "AsyncListener",
    "Attempt",
    "Block",
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
    "Listener",
    "LockLost",
    "Message",
    "MessageQueue",
    "OrderlyConsumer",
    "OrderlyError",
    "OrderlyProducer",
    "Outcome",
    "Park",
    "ParkLimits",
    "PoisonRules",
    "ProducerConfig",
    "ReceivedMessage",
    "Retry",
    "SendResult",
    "Skip",
    "Suspend",
    "__version__",
    "listener",
]

_HOMES = {
    "orderly.client": ("Client",),
    "orderly.config": ("ClientConfig", "ConsumerConfig", "ParkLimits", "ProducerConfig"),
    "orderly.consumer": (
        "Consumed",
        "ConsumerHooks",
        "OrderlyConsumer",
    ),
    "orderly.errors": ("LockLost", "OrderlyError"),
    "orderly.listening": (
        "AsyncListener",
        "Attempt",
        "Block",
        "Listener",
        "Outcome",
        "PoisonRules",
        "Retry",
        "Skip",
        "listener",
    ),
    "orderly.message": ("Message",),
    "orderly.model": ("MessageQueue", "ReceivedMessage", "SendResult"),
    "orderly.ordering.context": ("AsyncHandler", "ConsumeContext", "Handler"),
    "orderly.ordering.results": (
        "Ack",
        "Answer",
        "ConsumeResult",
        "DeadLetter",
        "Fail",
        "Park",
        "Suspend",
    ),
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
