"""What is sent again goes where its group consumes, whatever a message says of itself."""

from dataclasses import replace

import pytest

from orderly import Ack, DeadLetter, Park
from orderly.errors import ConfigError
from orderly.monitoring.dead_letters import DeadLetters
from orderly.ordering.topic_names import park_topic, state_topic
from orderly.protocol.park_record import Verb, park_message, park_request
from orderly.protocol.send import dead_letter_request
from tests.support.messages import send_raw
from tests.support.waiting import eventually


@pytest.fixture
def foreign(orderly_topic, client):
    """The only queue of a topic that the group does not consume."""
    return client.routes.get(orderly_topic(queues=1)).write_queues()[0]


@pytest.fixture
def queue(client, topic):
    return client.routes.get(topic).write_queues()[0]


@pytest.fixture
def send(client, queue, foreign):
    """Send a message that says it came from the foreign topic."""

    def send(body, key="a"):
        told = {"RETRY_TOPIC": foreign.topic, "REAL_TOPIC": foreign.topic}
        return send_raw(client, queue, body, key=key, sys_flag=0, **told)

    return send


def test_a_sender_does_not_choose_where_its_message_is_sent_again(
    send, client, topic, group, start_member, foreign
):
    topics = []

    def reject_the_first(messages, context):
        topics.extend(message.topic for message in messages)
        return DeadLetter("no") if len(topics) == 1 else Ack()

    start_member(reject_the_first, patient=True)
    send(b"0")
    dead = DeadLetters(client, group)
    (letter,) = eventually(dead.list)
    (again,) = dead.replay(dead.plan([letter]))
    assert again.error is None
    assert letter.topic == again.result.queue.topic == topic
    eventually(lambda: topics == [topic, topic])
    assert client.brokers.max_offset(foreign) == 0


def test_a_forged_dead_letter_is_refused_and_holds_up_no_other(
    send, client, topic, group, start_member, foreign, queue
):
    """Whoever may write to the group's retry topic says where a dead letter came from."""
    start_member(lambda *_: DeadLetter("no"))
    send(b"0")
    dead = DeadLetters(client, group)
    (true,) = eventually(dead.list)
    elsewhere = [
        foreign.topic, state_topic("other", topic), park_topic(group, topic), f"%RETRY%{group}",
        f"%DLQ%{group}", "TBW102",
    ]  # fmt: skip
    for name in elsewhere:
        told = true.message.properties | {"RETRY_TOPIC": name}
        retried = replace(true.message.queue, topic=f"%RETRY%{group}")
        forged = replace(true.message, queue=retried, properties=told)
        command = dead_letter_request(group, forged, queue.broker_name, 1.0)
        client.brokers.send_now(queue, command)
    letters = eventually(lambda: len(found := dead.list()) == 1 + len(elsewhere) and found)
    done = list(dead.replay(dead.plan(letters)))
    assert sorted(each.letter.topic for each in done if each.error) == sorted(elsewhere)
    assert [each.result.queue.topic for each in done if each.result] == [topic]
    assert client.brokers.max_offset(foreign) == 0
    with pytest.raises(ConfigError, match="no message can be sent to"):
        dead.plan(letters, state_topic("other", topic))
    (named,) = dead.replay(dead.plan([true], foreign.topic))
    assert named.result.queue == foreign, "who names it may send there"


def test_a_release_reads_what_was_parked_of_its_own_queue_only(
    send, client, topic, group, start_member, foreign, queue, parks
):
    """A record of the park topic that names another queue is no message of this one."""
    handled, mended = [], []

    def park(messages, context):
        (message,) = messages
        if not mended:
            return Park("no such account")
        handled.append((message.queue.topic, message.topic, message.body))
        return Ack()

    start_member(park, order="key")
    send(b"0")
    (record,) = eventually(lambda: [r for r in parks.records(queue) if hasattr(r, "original")])
    park_queue = parks.queue_of(queue)
    named = replace(queue, topic=foreign.topic)
    forged = record.original.changed(queue=named, body=b"forged")  # the later copy would count
    written = park_message(forged, record.details)
    client.brokers.send_now(park_queue, park_request(group, park_queue, written, 1.0))
    mended.append(True)
    result = parks.carried_out(queue, Verb.RELEASE, "a")
    assert handled == [(topic, topic, b"0")]
    assert (result.failed_at, result.settled) == (None, 1)
    assert client.brokers.max_offset(foreign) == 0
