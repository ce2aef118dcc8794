"""Members whose time of day is hours wrong: leases are counted on clocks that nobody sets.

A jump of the broker's own clock is not tried: it cannot be set for one process here.
"""

from tests.support.waiting import eventually


def test_members_an_hour_early_and_late_share_the_queues(proxied_broker, proxy, start_traffic):
    traffic = start_traffic(proxied_broker, members=0, pause=0.01)
    early, late = [traffic.join_process(clock=hours * 3600) for hours in (-1, 1)]
    eventually(lambda: traffic.settled([early, late]), within=30)
    traffic.goes_on(300)
    right = traffic.join_process()
    eventually(lambda: traffic.settled([early, late, right]), within=30)
    traffic.goes_on(300)
    early.close()
    eventually(lambda: traffic.settled([late, right]), within=30)
    traffic.ends_well()
