"""Reading a topic: each message once, in its queue's order, merged by time, never endless."""

from itertools import islice
from threading import Timer
from types import SimpleNamespace

import pytest

from orderly.cli.options import EARLIEST, LATEST
from orderly.cli.reader import Span, TopicReader
from orderly.errors import ConfigError
from tests.support.topics import expire, fill
from tests.support.waiting import patient_client


@pytest.fixture
def add(orderly_fake):
    """Stores in one of the two queues, a message at each of these times."""
    orderly_fake.create_topic("orders", 2)

    def stored(queue, *times):
        for time in times:
            fill(orderly_fake, "orders", {queue: 1}, at=time)

    stored(0, 1, 4, 5)
    stored(1, 2, 3, 6)
    return stored


@pytest.fixture
def read(orderly_fake, add):
    with patient_client(orderly_fake.namesrv) as client:

        def times(start=EARLIEST, *, follow=False, **span):
            reader = TopicReader(client, "orders", Span(start, **span))
            return (message.store_time for message in reader.messages(follow=follow))

        yield times


def test_what_is_stored_is_merged_by_time(read):
    assert list(read()) == [1, 2, 3, 4, 5, 6]


def test_of_many_each_comes_once(read, add):
    """Of more than come with one pull."""
    add(0, *range(10, 50))
    assert list(read()) == [1, 2, 3, 4, 5, 6, *range(10, 50)]


def test_it_begins_at_the_oldest_message_that_is_left(read, orderly_fake):
    expire(orderly_fake, "orders", 0, before=2)
    assert list(read()) == [2, 3, 5, 6]


def test_from_the_latest_there_is_nothing_yet(read):
    assert list(read(LATEST)) == []


def test_from_a_time(read):
    assert list(read(4.0)) == [4, 5, 6]


def test_until_a_time_it_ends_before_it(read, add):
    assert list(read(2.0, until=5.0)) == [2, 3, 4]
    assert list(read(until=1.0)) == []
    add(0, *range(10, 50))  # more than one pull
    assert list(read(9.0, until=45.0)) == list(range(10, 45))


@pytest.mark.parametrize(
    ("offset", "found"),
    [(1, [3, 4, 5, 6]), (-1, [5, 6]), (-2, [3, 4, 5, 6]), (-9, [1, 2, 3, 4, 5, 6]), (7, [])],
)
def test_an_offset_counts_from_the_beginning_or_the_end_of_each_queue(read, offset, found):
    assert list(read(offset=offset)) == found


def test_only_the_queues_that_are_asked_for_are_read(read):
    assert list(read(queues=[("broker-a", 1)])) == [2, 3, 6]
    assert list(read(offset=2, queues=[("broker-a", 0)])) == [5]
    with pytest.raises(ConfigError, match="no queue broker-a/2; it has: broker-a/0, broker-a/1"):
        read(queues=[("broker-a", 2)])


def test_following_goes_on_with_what_comes(read, add):
    found = read(follow=True)
    assert list(islice(found, 6)) == [1, 2, 3, 4, 5, 6]
    add(0, 8)
    add(1, 7)
    assert list(islice(found, 2)) == [7, 8]
    later = Timer(0.1, add, (1, 9))
    later.start()
    assert next(found) == 9
    later.join()


def test_a_broker_that_points_back_does_not_make_it_endless(orderly_fake, add):
    with patient_client(orderly_fake.namesrv) as client:
        back = SimpleNamespace(messages=[], next_offset=0)
        brokers = SimpleNamespace(
            min_offset=client.brokers.min_offset,
            max_offset=client.brokers.max_offset,
            pull_now=lambda _query: back,
        )
        forged = SimpleNamespace(routes=client.routes, brokers=brokers)
        assert list(TopicReader(forged, "orders", Span()).messages(follow=False)) == []
