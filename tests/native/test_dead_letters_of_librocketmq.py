"""On the real library only: the stub's messages are at no broker that could keep a dead letter."""

import pytest

from orderly import Ack, Message
from orderly.ordering.results import DeadLetter
from tests.support.consuming import unique
from tests.support.topics import dead_letters, retried


@pytest.mark.parametrize("world", ["real"], indirect=True)
def test_a_dead_letter_is_in_the_groups_dead_letters_with_all_it_had(world, soon):
    topic, group, seen = world.topic(2), unique("group"), []

    def act(message, _attempt):
        seen.append(message.body)
        return DeadLetter("no such account") if message.body == b"\0bad" else Ack()

    producer = world.producer()
    for body in (b"0", b"\0bad", b"1"):
        producer.send(Message(topic, body, sharding_key="a", properties={"colour": "ü"}))
    world.consume(topic, act, group=group)
    soon(lambda: b"1" in seen)
    assert seen == [b"0", b"\0bad", b"1"]
    [dead] = soon(lambda: dead_letters(world.client, group))
    assert (dead.body, dead.properties["colour"], dead.topic) == (b"\0bad", "ü", topic)
    assert retried(world.client, group) == []
