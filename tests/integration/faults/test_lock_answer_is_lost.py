"""The broker renewed the locks, and its answer never came."""

import time

import pytest

from orderly.protocol.codes import RequestCode
from tests.support.waiting import eventually

LOCK = RequestCode.LOCK_BATCH_MQ


def test_one_lost_answer_costs_no_queue(trusting_traffic, proxy):
    traffic = trusting_traffic
    eventually(lambda: sum(len(member.assignment) for member in traffic.consumers) == 8)
    proxy.lose(LOCK)
    eventually(lambda: proxy.dropped[LOCK] == 1)
    before = proxy.seen[LOCK]
    eventually(lambda: proxy.seen[LOCK] >= before + 4)  # each member has renewed again
    assert traffic.lost == []
    verdict = traffic.ends_well()
    assert verdict.duplicates == 0


@pytest.mark.nightly
def test_without_any_answer_the_queues_rest_until_one_comes(traffic, proxy):
    eventually(lambda: sum(len(member.assignment) for member in traffic.consumers) == 8)
    proxy.lose(LOCK, times=1000)
    eventually(lambda: set(traffic.lost) == set(range(8)))
    eventually(lambda: not any(member.assignment for member in traffic.consumers))
    handled = len(traffic.events)
    time.sleep(1)  # traffic goes on: whoever trusted the lock would handle it
    assert len(traffic.events) <= handled + 8, "what was in hand, one of each queue"
    proxy.heal()
    traffic.goes_on(1000)
    traffic.ends_well()
