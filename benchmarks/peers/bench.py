"""One run of it all: the broker all sides share, fresh topics, and how each peer is started."""

import contextlib
import os
import re
import tempfile
import time
from pathlib import Path

from benchmarks.peers import java, launch, proxy, venvs
from benchmarks.peers.launch import SideFailed
from benchmarks.peers.programs.meter import body, key
from benchmarks.rounds import progress
from orderly import Message, OrderlyProducer, ProducerConfig
from orderly.client import Client
from orderly.native.library import HOW_TO_GET_IT, VARIABLE
from orderly.protocol.groups import GroupConfig
from orderly.testing import EmbeddedBroker

QUEUES = 8
LOOSE = ProducerConfig(layout="loose")  # no pin to tell of
BACKLOG = 200_000  # messages; every other number is in proportion to it
GRPC, NATIVE = "5.1.2", "2.0.0"  # their releases on PyPI
BROKER_OPTIONS = ("-XX:TieredStopAtLevel=4", "-Xmx1g")  # a test broker has less of both
BROKER_SETTINGS = {"timerWheelEnable": "true"}  # without it gRPC consumers are refused


class Bench:
    """What the parts need; a context manager. One thread.

    Args:
        peers: who takes part; one that cannot is left out, and its runs say why.
        count: messages of a backlog.
    """

    def __init__(self, peers, count):
        self.count = count
        self.proxy = ""
        self._peers = peers
        self._stack = contextlib.ExitStack()
        self.commands = []
        self._commands = {}
        self._reasons = {}
        self._backlogs = {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.broker = stack.enter_context(
                EmbeddedBroker(broker_properties=BROKER_SETTINGS, java_options=BROKER_OPTIONS)
            )
            self.namesrv = self.broker.namesrv
            self._client = stack.enter_context(Client(namesrv=self.namesrv))
            for peer in self._peers:
                self._prepare(peer, stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info):
        self._stack.close()

    def _prepare(self, peer, stack):
        try:
            self._commands[peer] = stack.enter_context(COMMANDS[peer](self))
        except SideFailed as error:
            self._reasons[peer] = str(error)
            progress(f"{peer} is left out: {error}")

    def run(self, peer, *arguments):
        """Run a program of a peer.

        Raises:
            SideFailed: it failed, or the peer is not to be had.
        """
        if peer not in self._commands:
            raise SideFailed(self._reasons.get(peer, "not asked for (--sides)"))
        command, env = self._commands[peer]
        self.commands.append(self._shown([*command, *arguments]))
        return launch.run([*command, *arguments], env)

    def _shown(self, words):
        """A command without what differs from run to run."""
        program, *rest = map(str, words)
        text = " ".join([Path(program).name, *rest])
        for address, name in (
            (self.namesrv, "NAMESRV"),
            (self.broker.broker_address, "BROKER"),
            (self.proxy or "none", "PROXY"),
        ):
            text = text.replace(address, name)
        text = re.sub(r"-D\S+ |-cp \S+ ", "", text)
        text = re.sub(r"\bpeers-[0-9a-f]+", "NAME", text)
        return re.sub(r"\b(128|1024)\b", "SIZE", text)

    def scaled(self, *numbers):
        """Numbers of messages for this run's backlog instead of one of 200,000."""
        return [round(number * self.count / BACKLOG) for number in numbers]

    def topic(self, message_type=None):
        """A fresh topic; a proxy takes ordered messages for one of type FIFO only."""
        name = f"peers-{time.time_ns():x}"
        self._client.admin.create_topic(name, QUEUES, message_type=message_type)
        return name

    def backlog(self, size, count=None, message_type=None):
        """The topic with that backlog; filled once."""
        count = count or self.count
        wanted = size, count, message_type
        if wanted not in self._backlogs:
            self._backlogs[wanted] = topic = self.topic(message_type)
            progress(f"a backlog of {count:,} messages of {size} bytes")
            text = body(size).encode()
            with OrderlyProducer(namesrv=self.namesrv, config=LOOSE) as producer:
                for number in range(count):
                    producer.submit(Message(topic, text, sharding_key=key(number)))
                assert producer.flush(120), "the backlog was not sent within 120 s"
        return self._backlogs[wanted]

    def depths(self, topic):
        """How many messages each queue of a topic has had, by queue id."""
        stats = self._client.admin.topic_stats(topic)
        return {queue.queue_id: offset.max_offset for queue, offset in stats.items()}

    def ordered_group(self):
        """A new group that the broker knows as ordered, which is what the gRPC client goes by."""
        group = new_group()
        self._client.housekeeping.put_group(GroupConfig(name=group, orderly=True))
        return group


def new_group():
    """The name of a group that has consumed nothing yet."""
    return f"peers-{time.time_ns():x}"


@contextlib.contextmanager
def _ours(bench):
    yield launch.python("benchmarks.peers.programs.ours"), {}


@contextlib.contextmanager
def _compiled(bench):
    """Our programs on a platform wheel; in an environment that has the checkout behind it."""
    progress("a platform wheel is built")
    python = venvs.platform_wheel()
    yield launch.python("benchmarks.peers.programs.ours", python), {"PYTHONSAFEPATH": "1"}


@contextlib.contextmanager
def _floor(bench):
    yield launch.python("benchmarks.floor"), {}


@contextlib.contextmanager
def _java(bench):
    with java.compiled() as command:
        yield command, {}


@contextlib.contextmanager
def _grpc(bench):
    python = venvs.python_with("rocketmq-python-client", GRPC)
    with proxy.running(bench.namesrv) as address, _logs() as env:
        bench.proxy = address
        yield launch.python("benchmarks.peers.programs.grpc_client", python), env


@contextlib.contextmanager
def _native(bench):
    library = os.environ.get(VARIABLE)
    if not library:
        raise SideFailed(f"{VARIABLE} is not set. {HOW_TO_GET_IT}")
    python = venvs.python_with("rocketmq-client-python", NATIVE)
    with venvs.bundled(python, library), _logs() as env:
        yield launch.python("benchmarks.peers.programs.native_client", python), env


@contextlib.contextmanager
def _logs():
    """A home for what these clients log, whatever they are told."""
    with tempfile.TemporaryDirectory(prefix="orderly-peers-") as home:
        yield {"HOME": home}


COMMANDS = {
    "ours": _ours,
    "compiled": _compiled,
    "java": _java,
    "floor": _floor,
    "native": _native,
    "grpc": _grpc,
}


def load():
    """The machine's load of the last minute."""
    return os.getloadavg()[0]
