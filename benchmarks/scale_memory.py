"""What idle queues, and waiting, parked and handled keys take in memory.

Bytes each: the RSS of a member that has many, less that of one that has few.
"""

import sys

from benchmarks.rounds import Part
from benchmarks.scale_group import settled
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
HANDLED = KEY_NUMBERS[0], KEY_NUMBERS[-1]


def memory(setting, share):
    """RSS of one member that has settled."""
    measured = {
        "idle queue, by queue": lambda: _queues(setting, {}),
        "idle queue, by key": lambda: _queues(setting, BY_KEY),
        "waiting key, with its message": lambda: _waiting(setting),
        "parked key": lambda: _parked(setting),
        "key that was handled": lambda: _handled(setting),
    }
    values = {name: [] for name in measured}
    for _ in range(setting.rounds):
        for name, measure in measured.items():
            values[name].append(measure())
            print(f"memory: {name}: {values[name][-1]:,.0f}", file=sys.stderr, flush=True)
    return [Part("memory", "RSS of a member", "bytes each", values, {})]


def _each(few, many, rss):
    """Bytes for each of what there is more."""
    return (rss(many) - rss(few)) / (many - few)


def _queues(setting, config):
    few, _, many = QUEUE_NUMBERS
    return _each(
        few,
        many,
        lambda number: settled(task(setting, setting.topic(number), number, config=config)),
    )


def _waiting(setting):
    def rss(number):
        topic = backlog(setting, QUEUES, number, number)
        return settled(task(setting, topic, QUEUES, answer="wait", config=BY_KEY), number)

    return _each(*WAITING, rss)


def _parked(setting):
    def rss(number):
        topic = setting.topic(QUEUES)
        fill(setting, topic, (f"parked-{n}" for n in range(number)))
        group = park_all(setting, topic, number)
        return settled(task(setting, topic, QUEUES, group, config=BY_KEY))

    return _each(PARKED_NUMBERS[0], PARKED_NUMBERS[-1], rss)


def _handled(setting):
    def rss(number):
        topic = backlog(setting, QUEUES, KEY_NUMBERS[-1], number)
        return settled(task(setting, topic, QUEUES, config=BY_KEY), KEY_NUMBERS[-1])

    return _each(*HANDLED, rss)
