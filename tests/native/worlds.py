"""Where the native tests run: the stub with a broker in memory, or librocketmq with a real one."""

import contextlib
import ctypes
import subprocess
from collections import defaultdict
from pathlib import Path

from orderly import Client
from orderly.client.broker import PullQuery
from orderly.native import Library, NativeConsumer, NativeOrderlyProducer, listener
from orderly.protocol.heartbeat import Subscription
from tests.support.consuming import unique
from tests.support.optional import require
from tests.support.topics import pulled

STUB = Path(__file__).parent / "stub" / "librocketmq_stub.c"
_PROPERTIES = ("__SHARDINGKEY", "TAGS", "KEYS", "colour")


def compile_stub(folder, *flags):
    """Compile the stub; returns the library's path."""
    made = folder / f"librocketmq{'-'.join(flags)}.so"
    command = [
        *require("cc"),
        "-std=gnu11",
        "-O1",
        "-shared",
        "-fPIC",
        "-pthread",
        *flags,
        STUB,
        "-o",
        made,
    ]
    subprocess.run([str(word) for word in command], check=True, timeout=60)
    return str(made)


class World(contextlib.ExitStack):
    """A library and a broker; what it made is closed at its end."""

    def __init__(self, path, namesrv):
        super().__init__()
        self.library = Library(path)
        self.namesrv = namesrv

    def producer(self, **settings):
        """Start a producer."""
        return self.enter_context(
            NativeOrderlyProducer(namesrv=self.namesrv, library=self.library, **settings)
        )

    def consume(self, topic, function, *, group=None, **settings):
        """Start a consumer of a topic from its first message on."""
        group = group or unique("group")
        self.begin(group, topic)
        made = listener(function, library=self.library, **settings)
        consumer = NativeConsumer(group, made, namesrv=self.namesrv, library=self.library)
        return self.enter_context(consumer.subscribe(topic))


class Stub(World):
    """The stub's library, and its own calls."""

    name = "stub"

    def __init__(self, path):
        super().__init__(path, "127.0.0.1:1")  # nobody listens there
        self.calls = ctypes.CDLL(path)
        self.calls.StubMessage.restype = ctypes.c_void_p
        self.calls.StubRetryAfter.argtypes = [ctypes.c_double]

    def topic(self, queues=4):
        """Make a topic; returns its name."""
        name = unique("topic")
        self.resize(name, queues)
        return name

    def resize(self, topic, queues):
        self.calls.StubTopic(topic.encode(), queues)

    def begin(self, group, topic):
        """Have a new group begin with the first message."""

    def stored(self, topic, queues=4):
        """What a topic holds: queue id -> [(body, properties)]."""
        found = {}
        for queue in range(queues):
            count = self.calls.StubStored(topic.encode(), queue)
            handles = [self.calls.StubMessage(topic.encode(), queue, at) for at in range(count)]
            found[queue] = [(self._body(each), self._properties(each)) for each in handles]
        return {queue: messages for queue, messages in found.items() if messages}

    def _body(self, handle):
        length = self.library["GetMessageBodyLength"](handle)
        return ctypes.string_at(self.library["GetMessageBody"](handle), length)

    def _properties(self, handle):
        read = self.library["GetMessageProperty"]
        found = {name: read(handle, name.encode()).decode() for name in _PROPERTIES}
        return {name: text for name, text in found.items() if text}


class Real(World):
    """The library of ORDERLY_LIBROCKETMQ, with the tests' broker."""

    name = "real"

    def __init__(self, path, namesrv, make_topic):
        super().__init__(path, namesrv)
        self._make_topic = make_topic
        self.client = self.enter_context(contextlib.closing(Client(namesrv=namesrv)))

    def topic(self, queues=4):
        """Make a topic; returns its name."""
        return self._make_topic(queues=queues)

    def begin(self, group, topic):
        """Have a new group begin with the first message; librocketmq begins at the end."""
        for queue in self.client.routes.refresh(topic).read_queues():
            query = PullQuery(group, queue, 0, 1, Subscription(topic), suspend=0)
            self.client.brokers.pull_now(query)  # brokers make the group with the first pull
            self.client.brokers.update_offset(group, queue, 0)

    def stored(self, topic, queues=4):
        """What a topic holds: queue id -> [(body, properties)]."""
        found = defaultdict(list)
        for message in pulled(self.client, topic):
            known = {name: message.properties.get(name) for name in _PROPERTIES}
            properties = {name: text for name, text in known.items() if text}
            found[message.queue.queue_id].append((message.body, properties))
        return dict(found)
