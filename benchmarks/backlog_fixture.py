"""Make the backlogs that scans are measured on: `python -m benchmarks.backlog_fixture`.

By default a small one; `--full` is the size of the goal figures (10,000 queues, 500 groups,
160,000 committed offsets). Nobody consumes: all groups are offline, every queue has a backlog.
Without --namesrv it starts a local broker and keeps it until Ctrl-C.
"""

import argparse
import contextlib
import itertools
import os
import sys
import time
from dataclasses import dataclass, replace

from orderly.client import Client
from orderly.client.pipeline import Pipeline, Question, RequestLimits
from orderly.errors import BrokerBusy, OrderlyError
from orderly.protocol.codes import RequestCode
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.groups import GroupConfig, encode_group_config
from orderly.protocol.offsets import UpdateConsumerOffset
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendBatch, encode_batch
from orderly.protocol.topics import CreateTopic
from orderly.testing import EmbeddedBroker

PATIENCE = 30.0  # seconds for one answer: a broker makes the files of thousands of queues
DEADLINE = 600.0  # seconds for all
PIECE = 5_000  # requests between two words about the progress


@dataclass(frozen=True)
class Size:
    """How much there is of everything; every group has offsets in `topics_per_group` topics."""

    topics: int = 5
    queues: int = 4
    messages: int = 10
    groups: int = 4
    topics_per_group: int = 2


FULL = Size(topics=625, queues=16, messages=10, groups=500, topics_per_group=20)


@dataclass(frozen=True)
class Fixture:
    """What was made.

    Attributes:
        broker: its name.
        consumed: the topics of each group.
        backlog: messages behind their groups, in all.
        seconds: that took.
    """

    broker: str
    consumed: dict[str, tuple[str, ...]]
    backlog: int
    seconds: float


def make(client, size, *, prefix="backlog", tell=lambda text: None):
    """Make it on the first broker that `client` knows; what is there already gets more messages.

    Args:
        client: started or not.
        size: of it.
        prefix: of all names.
        tell: gets a word about the progress now and then.

    Returns:
        The fixture; the last message of every queue is visible.

    Raises:
        OrderlyError: a request failed.
    """
    began = time.monotonic()
    name, data = min(client.admin.cluster().brokers.items())
    ask = Asking(client, data.master, tell)
    topics = [f"{prefix}-t{number:04}" for number in range(size.topics)]
    consumed = {f"{prefix}-g{n:04}": of_group(topics, n, size) for n in range(size.groups)}
    ask.all("topics", size.topics, (create(topic, size.queues) for topic in topics))
    # mqadmin knows of a group by its retry topic alone
    ask.all("retry topics", size.groups, (create(f"%RETRY%{group}", 1) for group in consumed))
    ask.all("groups", size.groups, map(put_group, consumed))
    ask.all("queues", size.topics * size.queues, sends(topics, size))
    # Of the first commits to one topic by one group only one lasts if they come at once: the broker
    # makes the pair's table without a lock (ConsumerOffsetManager.commitOffset).
    firsts, others = range(1), range(1, size.queues)
    pairs = size.groups * size.topics_per_group
    ask.all("first offsets", pairs, commits(consumed, size, firsts))
    ask.all("other offsets", pairs * len(others), commits(consumed, size, others))
    wait_visible(client, topics[-1], size.messages)
    behind = (size.messages - row[-1] for row in committed(consumed, size, range(size.queues)))
    backlog = sum(behind)
    return Fixture(name, consumed, backlog, time.monotonic() - began)


def wait_visible(client, topic, messages):
    """Wait until the messages stored last can be read: a broker takes a moment for that."""
    deadline = time.monotonic() + PATIENCE
    while min(row.max_offset for row in client.admin.topic_stats(topic).values()) < messages:
        assert time.monotonic() < deadline, f"the messages of {topic} do not become visible"
        time.sleep(0.01)


def of_group(topics, number, size):
    """The topics of one group: the next ones in turn, so that all have about as many groups."""
    first = number * size.topics_per_group
    return tuple(topics[(first + n) % len(topics)] for n in range(size.topics_per_group))


