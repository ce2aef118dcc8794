"""Somebody else's committed offset stands: the owner writes no more and takes the queue anew.

The broker stores whatever offset anybody sends, so Java's members overwrite each other's.
"""

import threading

import pytest

from orderly import Ack
from orderly.errors import LockLost
from tests.support.consuming import send_numbers
from tests.support.waiting import await_visible, eventually


class Witness:
    """An act: waits at number 1 until `go_on`, and in number 2 until it is told of the loss."""

    def __init__(self):
        self.at_1, self.go_on = threading.Event(), threading.Event()
        self.lost = None

    def __call__(self, messages, context):
        number = int(messages[0].body)
        if number == 1:
            self.at_1.set()
            assert self.go_on.wait(20)
        elif number == 2:
            self.lost = context.lost.wait(20)
            with pytest.raises(LockLost, match="no longer ours"):
                context.extend()
        return Ack()


@pytest.mark.parametrize("order", ["queue", "key"])
def test_the_queue_goes_on_from_the_brokers_offset(
    order, producer, topic, group, client, start_group
):
    witness = Witness()
    members = start_group(witness, order=order, commit_interval=0.1)
    queue = send_numbers(producer, topic, ["a"], 10)[0].queue
    assert witness.at_1.wait(20)
    eventually(lambda: client.brokers.query_offset(group, queue) == 1)
    await_visible(client)  # or 7 is beyond the end
    client.brokers.update_offset(group, queue, 7)
    witness.go_on.set()  # the next commit, while number 2 runs, finds an offset that is not ours
    eventually(lambda: 9 in members.seen.numbers("a"), within=20)
    assert members.seen.numbers("a") == [0, 1, 2, 7, 8, 9]
    assert witness.lost
    eventually(lambda: client.brokers.query_offset(group, queue) == 10)


@pytest.mark.parametrize("order", ["queue", "key"])
def test_not_even_a_close_overwrites_it(order, producer, topic, group, client, start_member):
    member, seen = start_member(order=order, commit_interval=3600)
    queue = send_numbers(producer, topic, ["a"], 5)[0].queue
    eventually(lambda: seen.numbers("a") == [0, 1, 2, 3, 4], within=20)
    client.brokers.update_offset(group, queue, 2)
    member.close()
    assert client.brokers.query_offset(group, queue) == 2
    _, heir = start_member(order=order)
    eventually(lambda: heir.numbers("a") == [2, 3, 4], within=20)
