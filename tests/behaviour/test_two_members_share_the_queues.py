"""Two members split the queues; each queue has one owner; order holds over a join and a leave."""

from tests.support.consuming import first_deliveries, send_numbers
from tests.support.waiting import eventually

KEYS = [f"order-{i}" for i in range(20)]


def split(first, second):
    mine, yours = set(first.assignment), set(second.assignment)
    return len(mine) == 2 and len(yours) == 2 and not mine & yours


def test_they_split_and_keep_the_order_of_every_key(producer, topic, start_member):
    first, seen_first = start_member()
    send_numbers(producer, topic, KEYS, 5)
    second, seen_second = start_member()
    eventually(lambda: split(first, second), within=30)
    send_numbers(producer, topic, KEYS, 5, first=5)

    def everything():
        return len({(d.key, d.number) for s in (seen_first, seen_second) for d in s.deliveries})

    eventually(lambda: everything() == 200, within=30)
    both = sorted(seen_first.deliveries + seen_second.deliveries, key=lambda d: d.started)
    for key in KEYS:
        numbers = [d.number for d in both if d.key == key]
        assert first_deliveries(numbers) == list(range(10)), key
    assert len(both) == 200, "a clean handover repeats nothing"


def test_a_member_too_many_says_that_it_is_idle(orderly_topic, start_member, caplog):
    members = [start_member()[0] for _ in range(4)]
    eventually(lambda: all(len(m.assignment) == 1 for m in members), within=30)
    idle, _ = start_member()
    eventually(lambda: "member.idle" in caplog.text, within=30)
    everyone = [*members, idle]
    settled = [0, 1, 1, 1, 1]
    eventually(lambda: sorted(len(m.assignment) for m in everyone) == settled, within=30)
