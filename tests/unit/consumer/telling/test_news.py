"""Which queues a running info tells of: those in trouble, longest first, by their first message."""

import pytest

from orderly.config import ClientConfig, ConsumerConfig
from orderly.consumer.introspection import ConsumerInspector, troubled
from orderly.consumer.session import now
from orderly.ordering.fingerprint import Fingerprint
from orderly.ordering.owned_queue import Drop
from orderly.ordering.results import Disposition
from orderly.protocol.members import queue_reports
from tests.support.messages import message

HOW = Fingerprint("0123", "ValueError (shop:ship)")


def pulled(held, *keys):
    """Messages 0, 1 and so on; with keys they are ordered by."""
    held.owned.pull_gate(now())
    batch = [message(number, queue=held.queue) for number in range(len(keys))]
    held.owned.pulled(batch, len(keys), None, list(keys) if held.owned.by_key else None)
    return held


def fail(held, at, wait=5.0):
    batch = held.owned.take(1, at)
    held.failures.failed(batch.key, batch.messages[0].queue_offset, HOW, at)
    held.owned.finish(batch, Disposition.PUT_BACK, at, wait=wait)


def news_of(held, hung=(), at=None):
    found = dict(troubled([held], frozenset(hung), now() if at is None else at))
    return found.get(held.queue)


def test_a_queue_that_goes_on_has_no_news(hold):
    held = pulled(hold(), None, None)
    assert news_of(held) is None
    held.owned.take(1, now())
    assert news_of(held) is None, "its handler began just now"


def test_a_long_call_is_news_from_its_first_second_on(hold):
    held = pulled(hold(), None)
    begun = now()
    held.owned.take(1, begun)
    news = news_of(held, at=begun + 2)
    assert (news.why, news.offset, news.attempts, news.failing_for) == ("HANDLING", 0, 1, None)
    assert news.seconds == pytest.approx(2, abs=0.5)


def test_a_failed_message_is_told_with_its_tries_and_how_it_fails(hold):
    held = pulled(hold(), None, None)
    failed = now()
    fail(held, failed)
    news = news_of(held, at=failed + 1)
    assert (news.why, news.offset, news.attempts) == ("SUSPENDED", 0, 1)
    assert (news.fingerprint, news.reason) == (HOW.digest, HOW.text)
    assert news.failing_for == pytest.approx(1, abs=0.5)
    assert news.seconds == pytest.approx(4, abs=0.5)
    held.owned.wake(now() + 9)
    held.owned.take(1, now() + 9)
    assert news_of(held, at=now() + 9).attempts == 2, "the one that runs counts"


def test_by_key_the_first_message_is_told_whatever_other_keys_do(hold):
    held = pulled(hold(by_key=True), "a", "b")
    fail(held, now())
    held.owned.take(1, now())  # "b"
    news = news_of(held, at=now() + 3)
    assert (news.why, news.key, news.attempts) == ("SUSPENDED", "a", 1)


def test_a_first_message_that_waits_for_its_turn_is_not_said_to_be_handled(hold):
    held = pulled(hold(by_key=True), "a", "b")
    fail(held, now())
    held.owned.take(1, now())  # "b"
    held.owned.wake(now() + 9)
    assert news_of(held, at=now() + 9).why == "WAITING"


def test_only_the_key_that_hangs_makes_its_queue_hang(hold):
    held = pulled(hold(by_key=True), "a", "b")
    held.owned.take(1, now())
    held.owned.take(1, now())
    assert news_of(held, [(held.queue, "b")], now() + 2).why == "HANDLING"
    assert news_of(held, [(held.queue, "a")], now() + 2).why == "HUNG"


def test_a_queue_that_is_given_up_says_so(hold):
    held = pulled(hold(), None)
    fail(held, now())
    held.owned.drop(Drop.LOST)
    assert news_of(held).why == "LOCK_LOST"


def test_parked_keys_are_news(hold):
    held = hold(by_key=True)
    held.owned.parking.note("a", 5, 40, 100)
    assert news_of(held).parked == 1


def test_the_running_info_carries_them(hold, session):
    session.client.config = ClientConfig(namesrv="host:9876")
    session.config = ConsumerConfig()
    held = pulled(hold(), None, None)
    fail(held, now())
    (news,) = queue_reports(ConsumerInspector(session).running_info(stack=False)).values()
    assert (news.why, news.reason) == ("SUSPENDED", HOW.text)
