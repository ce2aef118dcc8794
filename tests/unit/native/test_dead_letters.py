"""A dead letter is the broker's own copy of the message, found by its id."""

from dataclasses import replace

import pytest

from orderly import Client, Message, OrderlyProducer
from orderly.config import ClientConfig
from orderly.errors import DataLost, RemotingError
from orderly.model import MessageQueue
from orderly.native import DeadLetters
from tests.support.topics import dead_letters, pulled, retried


@pytest.fixture
def stored(orderly_fake):
    """A message at the broker as librocketmq would deliver it: no broker's name, few properties."""
    orderly_fake.create_topic("orders", queues=2)
    with OrderlyProducer(namesrv=orderly_fake.namesrv) as producer:
        for body in (b"0", b"\0bad"):
            sent = Message("orders", body, sharding_key="a", properties={"colour": "ü"})
            producer.send(sent)
    with Client(namesrv=orderly_fake.namesrv) as client:
        found = [message for message in pulled(client, "orders") if message.body == b"\0bad"]
    queue = MessageQueue("orders", "127.0.0.1:10911", found[0].queue.queue_id)
    return replace(found[0], queue=queue, body=b"", properties={}, reconsume_times=2)


@pytest.fixture
def grave(orderly_fake):
    made = DeadLetters("shipping", namesrv=orderly_fake.namesrv)
    yield made
    made.close()


def test_it_has_all_that_the_message_had(orderly_fake, grave, stored):
    grave.bury(stored)
    with Client(namesrv=orderly_fake.namesrv) as client:
        [dead] = dead_letters(client, "shipping")
        assert retried(client, "shipping") == []
    assert (dead.body, dead.properties["colour"], dead.sharding_key) == (b"\0bad", "ü", "a")
    assert (dead.topic, dead.properties["ORIGIN_MESSAGE_ID"]) == ("orders", stored.message_id)


@pytest.mark.parametrize("wrong", [{"message_id": "another"}, {"queue_offset": 99}])
def test_what_is_not_that_very_message_is_not_buried(orderly_fake, grave, stored, wrong):
    with pytest.raises(DataLost, match="at offset"):
        grave.bury(replace(stored, **wrong))
    with Client(namesrv=orderly_fake.namesrv) as client:
        assert dead_letters(client, "shipping") == []


def test_a_namespace_is_the_groups_too(orderly_fake):
    config = ClientConfig(namesrv=orderly_fake.namesrv, namespace="shop")
    assert DeadLetters("shipping", config=config).group == "shop%shipping"


def test_it_connects_with_the_first_and_not_before():
    nobody = ClientConfig(namesrv="127.0.0.1:1", request_timeout=0.2, connect_timeout=0.2)
    grave = DeadLetters("shipping", config=nobody)
    grave.close()
    grave = DeadLetters("shipping", config=nobody)
    from tests.support.messages import message  # noqa: PLC0415

    with pytest.raises(RemotingError):
        grave.bury(message(7))
    grave.close()
