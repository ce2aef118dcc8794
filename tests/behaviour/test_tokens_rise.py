"""With order="key" the number a handler can fence its own database with rises with each owner."""

from collections import defaultdict

from orderly import Ack
from tests.support.consuming import Group, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(12)]


def test_over_members_and_restarts(producer, topic, start_group, start_member):
    given = defaultdict(list)  # by queue: (number of the round, token)

    def note(messages, context):
        given[context.message_queue].append((int(messages[0].body), context.token))
        return Ack()

    def consume(number):
        results = send_numbers(producer, topic, KEYS, 1, first=number)
        total = len(KEYS) * (number + 1)
        eventually(lambda: sum(map(len, given.values())) == total, within=20)
        return {result.queue for result in results}

    group = start_group(note, order="key")
    queues = consume(0)
    newcomer, _ = start_member(note, order="key")
    eventually(lambda: Group([*group.consumers, newcomer], None).settled(4), within=20)
    consume(1)
    group.close()
    eventually(lambda: len(newcomer.assignment) == 4, within=20)
    consume(2)
    newcomer.close()
    start_group(note, order="key")
    consume(3)
    for queue in queues:
        tokens = [sorted({t for n, t in given[queue] if n == number}) for number in range(4)]
        assert all(len(of_round) == 1 for of_round in tokens), "one owner, one token"
        first, moved, again, restarted = [token for (token,) in tokens]
        assert first <= moved <= again < restarted
    assert any(given[queue][0][1] < given[queue][-1][1] for queue in queues)


def test_with_order_by_queue_there_is_none(producer, topic, start_member):
    tokens = []

    def note(messages, context):
        tokens.append(context.token)
        return Ack()

    start_member(note)
    send_numbers(producer, topic, ["a"], 1)
    assert eventually(lambda: tokens, within=20) == [None]
