"""What idle queues, and waiting, parked and handled keys take in memory, and in CPU at rest.

Bytes each: the RSS of a member that has many, less that of one that has few.
"""

import sys

from benchmarks.rounds import Part
from benchmarks.scale_group import rest
from benchmarks.scale_parts import (
    BY_KEY,
    KEY_NUMBERS,
    PARKED_NUMBERS,
    QUEUE_NUMBERS,
    QUEUES,
    backlog,
    fill,
    park_all,
    task,
)

WAITING = (80, 8_000)  # keys; a queue reads 1,000 messages ahead


def memory(setting, share):
    """A member at rest: with 8 and 1,024 queues, few and many keys that wait, are parked, ran."""
    pairs = {
        "idle queue, by queue": (_queues, {}, (QUEUE_NUMBERS[0], QUEUE_NUMBERS[-1])),
        "idle queue, by key": (_queues, BY_KEY, (QUEUE_NUMBERS[0], QUEUE_NUMBERS[-1])),
        "waiting key with its message": (_waiting, BY_KEY, WAITING),
        "parked key": (_parked, BY_KEY, (PARKED_NUMBERS[0], PARKED_NUMBERS[-1])),
        "key that was handled": (_handled, BY_KEY, (KEY_NUMBERS[0], KEY_NUMBERS[-1])),
    }
    size, cpu = {}, {}
    for _ in range(setting.rounds):
        for name, (measure, config, (few, many)) in pairs.items():
            least, most = measure(setting, config, few), measure(setting, config, many)
            size.setdefault(name, []).append((most.rss - least.rss) / (many - few))
            for number, each in ((few, least), (many, most)):
                cpu.setdefault(f"{number:,}: {name}", []).append(each.cpu)
            print(f"memory, {name}: {size[name][-1]:,.0f}", file=sys.stderr, flush=True)
    return [
        Part("memory", "one member", "bytes of RSS each", size, {}),
        Part("rest", "one member with nothing to do", "ms of CPU/s", cpu, {}),
    ]


def _queues(setting, config, number):
    return rest(task(setting, setting.topic(number), number, config=config))


def _waiting(setting, config, number):
    topic = backlog(setting, QUEUES, number, number)
    return rest(task(setting, topic, QUEUES, answer="wait", config=config), number)


def _parked(setting, config, number):
    topic = setting.topic(QUEUES)
    fill(setting, topic, (f"parked-{n}" for n in range(number)))
    group = park_all(setting, topic, number)
    return rest(task(setting, topic, QUEUES, group, config=config))


def _handled(setting, config, number):
    topic = backlog(setting, QUEUES, KEY_NUMBERS[-1], number)
    return rest(task(setting, topic, QUEUES, config=config), KEY_NUMBERS[-1])
