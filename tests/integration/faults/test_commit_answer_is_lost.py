"""The broker stored an offset, and its answer never came; or the commit itself never came."""

import pytest

from orderly.protocol.codes import RequestCode
from tests.support.brokers import Way
from tests.support.waiting import eventually

COMMIT = RequestCode.UPDATE_CONSUMER_OFFSET


@pytest.mark.parametrize("way", [pytest.param(Way.REQUEST, marks=pytest.mark.nightly), Way.REPLY])
def test_a_queue_changes_hands_only_once_its_commit_was_answered(trusting_traffic, proxy, way):
    """Without that the new owner begins where the old one had been before, and repeats.

    What the broker stored without our hearing of it, it tells when it is asked the next time.
    """
    traffic = trusting_traffic
    eventually(lambda: sum(len(member.assignment) for member in traffic.consumers) == 8)
    proxy.lose(COMMIT, way, times=1000)
    traffic.goes_on(400)  # so that each queue has something to commit
    newcomer = traffic.join()
    eventually(lambda: sum(len(m.assignment) for m in traffic.consumers) < 8)  # being given up
    if way is Way.REQUEST:
        attempts = proxy.dropped[COMMIT]
        eventually(lambda: proxy.dropped[COMMIT] >= attempts + 6, within=20)
        # Its share is two or three. One may come: of a queue whose last commit was answered just
        # before, and whose next message is not handled yet.
        assert len(newcomer.assignment) < 2
    else:
        eventually(lambda: len(newcomer.assignment) >= 2, within=20)
        assert proxy.dropped[COMMIT]
    proxy.heal()
    eventually(lambda: all(len(m.assignment) >= 2 for m in traffic.consumers), within=30)
    verdict = traffic.ends_well()
    assert (traffic.lost, verdict.duplicates) == ([], 0)
