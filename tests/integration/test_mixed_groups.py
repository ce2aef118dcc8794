"""Java members keep order by queue: a group that has one takes no member with order="key"."""

import contextlib

import pytest

from orderly import ConsumerConfig, ConsumeResult, OrderlyConsumer
from orderly.errors import ConfigError
from tests.support.java import ForeignMember
from tests.support.waiting import eventually, patient_client

NOTICED = 90.0  # seconds; a member looks again 20 s after it missed a notification


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=4)


@pytest.fixture
def start_java(orderly_namesrv, group, topic, java_command):
    with contextlib.ExitStack() as closing:
        yield lambda: closing.enter_context(
            ForeignMember(java_command, orderly_namesrv, group, topic)
        )


@pytest.fixture
def new_ours(orderly_namesrv, group, topic, closing):
    def new(**settings):
        config = ConsumerConfig(consume_from="first", **settings)
        own = closing(patient_client(orderly_namesrv))
        consumer = OrderlyConsumer(
            group, lambda *_: ConsumeResult.SUCCESS, client=own, config=config
        )
        return consumer.subscribe(topic)

    return new


def test_a_member_by_key_does_not_join_a_group_with_a_java_member(
    start_java, new_ours, client, group
):
    java = start_java()
    eventually(lambda: client.admin.consumer_connections(group), within=NOTICED)
    with pytest.raises(ConfigError) as raised:
        new_ours(order="key").start()
    assert f"{java.client_id} (JAVA)" in str(raised.value)
    with new_ours(order="queue"):
        pass


def test_a_java_member_that_joins_later_is_an_error_event_and_the_health_says_so(
    start_java, new_ours, caplog
):
    with new_ours(order="key") as ours:
        eventually(lambda: ours.health().ready, within=NOTICED)
        java = start_java()
        eventually(lambda: f"{java.client_id} (JAVA)" in str(ours.health().reasons), within=NOTICED)
        assert (ours.health().live, ours.health().ready) == (True, False)
        eventually(lambda: "group.order_mixed" in caplog.text)
        (event,) = [r for r in caplog.records if "group.order_mixed" in r.message]
        assert event.levelname == "ERROR"
        java.stop()
        eventually(lambda: ours.health().ready, within=NOTICED)
