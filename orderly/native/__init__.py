"""Ordered messages over librocketmq, RocketMQ's C++ client, for programs that must use it.

It has the same selectors and the same listener as the rest of orderly; docs/how-to/native.md says
what this driver cannot do. librocketmq is loaded only when one of these objects is made.
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
