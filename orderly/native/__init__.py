"""Ordered messages over librocketmq, RocketMQ's C++ client, for who must go through it.

The same selectors and the same listener as everywhere; docs/how-to/native.md says what this
driver cannot do. Nothing of the library is loaded before one of these is made.
"""

from orderly.native.consumer import NativeConsumer
from orderly.native.library import Library, find_library
from orderly.native.listeners import ConsumeStatus, DeadLetters, NativeListener, listener
from orderly.native.producer import NativeOrderlyProducer

__all__ = [
    "ConsumeStatus",
    "DeadLetters",
    "Library",
    "NativeConsumer",
    "NativeListener",
    "NativeOrderlyProducer",
    "find_library",
    "listener",
]
