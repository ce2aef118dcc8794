"""A condition on properties (SQL92): the broker sends what fits, the rest counts as done."""

import pytest

from orderly import Message
from orderly.errors import ConfigError
from tests.support.brokers import broker_setting
from tests.support.waiting import eventually

KEYS = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture
def filtering(client, orderly_broker):
    with broker_setting(client, "enablePropertyFilter", "true"):
        yield


@pytest.fixture
def only_tags(client, orderly_broker):
    with broker_setting(client, "enablePropertyFilter", "false"):
        yield


def send_amounts(producer, topic, amounts, keys=KEYS):
    """Send a message a key with each amount; its number is the amount."""
    return [
        producer.send(
            Message(topic, str(n).encode(), sharding_key=key, properties={"amount": str(n)})
        )
        for n in amounts
        for key in keys
    ]


@pytest.mark.broker  # the fake does not filter by SQL92
@pytest.mark.usefixtures("filtering")
def test_only_what_fits_arrives_and_the_rest_counts_as_done(
    producer, topic, client, group, start_group
):
    sent = send_amounts(producer, topic, [1, 200, 2, 101, 3, 4])
    seen = start_group(sql="amount > 100", commit_interval=0.2).seen
    eventually(lambda: len(seen.deliveries) == 2 * len(KEYS), within=20)
    assert seen.by_key() == {key: [200, 101] for key in KEYS}
    ends = {r.queue: max(x.queue_offset for x in sent if x.queue == r.queue) + 1 for r in sent}
    for queue, end in ends.items():  # the last messages of each queue were passed over
        eventually(lambda q=queue, e=end: client.brokers.query_offset(group, q) == e)


@pytest.mark.broker  # the fake does not filter by SQL92
@pytest.mark.usefixtures("filtering")
def test_what_was_passed_over_waits_for_what_is_unfinished_before_it(
    producer, topic, client, group, start_member
):
    queue = send_amounts(producer, topic, [1, 101, 2], keys=["a"])[0].queue
    consumer, seen = start_member(
        lambda messages, context: context.suspend(30), sql="amount > 100", commit_interval=0.1
    )
    eventually(lambda: seen.deliveries, within=20)
    eventually(lambda: client.brokers.query_offset(group, queue) == 1)
    consumer.close()
    assert client.brokers.query_offset(group, queue) == 1


@pytest.mark.broker  # the fake does not filter by SQL92
@pytest.mark.usefixtures("filtering")
def test_a_new_condition_replaces_the_old_one_while_running(producer, topic, start_group):
    group = start_group(sql="amount > 100")
    for consumer in group.consumers:
        consumer.subscribe(topic, sql="amount BETWEEN 10 AND 20")
    send_amounts(producer, topic, [15, 200, 16])
    eventually(lambda: len(group.seen.deliveries) >= 2 * len(KEYS), within=20)
    assert group.seen.by_key() == {key: [15, 16] for key in KEYS}


@pytest.mark.broker  # the fake does not filter by SQL92
@pytest.mark.usefixtures("filtering")
def test_a_condition_nobody_understands_is_refused_at_the_start_and_while_running(
    producer, topic, start_member
):
    with pytest.raises(ConfigError, match="does not understand the filter 'amount >'"):
        start_member(sql="amount >")
    consumer, seen = start_member(sql="amount > 100")
    with pytest.raises(ConfigError, match="does not understand the filter 'AND'"):
        consumer.subscribe(topic, sql="AND")
    send_amounts(producer, topic, [101])
    eventually(lambda: len(seen.deliveries) == len(KEYS), within=20)


@pytest.mark.usefixtures("only_tags")
def test_a_broker_that_filters_by_tags_only_is_named_with_the_remedy(start_member):
    with pytest.raises(ConfigError, match=r"broker-a.* set enablePropertyFilter=true"):
        start_member(sql="amount > 100")
