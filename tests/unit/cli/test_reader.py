"""Reading a topic: each message once, in its queue's order, merged by time, never endless."""

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest

from orderly.cli import reader as reader_module
from orderly.cli.reader import GROUP, TopicReader
from orderly.errors import ConfigError
from orderly.model import MessageQueue
from tests.support.messages import message

QUEUES = (MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1))


class Log:
    """A topic of two queues; a pull gives at most two messages."""

    def __init__(self):
        self.stored = {queue: [] for queue in QUEUES}
        self.first = dict.fromkeys(QUEUES, 0)
        self.pulls = []
        self.routes = SimpleNamespace(get=lambda _: SimpleNamespace(read_queues=lambda: QUEUES))
        self.brokers = SimpleNamespace(
            min_offset=lambda queue: self.first[queue],
            max_offset=lambda queue: len(self.stored[queue]),
            search_offset=lambda queue, moment: sum(
                m.store_time < moment for m in self.stored[queue]
            ),
            pull_now=self._pull,
        )

    def add(self, queue, *times):
        for time in times:
            stored = message(len(self.stored[queue]), "k", queue)
            self.stored[queue].append(replace(stored, store_time=float(time)))

    def _pull(self, query):
        assert (query.group, query.suspend) == (GROUP, 0)
        self.pulls.append(query)
        found = self.stored[query.queue][query.offset : query.offset + 2]
        return SimpleNamespace(messages=found, next_offset=query.offset + len(found))


@pytest.fixture
def log():
    made = Log()
    made.add(QUEUES[0], 1, 4, 5)
    made.add(QUEUES[1], 2, 3, 6)
    return made


def times(messages):
    return [message.store_time for message in messages]


def read(log, start="first", *, follow=False):
    return TopicReader(log, "orders", start).messages(follow=follow)


def test_what_is_stored_is_merged_by_time(log):
    assert times(read(log)) == [1, 2, 3, 4, 5, 6]


def test_it_begins_at_the_oldest_message_that_is_left(log):
    log.first[QUEUES[0]] = 2
    assert times(read(log)) == [2, 3, 5, 6]


def test_from_last_there_is_nothing_yet(log):
    assert list(read(log, "last")) == []


def test_from_a_time(log):
    assert times(read(log, "1970-01-01T00:00:04+00:00")) == [4, 5, 6]


def test_a_start_that_is_none_is_refused(log):
    with pytest.raises(ConfigError, match="yesterday"):
        read(log, "yesterday")


def test_following_goes_on_with_what_comes(log, monkeypatch):
    def new_messages(_):
        log.add(QUEUES[1], 7)
        log.add(QUEUES[0], 8)

    monkeypatch.setattr(reader_module.time, "sleep", new_messages)
    assert times(islice(read(log, "last", follow=True), 2)) == [7, 8]


def test_a_broker_that_points_back_does_not_make_it_endless(log):
    log.brokers.pull_now = lambda query: SimpleNamespace(messages=[], next_offset=0)
    assert list(read(log)) == []
