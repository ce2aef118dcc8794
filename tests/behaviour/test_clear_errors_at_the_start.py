"""What cannot work is refused at the start, with the reason; nothing is left running then."""

import threading

import pytest

from orderly import ConsumerConfig, ConsumeResult, OrderlyConsumer
from orderly.errors import ConfigError, LifecycleError, TopicNotFound
from orderly.ordering.topic_names import state_topic
from tests.support.brokers import set_group, set_topic
from tests.support.consuming import unique
from tests.support.waiting import eventually, patient_consumer


def succeed(messages, context):
    return ConsumeResult.SUCCESS


@pytest.fixture
def make(orderly_namesrv, group, tmp_path):
    """Make a consumer of the test's group; not started."""

    def make(topic, tags="*", **settings):
        if settings.get("model") == "broadcasting":
            settings |= {"instance": "i", "offsets_folder": str(tmp_path)}
        config = ConsumerConfig(**settings)
        consumer = patient_consumer(group, succeed, namesrv=orderly_namesrv, config=config)
        return consumer.subscribe(topic, tags)

    return make


@pytest.fixture
def online(client, group):
    """A function that tells the client ids of the group's members."""

    def online():
        connections = client.admin.consumer_connections(group)
        return connections and {member.client_id for member in connections.connections}

    return online


@pytest.fixture
def refused(online, monkeypatch):
    """Start a consumer that must fail so, and look for what it left behind."""
    begun = {threading.current_thread()}  # and what these start: not a living member's late threads
    start_thread = threading.Thread.start

    def start(thread):
        if threading.current_thread() in begun:
            begun.add(thread)
        start_thread(thread)

    def refused(consumer, error, match):
        members = online()
        monkeypatch.setattr(threading.Thread, "start", start)
        with pytest.raises(error, match=match):
            consumer.start()
        left = begun - {threading.current_thread()}
        assert left
        eventually(lambda: not any(thread.is_alive() for thread in left))
        monkeypatch.undo()
        assert online() == members
        assert consumer.assignment == ()
        assert (consumer.health().live, consumer.health().state) == (False, "failed")
        with pytest.raises(LifecycleError, match="is failed; make a new one"):
            consumer.start()
        consumer.close()

    return refused


def test_a_topic_nobody_knows(make, refused):
    nowhere = unique("nowhere")
    refused(make(nowhere), TopicNotFound, nowhere)


def test_a_topic_that_may_not_be_read(topic, client, make, refused):
    set_topic(client, topic, read=4, write=4, perm=2)
    refused(make(topic), ConfigError, f"no queue of topic {topic} may be read")


def test_a_group_that_may_not_consume(topic, client, group, make, refused):
    set_group(client, group, consume_enabled=False)
    refused(make(topic), ConfigError, f"forbids group {group} to consume; .*updateSubGroup")


def test_a_group_that_may_not_broadcast(topic, client, group, make, refused):
    set_group(client, group, broadcast_enabled=False)
    refused(make(topic, model="broadcasting"), ConfigError, f"forbids group {group} to broadcast")


@pytest.mark.parametrize(
    ("there", "here"), [("clustering", "broadcasting"), ("broadcasting", "clustering")]
)
def test_members_that_consume_in_another_way(there, here, topic, make, refused, closing):
    member = closing(make(topic, model=there))
    eventually(lambda: len(member.assignment) == 4, within=20)
    text = f"members that consume as .*{there.upper()}.*this one would as .*{here.upper()}"
    refused(make(topic, model=here), ConfigError, text)
    assert member.health().live


@pytest.mark.parametrize(("there", "here"), [("queue", "key"), ("key", "queue")])
def test_members_that_keep_order_in_another_way(
    there, here, topic, client, group, make, refused, closing
):
    member = closing(make(topic, order=there))
    eventually(lambda: len(member.assignment) == 4, within=20)
    client.groups.running_info(group, member.client_id)  # has its thread that answers by now
    text = f"order={here!r}, but .* by {there}: {member.client_id} .*Stop them first"
    refused(make(topic, order=here), ConfigError, text)
    eventually(lambda: member.health().ready)


def test_a_state_topic_that_is_missing_and_may_not_be_made(topic, group, make, refused):
    text = f"{state_topic(group, topic)}.* orderly topic create {topic} --for-group {group}"
    refused(make(topic, order="key", create_state_topics=False), ConfigError, text)


def test_a_state_topic_that_may_not_be_written(topic, client, group, make, refused):
    state = state_topic(group, topic)
    set_topic(client, state, read=4, write=4, perm=4)
    refused(make(topic, order="key"), ConfigError, f"{state} may not be written on broker")


def test_a_failed_start_leaves_a_shared_client_as_it_was(topic, client, group):
    failing = OrderlyConsumer(group, succeed, client=client).subscribe(unique("nowhere"))
    with pytest.raises(TopicNotFound):
        failing.start()
    working = OrderlyConsumer(group, succeed, client=client).subscribe(topic)
    with working:
        eventually(lambda: len(working.assignment) == 4, within=20)


def test_other_tags_in_the_same_group_are_a_warning_that_names_the_difference(
    topic, make, closing, caplog
):
    member = closing(make(topic, "paid"))
    assert "group.subscriptions_differ" not in caplog.text
    closing(make(topic, "paid || shipped"))
    (warning,) = [r.message for r in caplog.records if "group.subscriptions_differ" in r.message]
    assert f"{topic}: 'paid || shipped' here, 'paid' there" in warning
    assert member.client_id in warning


def test_the_same_subscription_in_other_words_is_no_warning(topic, make, closing, caplog):
    closing(make(topic, "shipped || paid"))
    closing(make(topic, "paid||shipped"))
    assert "group.subscriptions_differ" not in caplog.text
