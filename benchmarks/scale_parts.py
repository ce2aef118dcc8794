"""The parts of the scale benchmark that measure what a message costs."""

from functools import partial

from benchmarks.lane_backlog import TIMEOUT, new_group
from benchmarks.rounds import Part, interleaved
from benchmarks.scale_group import consume, members
from benchmarks.scale_member import Task
from orderly import Message, OrderlyProducer
from orderly.monitoring.parked import ParkedMessages
from tests.support.waiting import eventually

BROKER = "broker-a"
QUEUES = 8
KEYS = 1_024
PROCESSES = (1, 2, 4)
QUEUE_NUMBERS = (8, 64, 1_024)
KEY_NUMBERS = (100, 1_000, 10_000, 100_000)
PARKED_NUMBERS = (0, 1_000, 10_000)  # 10,000: more a group may not park
BY_KEY = {"order": "key"}
MESSAGES = 100_000


def processes(setting, share):
    """1, 2 and 4 members of one group."""
    count = int(MESSAGES * share)
    topic = backlog(setting, QUEUES, count, KEYS)
    sides = {
        f"{number} process{'es' * (number > 1)}": _drained(setting, topic, QUEUES, count, number)
        for number in PROCESSES
    }
    title = f"a group on {QUEUES} queues, by queue"
    ratios = {
        "two_processes_vs_one": ("2 processes", "1 process"),
        "four_processes_vs_one": ("4 processes", "1 process"),
    }
    return costs("processes", title, sides, setting.rounds, ratios)


def queues(setting, share):
    """One process on 8, 64 and 1,024 queues, by queue and by key."""
    count = int(MESSAGES * share)
    topics = {number: backlog(setting, number, count, KEYS) for number in QUEUE_NUMBERS}
    parts = []
    for order in ("queue", "key"):
        sides = {
            f"{number:,} queues": _drained(setting, topic, number, count, order=order)
            for number, topic in topics.items()
        }
        parts += costs(f"queues_by_{order}", f"one process, by {order}", sides, setting.rounds)
    return parts


def keys(setting, share):
    """Order by key: 100 to 100,000 keys; and 100,000 keys beside so many that are parked."""
    count = int(MESSAGES * share)
    sides = {
        f"{number:,} keys": _drained(
            setting, backlog(setting, QUEUES, count, number), QUEUES, count, **BY_KEY
        )
        for number in KEY_NUMBERS
    }
    beside = {f"{number:,} parked": _beside(setting, number, count) for number in PARKED_NUMBERS}
    title = f"one process, {QUEUES} queues, by key"
    return [
        *costs("keys", title, sides, setting.rounds),
        *costs("parked", f"{title}, 100,000 keys beside parked ones", beside, setting.rounds),
    ]


def costs(name, title, sides, rounds, ratios=None):
    """Measure; returns the parts for rates and for CPU, which is compared with the first side's.

    Args:
        sides: name -> function that returns a Cost.
        ratios: of rates.
    """
    cpu = {side: [] for side in sides}

    def rate(side):
        cost = sides[side]()
        cpu[side].append(cost.cpu)
        return cost.rate

    rates = interleaved(name, {side: partial(rate, side) for side in sides}, rounds)
    first, *others = sides
    compared = {
        f"{name}_{side.split()[0].replace(',', '')}_vs_{first.split()[0]}_cpu": (side, first)
        for side in others
    }
    return [
        Part(name, title, "messages/s", rates, ratios or {}),
        Part(f"{name}_cpu", f"{title}: the members", "us of CPU/message", cpu, compared),
    ]


# --- backlogs ----------------------------------------------------------------------------------


def task(setting, topic, queues, group="", **given):
    """What a member is told, in a new group if none is given."""
    return Task(setting.namesrv, group or new_group(), topic, BROKER, queues, **given)


def backlog(setting, queues, count, keys):
    """A topic with `count` messages, as many in each queue; neighbours have different keys."""
    topic = setting.topic(queues)
    fill(setting, topic, (f"key-{number % keys}" for number in range(count)))
    return topic


def fill(setting, topic, keys):
    """Send a message of each of these keys, which end in -NUMBER."""
    body = b"x" * setting.size
    with OrderlyProducer(namesrv=setting.namesrv, selector=_in_turn) as producer:
        for key in keys:
            producer.submit(Message(topic, body, sharding_key=key))


def park_all(setting, topic, number):
    """Park the keys of the `number` messages in `topic`; returns the group that did."""
    limits = {"keys": PARKED_NUMBERS[-1], "ratio": 1.0}
    parking = task(setting, topic, QUEUES, answer="park", config=BY_KEY, parking=limits)
    with members(parking) as [member]:
        member.go()
        eventually(lambda: member.last.handled >= number, TIMEOUT, every=0.05)
    parked = len(ParkedMessages(setting.client, parking.group, topic).keys())
    assert parked == number, f"{parked} of {number} keys are parked"
    return parking.group


def _in_turn(queues, message, key):
    """Keys with neighbouring numbers go to neighbouring queues, so each queue has as many."""
    return queues[int(key.rpartition("-")[2]) % len(queues)]


def _drained(setting, topic, queues, count, number=1, **config):
    """A side: so many members, a new group each time."""
    return lambda: consume(task(setting, topic, queues, config=config), count, number)


def _beside(setting, number, count):
    """A side that consumes `count` messages while so many keys are parked; a group a round."""
    topic = setting.topic(QUEUES)
    fill(setting, topic, (f"parked-{n}" for n in range(number)))
    groups = [park_all(setting, topic, number) for _ in range(setting.rounds)]
    fill(setting, topic, (f"key-{n % KEY_NUMBERS[-1]}" for n in range(count)))
    left = iter(groups)
    return lambda: consume(task(setting, topic, QUEUES, next(left), config=BY_KEY), count)