class Asking:
    """Many requests to one broker, none of which may fail."""

    def __init__(self, client, address, tell):
        self._address = address
        self._tell = tell
        self._pipeline = Pipeline(
            client.connections, RequestLimits(in_flight=64, patience=PATIENCE)
        )
        self._deadline = time.monotonic() + DEADLINE

    def all(self, what, count, commands):
        """Send `count` commands, in pieces: thousands with their answers take much memory."""
        commands, done, began = iter(commands), 0, time.monotonic()
        while done < count:
            piece = [
                Question(command, lambda reply: None, what)
                for command in itertools.islice(commands, PIECE)
            ]
            done += len(piece)
            while piece := self._busy(piece):
                time.sleep(0.2)
            self._tell(f"{what}: {done:,} of {count:,} ({time.monotonic() - began:.1f} s)")

    def _busy(self, piece):
        """Send some; return those that a broker with too much to do did not even begin with."""
        again = []
        answers = self._pipeline.ask(self._address, piece, self._deadline)
        for question, answer in zip(piece, answers, strict=True):
            if isinstance(answer, BrokerBusy):
                again.append(question)
            elif isinstance(answer, OrderlyError):
                raise answer
        return again


def of_header(header, body=b""):
    """A request made of a header."""
    return request(header.code, to_ext(header), body)


def create(topic, queues):
    """The request that makes a topic."""
    return of_header(CreateTopic(topic=topic, read_queue_nums=queues, write_queue_nums=queues))


def put_group(group):
    """The request that makes a group."""
    body = encode_group_config(GroupConfig(name=group))
    return request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body)


def sends(topics, size):
    """One batch of messages for each queue."""
    born = round(time.time() * 1000)
    for number, topic in enumerate(topics):
        for queue_id in range(size.queues):
            yield of_header(
                SendBatch(
                    producer_group="fixture", topic=topic, queue_id=queue_id, born_timestamp=born
                ),
                batch(number * size.queues + queue_id, size.messages),
            )


def batch(number, messages):
    """A batch that no other queue has; one message in four is of the same key."""
    return encode_batch(
        (
            b"%d" % n,
            encode_properties(
                {"UNIQ_KEY": f"{number:016X}{n:016X}", "__SHARDINGKEY": f"key-{n % 4}"}
            ),
            0,
        )
        for n in range(messages)
    )


def committed(consumed, size, queue_ids):
    """Group, topic, queue id and offset: from nothing consumed to all but one message."""
    for number, (group, topics) in enumerate(consumed.items()):
        for topic in topics:
            for queue_id in queue_ids:
                yield group, topic, queue_id, (number + queue_id) % size.messages


def commits(consumed, size, queue_ids):
    """The requests that commit these offsets."""
    for group, topic, queue_id, offset in committed(consumed, size, queue_ids):
        yield of_header(
            UpdateConsumerOffset(
                consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
            )
        )


def main():
    """Make one for a person."""
    arguments = parsed()
    with contextlib.ExitStack() as stack:
        namesrv = arguments.namesrv or stack.enter_context(large_broker()).namesrv
        client = stack.enter_context(Client(namesrv=namesrv))
        made = make(client, size_of(arguments), prefix=arguments.prefix, tell=tell)
        print(
            f"{len(made.consumed)} groups with a backlog of {made.backlog:,} messages on"
            f" {made.broker} of {namesrv}, made in {made.seconds:.1f} s"
        )
        if not arguments.namesrv:
            print("The broker ends with Ctrl-C.", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    time.sleep(3600)


def large_broker():
    """A local broker with room for ten thousand queues."""
    return EmbeddedBroker(java_options=["-XX:TieredStopAtLevel=4", "-Xmx1g"])


def parsed():
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--namesrv", default=os.environ.get("ORDERLY_NAMESRV", ""))
    parser.add_argument("--prefix", default="backlog", help="of all names")
    parser.add_argument("--full", action="store_true", help="the size of the goal figures")
    for name, default in vars(Size()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"small: {default}")
    return parser.parse_args()


def size_of(arguments):
    """The size that the arguments ask for."""
    given = {name: value for name in vars(Size()) if (value := getattr(arguments, name))}
    return replace(FULL if arguments.full else Size(), **given)


def tell(text):
    """Show the progress, on one line of a terminal."""
    print(text, end="\r\033[K" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
