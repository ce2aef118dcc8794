"""What was finished ahead of a stuck key is not delivered again, whoever has the queue next."""

import contextlib

import pytest

from orderly import Ack, Suspend
from tests.support.brokers import unlock_for
from tests.support.consuming import Group, send_numbers
from tests.support.members import MemberProcess
from tests.support.topics import finished_ahead
from tests.support.waiting import await_visible, eventually

STUCK = "stuck"
OTHERS = ["a", "b", "c", "d", "e"]
KEYS = [STUCK, *OTHERS]
NEVER = 3600  # only a handover saves


def stuck_at_the_first(messages, context):
    """One key never gets past its first message."""
    number_0 = int(messages[0].body) == 0
    return Suspend(0.1) if context.key == STUCK and number_0 else Ack()


def others_have(seen, numbers):
    return all(seen.numbers(key)[-len(numbers) :] == numbers for key in OTHERS)


def test_a_clean_close_leaves_nothing_to_repeat(producer, topic, start_group):
    settings = {"order": "key", "commit_interval": NEVER}
    first = start_group(stuck_at_the_first, **settings)
    send_numbers(producer, topic, KEYS, 10)
    eventually(lambda: others_have(first.seen, list(range(10))), within=20)
    first.close()
    second = start_group(**settings)
    send_numbers(producer, topic, KEYS, 2, first=10)
    eventually(lambda: second.seen.numbers(STUCK)[-1:] == [11], within=20)
    eventually(lambda: others_have(second.seen, [10, 11]), within=20)
    assert second.seen.by_key() == {STUCK: list(range(12))} | {key: [10, 11] for key in OTHERS}


def test_queues_that_go_back_and_forth_repeat_nothing(producer, topic, start_group, start_member):
    settings = {"order": "key", "commit_interval": NEVER}
    group = start_group(stuck_at_the_first, **settings)
    members, seen = list(group.consumers), group.seen
    for round_ in range(3):
        send_numbers(producer, topic, KEYS, 5, first=10 * round_)
        members.append(start_member(recorder=seen, **settings)[0])
        eventually(lambda: Group(members, seen).settled(4), within=20)
        send_numbers(producer, topic, KEYS, 5, first=10 * round_ + 5)
        members.pop(0).close()
        eventually(lambda: Group(members, seen).settled(4), within=20)
    eventually(lambda: all(29 in seen.numbers(key) for key in OTHERS), within=20)
    assert all(seen.numbers(key) == list(range(30)) for key in OTHERS)
    assert set(seen.numbers(STUCK)) == {0}


@pytest.fixture
def one_queue(orderly_topic):
    return orderly_topic(queues=1)


@pytest.fixture
def join(start_member, one_queue):
    """Start a member that has a topic with one queue; returns (consumer, recorder)."""

    def join(act=None, *, paused=(), **settings):
        consumer, seen = start_member(act, order="key", **settings)
        consumer.pause(paused)
        return consumer.subscribe(one_queue), seen

    return join


def test_after_a_kill_only_what_was_not_on_record_comes_again(
    orderly_namesrv, producer, one_queue, group, client, closing, join, state_topics
):
    state_topics(group, one_queue)
    options = ["--order=key", f"--stuck={STUCK}", "--commit=0.2"]
    victim = MemberProcess(orderly_namesrv, group, one_queue, more=options)
    closing(contextlib.closing(victim))
    eventually(lambda: victim.held, within=20)
    queue = send_numbers(producer, one_queue, KEYS, 10)[0].queue
    finished = {offset for offset in range(60) if offset % len(KEYS)}
    eventually(lambda: finished_ahead(client, group, queue) == finished, within=20, every=0.05)
    send_numbers(producer, one_queue, KEYS, 5, first=10)
    eventually(lambda: len(victim.events) > len(finished))
    victim.kill()
    await_visible(client)  # or what it had sent last is on record a moment later
    on_record = finished_ahead(client, group, queue)
    assert finished <= on_record <= {event.offset for event in victim.events}
    unlock_for(client, victim.client_id, group, queue)  # or wait for the end of its lease
    _, heir = join()
    left = set(range(90)) - on_record
    eventually(lambda: {d.offset for d in heir.deliveries} >= left, within=20)
    assert sorted(d.offset for d in heir.deliveries) == sorted(left), "the rest, each once"


@pytest.fixture
def ahead(producer, one_queue, group, client, join):
    """A member that finished 25 messages ahead of number 0 of the stuck key, all on record.

    Returns the queue, the member and its recorder.
    """
    member, seen = join(stuck_at_the_first, commit_interval=0.1)
    queue = send_numbers(producer, one_queue, KEYS, 5)[0].queue
    eventually(lambda: others_have(seen, list(range(5))), within=20)
    eventually(lambda: len(finished_ahead(client, group, queue)) == 25, within=20, every=0.05)
    return queue, member, seen


def offsets_from(seen, place):
    """What was delivered from that place on, but for the stuck message."""
    return [d.offset for d in seen.deliveries[place:] if d.offset]


@pytest.mark.parametrize("while_running", [True, False], ids=["while it runs", "between owners"])
def test_an_operators_reset_discards_it_and_says_so(
    while_running, ahead, producer, one_queue, group, client, join, caplog
):
    queue, owner, seen = ahead
    if not while_running:
        owner.close()
    before = len(seen.deliveries)
    client.groups.reset_queues(group, {queue: 15})
    send_numbers(producer, one_queue, KEYS, 1, first=5)  # a member learns of it as it pulls
    if not while_running:
        join(stuck_at_the_first, recorder=seen, commit_interval=0.1)
    eventually(lambda: client.brokers.query_offset(group, queue) == 36, within=20)
    again = offsets_from(seen, before)
    assert sorted(offset for offset in again if offset < 30) == list(range(15, 30))
    assert set(range(30, 36)) <= set(again)
    event = "offset.illegal" if while_running else "offset.set_by_another"
    (told,) = [r.message for r in caplog.records if event in r.message]
    assert ("correct=15" in told and "discarded=25" in told) or "start=15" in told


def test_a_reset_to_where_the_group_stands_discards_it_too(ahead, group, client, join, caplog):
    """A crash leaves the same offset and the same record; but the broker says that it was reset."""
    queue, owner, _ = ahead
    owner.close()
    client.groups.reset_queues(group, {queue: client.brokers.query_offset(group, queue)})
    _, heir = join(commit_interval=0.1)
    eventually(lambda: client.brokers.query_offset(group, queue) == 30, within=20)
    assert sorted(d.offset for d in heir.deliveries) == list(range(30))
    assert any("offset.set_by_another" in r.message for r in caplog.records)


def test_a_seek_discards_it(ahead, group, client):
    queue, owner, seen = ahead
    before = len(seen.deliveries)
    owner.seek(queue, 15)
    eventually(lambda: client.brokers.query_offset(group, queue) == 30, within=20)
    assert sorted(offsets_from(seen, before)) == list(range(15, 30))


@pytest.mark.parametrize("pulled", [True, False], ids=["all is pulled", "nothing is pulled yet"])
def test_a_seek_to_where_the_queue_stands_discards_it_too(pulled, ahead, join):
    queue, owner, seen = ahead
    if not pulled:
        owner.close()
        owner, _ = join(stuck_at_the_first, recorder=seen, paused=[queue])
        eventually(lambda: queue in owner.assignment, within=20)
    before = len(seen.deliveries)
    owner.seek(queue, 0)
    owner.resume([queue])
    again = [offset for offset in range(30) if offset % len(KEYS)]
    eventually(lambda: sorted(offsets_from(seen, before)) == again, within=20)
