"""Topics' message types of 5.x: what would lose the order is refused, in words."""

import pytest

from orderly import Message
from orderly.errors import ConfigError
from orderly.protocol.topics import MessageType
from tests.support.brokers import set_group
from tests.support.consuming import unique
from tests.support.waiting import eventually


@pytest.fixture
def made(client):
    def make(kind):
        name = unique(f"of-type-{kind.lower()}")
        client.admin.create_topic(name, 2, order=False, message_type=kind)
        eventually(lambda: name in client.admin.topics())
        return name

    return make


@pytest.mark.parametrize(
    "kind",
    [MessageType.DELAY, MessageType.TRANSACTION, MessageType.PRIORITY, MessageType.LITE],
)
def test_a_keyed_message_goes_to_no_topic_without_order(producer, made, kind):
    topic = made(kind)
    with pytest.raises(ConfigError, match=f"declared for messages of type {kind}"):
        producer.send(Message(topic, b"x", sharding_key="k"))
    producer.send(Message(topic, b"x"))


@pytest.mark.parametrize("topic", [MessageType.FIFO], indirect=True)
def test_a_fifo_topic_takes_keyed_messages_and_only_ordered_groups(
    producer, topic, client, group, start_member
):
    producer.send(Message(topic, b"1", sharding_key="k"))
    with pytest.raises(ConfigError, match=f"type FIFO, but .* does not know group {group}"):
        start_member()
    set_group(client, group, orderly=True)
    _, seen = start_member()
    eventually(lambda: seen.numbers("k") == [1], within=20)


@pytest.mark.parametrize("topic", [MessageType.FIFO], indirect=True)
def test_who_knows_that_no_grpc_client_joins_may_go_on(producer, topic, start_member):
    producer.send(Message(topic, b"1", sharding_key="k"))
    _, seen = start_member(require_ordered_group=False)
    eventually(lambda: seen.numbers("k") == [1], within=20)


@pytest.fixture
def topic(made, request):
    return made(request.param)
