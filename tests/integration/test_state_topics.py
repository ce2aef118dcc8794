"""A real broker makes, grows and refuses state and park topics as the consumer expects."""

from dataclasses import replace

import pytest
from structlog.testing import CapturingLogger

from orderly.client.state_topics import StateTopics
from orderly.errors import ConfigError
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.send import SendMessage
from tests.support.brokers import broker_setting, set_topic

FOUR = ((4, 4),)
EIGHT = ((8, 8),)


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=4)


@pytest.fixture
def new(client, group):
    def new(*, create=True):
        return StateTopics(client, group, create, CapturingLogger())

    return new


@pytest.fixture(params=[state_topic, park_topic])
def state(group, topic, request):
    return request.param(group, topic)


@pytest.fixture
def own_queue(state):
    """The queue of the topic under test that belongs to a queue of the source topic."""
    return lambda queue: replace(queue, topic=state)


def sizes(client, topic):
    return tuple((data.read_queues, data.write_queues) for data in client.routes.get(topic).queues)


def append(client, queue):
    """Store a record in a state queue; returns its offset."""
    header = SendMessage(
        producer_group="g", topic=queue.topic, queue_id=queue.queue_id, born_timestamp=0,
        properties="", broker_name=queue.broker_name,
    )  # fmt: skip
    command = request(header.code, to_ext(header), b"record")
    return client.brokers.send_now(queue, command).queue_offset


def test_a_missing_state_topic_is_made_and_can_be_written_at_once(
    new, client, topic, state, own_queue
):
    topics = new()
    topics.ensure(topic)
    assert sizes(client, state) == FOUR
    queues = client.routes.get(topic).read_queues()
    assert topics.ready(queues) == queues
    assert [append(client, own_queue(queue)) for queue in queues] == [0, 0, 0, 0]


def test_it_grows_with_its_source_topic(new, client, topic, state, own_queue):
    topics = new()
    topics.ensure(topic)
    append(client, own_queue(client.routes.get(topic).read_queues()[0]))
    set_topic(client, topic, read=8, write=8)
    queues = client.routes.refresh(topic).read_queues()
    assert len(queues) == 8
    assert topics.ready(queues) == queues
    assert sizes(client, state) == EIGHT
    assert [append(client, own_queue(queue)) for queue in queues] == [1, *[0] * 7]


def test_without_leave_to_make_it_the_text_tells_the_command(new, topic, state, client, orderly):
    with pytest.raises(ConfigError) as raised:
        new(create=False).ensure(topic)
    command = str(raised.value).partition("run orderly ")[2].partition(",")[0]
    code, _, err = orderly(*command.split())
    assert (code, err) == (0, "")
    new(create=False).ensure(topic)
    assert sizes(client, state) == FOUR


def test_one_that_may_not_be_written_is_refused(new, topic, state, client):
    set_topic(client, state, read=4, write=4, perm=4)
    with pytest.raises(ConfigError, match="may not be written"):
        new().ensure(topic)


@pytest.mark.usefixtures("orderly_broker")
def test_a_broker_that_is_being_drained_still_takes_state(new, topic, own_queue, client):
    topics = new()
    topics.ensure(topic)
    with broker_setting(client, "brokerPermission", "4"):
        new(create=False).ensure(topic)
        queue = client.routes.get(topic).read_queues()[0]
        assert append(client, own_queue(queue)) == 0
