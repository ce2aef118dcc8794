"""A broker killed with -9 and restarted under traffic: its locks were memory, its log is not."""

from orderly.testing import judge
from tests.support.brokers import SHORT, leasing_broker


def judge_of_others(traffic, queues):
    """What the oracle says of all queues but those."""
    sent = [record for record in traffic.writer.sent if record.queue not in queues]
    return judge(sent, [event for event in traffic.deliveries() if event.queue not in queues])


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
    assert (verdict.lost, verdict.disorder, verdict.unknown) == (0, 0, 0), verdict
    # It may grant a queue to the other member before its owner's next renewal is refused: then the
    # one repeats what the other is beyond of. Whoever was not told of a lost lock has all in order.
    told = set(traffic.lost)
    assert judge_of_others(traffic, told).ok, verdict
