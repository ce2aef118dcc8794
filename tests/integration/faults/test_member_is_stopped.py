"""A member stopped (SIGSTOP) for longer than the lease wakes up beside the new owner."""

import time

import pytest

from tests.support.accounts import REFUSED, WRITTEN, Accounts
from tests.support.brokers import SHORT
from tests.support.members import by_key
from tests.support.traffic import KEYS
from tests.support.waiting import eventually


def test_it_notices_commits_nothing_and_starts_nothing(proxied_broker, proxy, start_traffic):
    """What its one running handler per queue does beside the new owner is all the overlap."""
    traffic = start_traffic(proxied_broker, members=0, pause=0.01)
    sleeper, other = [traffic.join_process(seconds=0.03) for _ in range(2)]
    eventually(lambda: traffic.settled([sleeper, other]), within=30)
    traffic.goes_on(200)
    its_queues = set(sleeper.held)
    sleeper.stop()
    stopped = time.monotonic()
    proxy.cut(sleeper.client_id)  # or it stays on the broker's list for two minutes
    eventually(lambda: traffic.settled([other]), within=SHORT + 40)
    traffic.goes_on(200)
    resumed = time.monotonic()
    sleeper.resume()
    eventually(lambda: set(sleeper.lost) == its_queues)
    eventually(lambda: traffic.settled([sleeper, other]), within=30)
    traffic.finish()
    # One of each queue: that whose handler ran, or was just about to be called.
    next_of = dict.fromkeys(its_queues, 0)
    next_of |= {e.queue: e.offset + 1 for e in sleeper.events if e.ended < stopped}
    in_hand = [e for e in sleeper.events if e.ended > resumed and e.offset == next_of.get(e.queue)]
    assert len(in_hand) == len({event.queue for event in in_hand})
    verdict = traffic.judged(without=in_hand)
    assert verdict.ok, verdict
    assert not traffic.wrong_commits(), traffic.wrong_commits()


@pytest.mark.nightly
@pytest.mark.parametrize("handler", ["sync", "async"])
def test_by_key_what_it_still_writes_is_refused_by_its_token(
    handler, proxied_broker, proxy, start_traffic, closing
):
    """Its handlers go on when they are cancelled; its commits are refused by the fence."""
    accounts = closing(Accounts(KEYS))
    traffic = start_traffic(proxied_broker, members=0, pause=0.01)
    more = by_key(accounts, handler)
    sleeper, other = [traffic.join_process(seconds=0.1, more=more) for _ in range(2)]
    eventually(lambda: traffic.settled([sleeper, other]), within=30)
    traffic.goes_on(200)
    its_queues = set(sleeper.held)
    sleeper.stop()
    stopped = time.monotonic()
    proxy.cut(sleeper.client_id)  # or it stays on the broker's list for two minutes
    former = {(w.queue, w.token) for w in accounts.writes if w.owner == sleeper.client_id}
    eventually(lambda: traffic.settled([other]), within=SHORT + 40)

    def of_other():
        written = [w for w in accounts.answers(WRITTEN) if w.at > stopped]
        return {w.key for w in written if w.owner == other.client_id}

    eventually(lambda: of_other() == set(KEYS), within=30, every=0.1)
    resumed = time.monotonic()
    sleeper.resume()
    eventually(lambda: set(sleeper.lost) == its_queues)
    eventually(lambda: traffic.settled([sleeper, other]), within=30)
    traffic.finish()
    late = [w for w in accounts.writes if w.at > resumed and (w.queue, w.token) in former]
    assert {write.answer for write in late} == {REFUSED}
    assert not accounts.faults()
    assert not traffic.wrong_commits(), traffic.wrong_commits()
