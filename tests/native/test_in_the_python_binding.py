"""native.listener as the callback of rocketmq-client-python 2.0.0, whose ways are copied here.

That package registers a function that calls the user's callback and, if it raises, returns "later"
and raises on the way out, which ctypes drops: the library then reads whatever the slot holds.
"""

import ctypes
import sys
from types import SimpleNamespace

import pytest

from orderly import Ack, Message
from orderly.native import ConsumeStatus, Library, listener
from orderly.native.library import MessageCallback


class Received:
    """Its message: a handle, and a body that ends at the first NUL."""

    def __init__(self, handle):
        self._handle = handle


class PushConsumer:
    """Its consumer, as far as a callback notices."""

    def __init__(self, world, group):
        self._library = world.library
        self._handle = world.library["CreatePushConsumer"](group.encode())
        world.callback(self._library["DestroyPushConsumer"], self._handle)
        self._namesrv = world.namesrv

    def subscribe(self, topic, callback):
        def on_message(_consumer, handle):
            error = None
            try:
                result = callback(Received(handle))
                if result not in (0, 1):
                    raise ValueError("Consume status error")  # noqa: TRY301
            except BaseException as raised:
                error = raised
                return 1
            else:
                return result
            finally:
                if error:
                    raise error

        self._kept = MessageCallback(on_message)
        self._library.do("SetPushConsumerNameServerAddress", self._handle, self._namesrv.encode())
        self._library.do("Subscribe", self._handle, topic.encode(), b"*")
        self._library.do("RegisterMessageCallbackOrderly", self._handle, self._kept)
        self._library.do("StartPushConsumer", self._handle)


def test_a_raise_is_no_ack_and_bodies_are_whole(world, soon):
    topic, seen = world.topic(1), []

    def act(message, _attempt):
        seen.append(message.body)
        if seen == [b"\0a\0", b"b"]:
            raise ValueError("b fails once")
        return Ack()

    producer = world.producer()
    for body in (b"\0a\0", b"b", b"c"):
        producer.send(Message(topic, body, sharding_key="a"))
    world.begin("binding-" + topic, topic)
    consumer = PushConsumer(world, "binding-" + topic)
    consumer.subscribe(topic, listener(act, library=world.library))
    try:
        soon(lambda: b"c" in seen)
    finally:
        world.library["ShutdownPushConsumer"](consumer._handle)
    assert seen == [b"\0a\0", b"b", b"b", b"c"]


def test_the_library_is_the_one_that_the_binding_loaded(stub, monkeypatch):
    loaded = SimpleNamespace(dll=ctypes.CDLL(stub.library.path))
    monkeypatch.setitem(sys.modules, "rocketmq.ffi", loaded)
    monkeypatch.setenv("ORDERLY_LIBROCKETMQ", "/no/such/file.so")
    callback = listener(lambda _message, _attempt: Ack())
    assert callback(SimpleNamespace(_handle=0)) is ConsumeStatus.RECONSUME_LATER


@pytest.mark.parametrize(
    "message", [None, object(), b"body", 0, -1, True, SimpleNamespace(_handle=None)]
)
def test_what_is_no_message_of_it_comes_again(stub, message):
    callback = listener(lambda _message, _attempt: Ack(), library=Library(stub.library.path))
    assert callback(message) == 1
