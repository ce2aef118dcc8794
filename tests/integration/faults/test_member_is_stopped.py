"""A member stopped (SIGSTOP) for longer than the lease wakes up beside the new owner."""

import time

from tests.support.leases import SHORT
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
    eventually(lambda: traffic.settled([other]), within=SHORT + 10)
    traffic.goes_on(200)
    resumed = time.monotonic()
    sleeper.resume()
    eventually(lambda: set(sleeper.lost) == its_queues)
    eventually(lambda: traffic.settled([sleeper, other]), within=30)
    traffic.finish()
    in_hand = [e for e in sleeper.events if e.started < stopped and e.ended > resumed]
    assert len(in_hand) == len({event.queue for event in in_hand})
    assert {event.queue for event in in_hand} <= its_queues
    verdict = traffic.judged(without=in_hand)
    assert verdict.ok, verdict
    assert not traffic.wrong_commits(), traffic.wrong_commits()
