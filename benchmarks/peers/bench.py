"""One run of it all: the broker all sides share, fresh topics, and how each peer is started."""

import contextlib
import os
import time

from benchmarks.peers import java, launch
from benchmarks.peers.launch import SideFailed
from benchmarks.peers.programs.meter import body, key
from benchmarks.rounds import progress
from orderly import Message, OrderlyProducer
from orderly.client import Client
from orderly.testing import EmbeddedBroker

QUEUES = 8
BACKLOG = 200_000  # messages; every other number is in proportion to it
BROKER_OPTIONS = ("-XX:TieredStopAtLevel=4", "-Xmx1g")  # a test broker has less of both


class Bench:
    """What the parts need; a context manager. One thread.

    Args:
        peers: who takes part; one that cannot is left out, and its runs say why.
        count: messages of a backlog.
    """

    def __init__(self, peers, count):
        self.count = count
        self._peers = peers
        self._stack = contextlib.ExitStack()
        self._commands = {}
        self._reasons = {}
        self._backlogs = {}

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.broker = stack.enter_context(EmbeddedBroker(java_options=BROKER_OPTIONS))
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
        return launch.run([*self._commands[peer], *arguments])

    def scaled(self, *numbers):
        """Numbers of messages for this run's backlog instead of one of 200,000."""
        return [round(number * self.count / BACKLOG) for number in numbers]

    def topic(self):
        """A fresh topic."""
        name = f"peers-{time.time_ns():x}"
        self._client.admin.create_topic(name, QUEUES)
        return name

    def backlog(self, size):
        """The topic with the backlog of bodies of that size; filled once."""
        if size not in self._backlogs:
            topic, text = self.topic(), body(size).encode()
            progress(f"a backlog of {self.count:,} messages of {size} bytes")
            with OrderlyProducer(namesrv=self.namesrv) as producer:
                for number in range(self.count):
                    producer.submit(Message(topic, text, sharding_key=key(number)))
                assert producer.flush(120), "the backlog was not sent within 120 s"
            self._backlogs[size] = topic
        return self._backlogs[size]


def new_group():
    """The name of a group that has consumed nothing yet."""
    return f"peers-{time.time_ns():x}"


@contextlib.contextmanager
def _ours(bench):
    yield launch.python("benchmarks.peers.programs.ours")


@contextlib.contextmanager
def _floor(bench):
    yield launch.python("benchmarks.floor")


@contextlib.contextmanager
def _java(bench):
    with java.compiled() as command:
        yield command


COMMANDS = {"ours": _ours, "java": _java, "floor": _floor}


def load():
    """The machine's load of the last minute."""
    return os.getloadavg()[0]
