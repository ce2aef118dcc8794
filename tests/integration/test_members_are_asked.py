"""A real broker relays questions to our members, reads their answers, and tells them offsets."""

import contextlib

import pytest

from orderly import Message
from orderly.client.peer_requests import GroupAnswers
from orderly.errors import ConfigError
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.members import (
    ConsumeDirectly,
    DirectOutcome,
    DirectResult,
    QueueInfo,
    RunningInfo,
    TopicConsumeStatus,
    decode_direct_result,
)
from tests.support.brokers import broker_setting
from tests.support.waiting import Inbox, eventually, patient_client, patient_producer

RESETS = "useServerSideResetOffset"
RESULT = DirectResult(DirectOutcome.LATER, auto_commit=False, remark="not now", spent=0.25)


@pytest.fixture
def asked():
    """What the member was told to do."""
    return Inbox()


@pytest.fixture
def info(topic, queue):
    state = QueueInfo(commit_offset=7, locked=True, last_pull_time=1700000000.123)
    return RunningInfo(
        {"PROP_CONSUMEORDERLY": "true"},
        (Subscription.from_expression(topic, "a || b", 5),),
        {queue: state},
        {topic: TopicConsumeStatus(pull_rt=1.5, consume_failed_messages=2)},
        "orderly-worker",
    )


@pytest.fixture
def member(orderly_namesrv, group, topic, queue, info, asked):
    """A client that is a member of the group, and nothing but that."""

    def consume(message):
        asked(message)
        return RESULT

    everything = Subscription.from_expression(topic, "*", 1)
    with patient_client(orderly_namesrv) as client:
        client.heartbeat.register_consumer(
            group,
            subscriptions=lambda: (everything,),
            on_members_changed=lambda: None,
            answers=GroupAnswers(lambda _: info, asked, lambda _: {queue: 7}, consume),
        )
        client.heartbeat.heartbeat_now()
        yield client


def test_a_running_info_is_relayed_as_it_is(client, member, group, info):
    assert client.groups.running_info(group, member.client_id, stack=True) == info


def test_java_reads_the_offsets_a_member_tells(client, member, group, topic, queue):
    assert client.groups.member_offsets(group, topic) == {member.client_id: {queue: 7}}


def test_a_message_is_consumed_directly(
    orderly_namesrv, client, member, group, topic, queue, asked
):
    with patient_producer(orderly_namesrv) as producer:
        sent = producer.send(Message(topic, b"once more", sharding_key="k"))
    header = ConsumeDirectly(
        consumer_group=group, client_id=member.client_id, msg_id=sent.offset_message_id, topic=topic
    )
    connection = client.connections.get(client.routes.address(queue))
    reply = connection.call(request(header.code, to_ext(header)), 12.0)
    assert decode_direct_result(reply.body) == RESULT
    message = asked.one()
    assert (message.queue, message.queue_offset, message.body) == (queue, 0, b"once more")
    assert message.sharding_key == "k"


@pytest.mark.usefixtures("orderly_broker")
def test_a_broker_that_does_not_reset_by_itself_tells_the_members(
    orderly_namesrv, client, member, group, topic, queue, asked
):
    with patient_producer(orderly_namesrv) as producer:
        for number in range(3):
            producer.send(Message(topic, str(number).encode(), sharding_key="k"))
    eventually(lambda: client.brokers.max_offset(queue) == 3)
    client.brokers.update_offset(group, queue, 1)  # without an offset such a broker refuses
    (broker,) = client.routes.get(topic).brokers
    has = RESETS in client.admin.broker_settings(broker)  # from 5.1 on
    with broker_setting(client, RESETS, "false") if has else contextlib.nullcontext():
        assert client.groups.reset_offsets(group, topic) == {queue: 3}
        assert asked.one() == {queue: 3}
        assert client.brokers.query_offset(group, queue) == 1, "the member commits, not the broker"
        with pytest.raises(ConfigError, match=f"{RESETS}=true"):
            client.groups.reset_queues(group, {queue: 0})
        member.close()
        eventually(lambda: client.admin.consumer_connections(group) is None)
        client.groups.reset_queues(group, {queue: 0})
    assert client.brokers.query_offset(group, queue) == 0


@pytest.mark.usefixtures("orderly_broker")
def test_a_filter_is_checked_by_the_broker(client, group, topic, queue):
    sql = Subscription(topic, "a > 1", version=1, expression_type="SQL92")
    broken = Subscription(topic, "a >", version=1, expression_type="SQL92")
    with broker_setting(client, "enablePropertyFilter", "true"):
        client.groups.check_filter(group, sql, "c")
        with pytest.raises(ConfigError, match="does not understand the filter 'a >'"):
            client.groups.check_filter(group, broken, "c")
    with pytest.raises(ConfigError, match="enablePropertyFilter=true"):
        client.groups.check_filter(group, sql, "c")


def test_a_groups_settings_are_read(client, member, group):
    config = client.groups.group_config(group, "broker-a")
    assert (config.name, config.consume_enabled, config.orderly) == (group, True, False)
