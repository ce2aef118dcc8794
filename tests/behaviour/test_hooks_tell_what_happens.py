"""Hooks: around each call of the handler, and as queues come and go; none can do harm."""

import time

import pytest
import structlog

from orderly import ConsumeResult
from orderly.consumer.hooks import ConsumerHooks
from tests.support.brokers import take_lock_from
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

TIMEOUT = 3.0  # seconds after which a call counts as TIME_OUT; not even a busy machine takes it


def raising(context):
    raise ValueError("no")


def slow(context):
    time.sleep(TIMEOUT)
    return ConsumeResult.SUCCESS


ANSWERS = [
    (lambda context: ConsumeResult.SUCCESS, "SUCCESS"),
    (lambda context: context.suspend(0.02), "FAILED"),
    (raising, "EXCEPTION"),
    (lambda context: None, "RETURNNULL"),
    (lambda context: "SUCCESS", "FAILED"),
    (slow, "TIME_OUT"),
]
"""What is answered to 0, to 1 again and again until it is done, and the kind of each call."""


@pytest.fixture
def story():
    """What happened, in order."""
    return []


def test_before_and_after_are_called_around_each_call_and_told_how_it_ended(
    story, producer, topic, start_member
):
    send_numbers(producer, topic, ["a"], 2)
    left = [answer for answer, _ in ANSWERS]

    def act(messages, context):
        story.append("handler")
        return left.pop(0)(context)

    def after(messages, context, consumed):
        story.append((int(messages[0].body), context.attempt, str(consumed.kind), consumed.seconds))

    hooks = ConsumerHooks(before=lambda messages, context: story.append("before"), after=after)
    member, _ = start_member(act, hooks=hooks, suspend=0.02, consume_timeout=TIMEOUT)
    eventually(lambda: len(story) == 3 * len(ANSWERS), within=20)
    assert story[0::3] == ["before"] * len(ANSWERS)
    assert story[1::3] == ["handler"] * len(ANSWERS)
    told = [(number, attempt, kind) for number, attempt, kind, _ in story[2::3]]
    kinds = [kind for _, kind in ANSWERS]
    assert told == [(0, 1, kinds[0]), *((1, n, kind) for n, kind in enumerate(kinds[1:], 1))]
    assert story[-1][-1] >= TIMEOUT
    assert_figures(member.statistics(topic), done=2, failed=4)


def assert_figures(figures, done, failed):
    """As every kind above was counted, over a young topic's least age of 10 s."""
    calls = {str(kind): count for kind, count in figures.calls.items()}
    assert calls == {"SUCCESS": 1, "FAILED": 2, "EXCEPTION": 1, "RETURNNULL": 1, "TIME_OUT": 1}
    assert figures.failed_last_hour == failed
    assert 0 < figures.consumed_per_second <= done / 10
    assert figures.failed_per_second == pytest.approx(figures.consumed_per_second * failed / done)
    assert figures.consume_seconds >= TIMEOUT / (done + failed)
    assert figures.pulled_per_second > 0


def noting(story, name, client, group):
    """Hooks that note who is told what of which queues, and the offset stored at a revocation."""
    return ConsumerHooks(
        assigned=lambda queues: story.extend((name, "assigned", {queue}) for queue in queues),
        revoked=lambda queues: story.extend(
            (name, "revoked", {queue}, client.brokers.query_offset(group, queue))
            for queue in queues
        ),
        lost=lambda queues: story.append((name, "lost", set(queues))),
    )


def test_queues_are_assigned_before_their_first_message_and_revoked_after_their_offset_is_saved(
    story, producer, topic, group, client, start_member
):
    queue = send_numbers(producer, topic, ["a"], 3)[0].queue

    def act(messages, context):
        story.append(("handler", context.message_queue))
        return ConsumeResult.SUCCESS

    member, seen = start_member(act, hooks=noting(story, "first", client, group))
    queues = set(client.routes.get(topic).read_queues())
    eventually(lambda: len(seen.deliveries) == 3, within=20)
    eventually(lambda: len(story) >= len(queues) + 3)  # they may come in several rounds
    of_queue = [event for event in story if event[-1] in (queue, {queue})]
    assert of_queue == [("first", "assigned", {queue}), *[("handler", queue)] * 3]
    assert {q for event in story if event[0] == "first" for q in event[2]} == queues
    assert len(story) == len(queues) + 3
    del story[:]
    member.close()
    offsets = {q: 3 if q == queue else 0 for q in queues}
    assert {q: offset for _, _, (q,), offset in story} == offsets
    assert len(story) == len(queues)


def test_what_one_member_is_told_to_have_given_up_another_is_assigned(
    story, topic, group, client, start_member
):
    def told(name, what):
        return {
            queue
            for who, did, queues, *_ in list(story)
            for queue in queues
            if (who, did) == (name, what)
        }

    first, _ = start_member(hooks=noting(story, "first", client, group))
    eventually(lambda: len(told("first", "assigned")) == 4, within=20)
    second, _ = start_member(hooks=noting(story, "second", client, group))
    eventually(lambda: len(told("second", "assigned")) == 2, within=20)
    eventually(lambda: told("first", "revoked") == set(second.assignment))
    assert told("second", "assigned") == set(second.assignment)
    assert told("first", "assigned") - told("first", "revoked") == set(first.assignment)
    assert not told("first", "lost") | told("second", "lost") | told("second", "revoked")


def test_a_lost_lock_is_told_once_and_is_no_revocation(story, topic, group, client, start_member):
    member, _ = start_member(hooks=noting(story, "first", client, group), lock_interval=0.1)
    eventually(lambda: sum(len(queues) for _, _, queues in story) == 4, within=20)
    queue = member.assignment[0]
    del story[:]

    take_lock_from(client, member.client_id, group, queue)
    eventually(lambda: story)
    client.brokers.unlock_queues(group, queue.broker_name, [queue])
    eventually(lambda: len(member.assignment) == 4 and len(story) >= 2)
    assert story == [("first", "lost", {queue}), ("first", "assigned", {queue})]


def test_hooks_that_raise_change_nothing_and_the_body_they_could_not_read_is_not_told(
    producer, topic, start_member
):
    def no(*args):
        b"card=4111 \xff".decode()

    send_numbers(producer, topic, ["a"], 3)
    hooks = ConsumerHooks(before=no, after=no, assigned=no, revoked=no, lost=no)
    with structlog.testing.capture_logs() as events:
        member, seen = start_member(hooks=hooks)
        eventually(lambda: len(seen.deliveries) == 3, within=20)
        member.close()
    structlog.reset_defaults()
    errors = [event["error"] for event in events if event["event"] == "hook.raised"]
    assert len(errors) >= 2 + 2 * 3
    assert all(e.startswith("UnicodeDecodeError: 'utf-8' codec can't decode") for e in errors)
    assert "4111" not in str(errors)
    _, again = start_member()
    send_numbers(producer, topic, ["a"], 1, first=3)
    eventually(lambda: again.deliveries, within=20)
    assert (seen.numbers("a"), again.numbers("a")) == ([0, 1, 2], [3])
