"""A broker killed with -9 and restarted under traffic: its locks were memory, its log is not."""

from tests.support.leases import SHORT, leasing_broker


def test_nothing_is_lost_or_reordered(orderly_broker, closing, start_traffic):
    broker = closing(leasing_broker(SHORT))
    traffic = start_traffic(broker)
    for _ in range(2):
        traffic.goes_on(1000)
        broker.kill_broker()
        broker.restart_broker()
    traffic.goes_on(2000, within=60)
    # Offsets are on its disk every 5 s only: they may go back, and messages come again.
    verdict, _ = traffic.verdict()
    assert verdict.ok, verdict
