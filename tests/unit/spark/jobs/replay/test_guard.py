"""When copies may not go back into their topic: a group has gone beyond what was selected."""

import pytest

from orderly.client import Client
from orderly.errors import ConfigError, RouteError
from orderly.model import MessageQueue
from orderly.spark.jobs.replay.guard import (
    LaterMessages,
    committed_on,
    elsewhere,
    objections,
    require_none,
)

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("committed", "first", "end", "known"),
    [
        (0, 5, 20, []),  # it has consumed nothing
        (5, 5, 20, []),  # the later message comes next, it has not had it
        (6, 5, 20, [True]),
        (
            20,
            None,
            20,
            [],
        ),  # all that the table holds is consumed, and nothing of the keys came later
        (21, None, 20, [False]),  # what the table does not hold may be of these keys
        (21, 5, 20, [True]),
    ],
)
def test_the_table_of_cases(committed, first, end, known):
    found = objections({"shipping": {QUEUE: committed}}, [LaterMessages(QUEUE, first, end)])
    assert [it.known for it in found] == known


def test_a_queue_that_is_younger_than_the_table_may_hold_later_messages_of_any_key():
    """A topic that grows moves keys."""
    new, unread = MessageQueue("orders", "broker-a", 8), MessageQueue("orders", "broker-a", 9)
    groups = {"shipping": {QUEUE: 9, new: 3, unread: 0}}
    found = objections(groups, elsewhere(groups, [QUEUE]))
    assert [(it.queue, it.known) for it in found] == [(new, False)]


def test_a_group_that_never_committed_there_does_not_object():
    assert objections({"billing": {}}, [LaterMessages(QUEUE, 0, 1)]) == ()


def test_the_known_ones_come_first_and_the_refusal_names_the_group():
    groups = {"a": {QUEUE: 30}, "b": {QUEUE: 30}}
    other = MessageQueue("orders", "broker-a", 1)
    found = objections(groups, [LaterMessages(other, None, 3), LaterMessages(QUEUE, 5, 20)])
    assert [(it.group, it.known) for it in found] == [("a", True), ("b", True)]
    with pytest.raises(ConfigError, match=r"group a has consumed later .* \(and 1 more such\)"):
        require_none(found)
    require_none(())


def test_a_broker_that_left_the_route_is_not_taken_for_one_where_nothing_was_consumed(orderly_fake):
    topic = orderly_fake.create_topic("t", queues=1)
    with Client(namesrv=orderly_fake.namesrv) as client:
        assert committed_on(client, topic, brokers={"broker-a"}) == {}
        with pytest.raises(RouteError, match="'broker-b' has no master now"):
            committed_on(client, topic, brokers={"broker-b"})
