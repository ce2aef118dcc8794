"""A library that lacks a call says so at once, by the call's name."""

import pytest

from orderly import Ack, Message
from orderly.errors import NativeLibraryError
from orderly.native import Library, NativeConsumer, NativeOrderlyProducer, listener
from tests.native.worlds import Stub, compile_stub

pytestmark = pytest.mark.needs("cc")


def act(_message, _attempt):
    return Ack()


@pytest.fixture(scope="module")
def old(tmp_path_factory):
    """As released up to 2.2.0: it does not tell the length of a body."""
    return compile_stub(tmp_path_factory.mktemp("old"), "-DOLD")


def test_a_body_could_end_at_a_nul_unless_there_is_none(old, soon):
    with pytest.raises(NativeLibraryError, match=r"lacks GetMessageBodyLength.*text_bodies=True"):
        listener(act, library=Library(old))
    seen = []

    def keep(message, _attempt):
        seen.append((message.body, message.queue.broker_name))
        return Ack()

    with Stub(old) as world:
        topic, group = world.topic(1), "old"
        made = listener(keep, library=world.library, text_bodies=True)
        consumer = NativeConsumer(group, made, namesrv=world.namesrv, library=world.library)
        world.producer().send(Message(topic, b"text", sharding_key="a"))
        world.enter_context(consumer.subscribe(topic))
        soon(lambda: seen)
    assert seen == [(b"text", "")]


def test_without_ordered_sends_there_is_no_producer(tmp_path):
    ancient = Library(compile_stub(tmp_path, "-DOLD", "-DANCIENT"))
    with pytest.raises(NativeLibraryError, match=r"lacks SendMessageOrderly\. It is too old"):
        NativeOrderlyProducer(namesrv="127.0.0.1:1", library=ancient)
