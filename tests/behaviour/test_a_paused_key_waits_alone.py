"""`pause_key`: its messages wait in order and untried, the others go on, also over a rebalance."""

import pytest
from structlog.testing import capture_logs

from orderly import Ack, ConsumerConfig, OrderlyConsumer
from orderly.errors import ConfigError
from orderly.ordering import pull_window
from orderly.ordering.explain import Why
from orderly.ordering.explain_keys import KeyWhy
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

KEYS = ["a", "b", "c"]
COUNT = 40


@pytest.fixture(params=["thread", "async"])
def member(request, start_member):
    """Start one, and pause key "a" before anything comes; (consumer, seen, attempts)."""
    attempts = []

    def act(messages, context):
        attempts.append((context.key, context.attempt))
        return Ack()

    async def act_async(messages, context):
        return act(messages, context)

    def start(**settings):
        handler = act if request.param == "thread" else act_async
        config = {"order": "key", "suspend": 0.05} | settings
        member, seen = start_member(handler, **config)
        member.pause_key("a")
        return member, seen, attempts

    return start


def why_of(member, key):
    return next((e.why for e in member.explain_keys() if e.key == key), None)


def test_the_others_go_on_and_it_goes_on_in_order_once_it_is_resumed(producer, topic, member):
    consumer, seen, attempts = member()
    send_numbers(producer, topic, KEYS, COUNT)
    eventually(lambda: len(seen.numbers("b")) == len(seen.numbers("c")) == COUNT, within=30)
    eventually(lambda: why_of(consumer, "a") is KeyWhy.PAUSED)
    assert seen.numbers("a") == []
    health = consumer.health()
    assert (health.live, health.ready) == (True, True), "it is no failure"
    assert sum(queue.paused_keys for queue in health.queues) == 1
    assert consumer.paused_keys == {"a"}
    held = [held for held in consumer._session.held() if held.owned.messages.lane_of("a")]
    assert all(each.owned.messages.lane_of("a").messages.pending <= 8 for each in held)
    consumer.resume_key("a")
    eventually(lambda: seen.numbers("a") == list(range(COUNT)), within=30)
    assert {attempt for key, attempt in attempts if key == "a"} == {1}, "nothing counts as tried"
    assert consumer.paused_keys == frozenset()


def test_it_stays_paused_when_its_queue_is_taken_anew(producer, topic, member, client):
    consumer, seen, _ = member()
    send_numbers(producer, topic, KEYS, 3)
    eventually(lambda: why_of(consumer, "a") is KeyWhy.PAUSED, within=30)
    (queue,) = [e.queue for e in consumer.explain_keys() if e.key == "a"]
    consumer.seek(queue, "first")
    eventually(lambda: len(seen.numbers("b")) >= 3, within=30)
    eventually(lambda: why_of(consumer, "a") is KeyWhy.PAUSED, within=30)
    assert seen.numbers("a") == []


def test_a_queue_with_nothing_else_says_so(producer, topic, member):
    consumer, _, _ = member()
    send_numbers(producer, topic, ["a"], 3)
    found = eventually(
        lambda: [e for e in consumer.explain() if e.why is Why.KEYS_PAUSED], within=30
    )
    assert found[0].keys_paused == 1
    assert "1 keys paused" in str(found[0])


def test_a_call_that_runs_ends_and_no_other_begins(producer, topic, start_member):
    running, members = [], []

    def act(messages, context):
        running.append(int(messages[0].body))
        members[0].pause_key(context.key)
        return Ack()

    member, _ = start_member(act, order="key")
    members.append(member)
    send_numbers(producer, topic, ["a"], 30)
    eventually(lambda: running == [0], within=30)
    eventually(lambda: why_of(member, "a") is KeyWhy.PAUSED)
    member.resume_key("a")
    eventually(lambda: running == [0, 1], within=30)


@pytest.fixture
def many_paused(orderly_topic, producer, start_member, monkeypatch):
    """Start a member with 60 paused keys, of which all messages come first; (member, seen).

    A queue may leave 20 keys with something unfinished, as else 20,000.
    """

    def start(room):
        monkeypatch.setattr(pull_window, "MAX_KEYS", 20)
        monkeypatch.setattr(pull_window, "MAX_DEFERRED", 20)
        monkeypatch.setattr(pull_window, "MAX_PAUSED", room)
        one_queue = orderly_topic(queues=1)
        member, seen = start_member(order="key", pull_batch=8, commit_interval=0.3)
        for key in PAUSED:
            member.pause_key(key)
        send_numbers(producer, one_queue, PAUSED, 1)
        send_numbers(producer, one_queue, ["free"], 3)
        member.subscribe(one_queue)
        return member, seen, one_queue

    return start


def explained(member, topic):
    return next((e for e in member.explain() if e.queue.topic == topic), None)


PAUSED = [f"paused-{number}" for number in range(60)]


def test_many_of_them_take_no_room_of_the_others(many_paused):
    member, seen, topic = many_paused(1000)
    eventually(lambda: seen.numbers("free") == [0, 1, 2], within=30)
    eventually(lambda: member.health().ready)
    eventually(lambda: explained(member, topic).why is Why.KEYS_PAUSED)
    for key in PAUSED:
        member.resume_key(key)
    eventually(lambda: all(seen.numbers(key) == [0] for key in PAUSED), within=30)


def test_where_they_are_too_many_the_queue_stops_and_says_so(many_paused):
    """Memory is bounded. It is said by `explain`, by `health`, and by an event."""
    with capture_logs() as logs:
        member, seen, topic = many_paused(30)
        eventually(lambda: limited(member), within=30)
        eventually(lambda: [e for e in logs if e["event"] == "queue.span_reached"], within=30)
    (event,) = [e for e in logs if e["event"] == "queue.span_reached"]
    explanation = explained(member, topic)
    (reason,) = limited(member)
    assert not member.health().ready
    for said in (event["limit"], str(explanation), reason):
        assert "unfinished messages are of keys that the program paused" in said
    assert "resume" in event["hint"]
    assert (explanation.why, explanation.flow_controlled) == (Why.SPAN_END, True)
    assert seen.numbers("free") == []
    for key in PAUSED[:50]:
        member.resume_key(key)
    eventually(lambda: seen.numbers("free") == [0, 1, 2], within=30)
    eventually(lambda: member.health().ready)


def limited(member):
    return [reason for reason in member.health().reasons if "nothing more is pulled" in reason]


def test_by_queue_there_is_no_key_to_pause(start_member):
    member, _ = start_member(lambda messages, context: Ack())
    with pytest.raises(ConfigError, match="order='key'"):
        member.pause_key("a")


@pytest.mark.parametrize("key", [1001, b"a", ["a"]])
def test_what_no_message_has_as_its_key_is_refused(key, orderly_namesrv, group):
    config = ConsumerConfig(order="key")
    consumer = OrderlyConsumer(group, lambda m, c: Ack(), namesrv=orderly_namesrv, config=config)
    for call in (consumer.pause_key, consumer.resume_key):
        with pytest.raises(ConfigError, match="sharding key, a str or None"):
            call(key)
    consumer.close()
