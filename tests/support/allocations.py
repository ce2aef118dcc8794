"""Cases of allocation as lines of text, read alike by Python and by JavaAllocation.java.

    strategy and its settings | topic | broker:queues ... | member ...

and what is allocated: the members' shares in the order of the sorted ids, joined by "; ", each
of them "broker:queue_id ..." in the order the strategy gave, or "-" for none.
"""

from orderly.model import MessageQueue
from orderly.ordering.allocation import STRATEGIES, by_config, consistent_hash
from orderly.ordering.allocation_rooms import machine_room, machine_room_nearby


def answered(path):
    """Return {case: its answer} of a file with lines "case = answer"."""
    lines = path.read_text("utf-8").splitlines()
    return dict(line.split(" = ") for line in lines if not line.startswith("#"))


def shares(case):
    """Return what Python allocates in the case."""
    strategy, topic, brokers, members = case.split(" | ")
    queues = sorted(
        MessageQueue(topic, last.broker_name, queue_id)
        for last in map(_queue_reader(topic), brokers.split(" "))
        for queue_id in range(last.queue_id)
    )
    members = sorted(members.split(" "))
    allocate = _strategy(topic, strategy.split(" "))
    return "; ".join(
        " ".join(f"{q.broker_name}:{q.queue_id}" for q in allocate(member, queues, members)) or "-"
        for member in members
    )


def _strategy(topic, words):
    name, *settings = words
    match name:
        case "consistent-hash" if settings:
            return consistent_hash(int(settings[0]))
        case "config":
            return by_config(map(_queue_reader(topic), settings))
        case "room":
            return machine_room(settings)
        case "nearby":
            return machine_room_nearby(_strategy(topic, settings), before_at, before_at)
        case _:
            return STRATEGIES[name]


def before_at(name):
    """Return the room of a broker or member: what stands before the first "@"."""
    return name.split("@")[0]


def _queue_reader(topic):
    def read(text):
        broker, _, number = text.rpartition(":")
        return MessageQueue(topic, broker, int(number))

    return read
