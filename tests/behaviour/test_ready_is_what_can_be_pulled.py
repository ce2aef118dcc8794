"""A member is ready only if its queues can be pulled; if not, it says why, and so does the monitor.

Nothing of this passes by itself: what an operator has changed is changed back, and then it does.
"""

import contextlib
import re
import time

import pytest

from orderly.client.broker import USUAL_PULL
from orderly.ordering.explain import Why
from tests.support.brokers import broker_setting, delete_group, delete_topic, set_group, set_topic
from tests.support.consuming import Group, send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(8)]
QUEUES = 4  # of `topic`


@contextlib.contextmanager
def group_forbidden(client, group, topic):
    set_group(client, group, consume_enabled=False)
    yield
    set_group(client, group, consume_enabled=True)


@contextlib.contextmanager
def topic_not_readable(client, group, topic):
    set_topic(client, topic, read=QUEUES, write=QUEUES, perm=2)
    yield
    set_topic(client, topic, read=QUEUES, write=QUEUES, perm=6)


@contextlib.contextmanager
def broker_not_readable(client, group, topic):
    with broker_setting(client, "brokerPermission", "2"):
        yield


@contextlib.contextmanager
def group_deleted(client, group, topic):
    with broker_setting(client, "autoCreateSubscriptionGroup", "false"):
        delete_group(client, group)
        yield
    set_group(client, group)


FORBIDDEN = {  # what is done; what the member says of it, and the monitor
    "the group": (group_forbidden, "not permitted", "does not let the group consume"),
    "the topic": (topic_not_readable, "may be read|not permitted", "may not be read on broker"),
    "the broker": (broker_not_readable, "may be read|not permitted", "lets nobody read"),
}


def reasons(member):
    return " ".join(member.health().reasons)


@pytest.mark.parametrize(("forbid", "said", "cause"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_what_an_operator_forbids(
    forbid, said, cause, start_member, producer, topic, group, client, orderly
):
    member, seen = start_member(route_interval=2)
    send_numbers(producer, topic, KEYS, 1)
    eventually(lambda: len(seen.deliveries) == len(KEYS))
    eventually(lambda: member.health().ready)
    with forbid(client, group, topic):
        with contextlib.suppress(Exception):  # a topic, or a broker, that may not be written either
            send_numbers(producer, topic, KEYS, 1, first=1)
        eventually(lambda: not member.health().ready)
        assert re.search(said, reasons(member)), member.health().reasons
        assert member.health().live, "a restart would not help"
        _, out, _ = orderly("backlog", "explain", group)
        assert f"{group}: CRITICAL" in out
        assert "ORPHAN" in out
        assert cause in " ".join(out.split())
        assert f"orderly doctor {group}" in out
        assert orderly("backlog", "check", group)[0] == 2
        assert "ORPHAN" in orderly("backlog", "list", group)[1]
    eventually(lambda: member.health().ready)
    send_numbers(producer, topic, KEYS, 1, first=2)
    eventually(lambda: all(2 in seen.numbers(key) for key in KEYS))


def test_a_group_that_was_deleted(start_member, producer, topic, group, client):
    member, seen = start_member()
    eventually(lambda: member.health().ready)
    with group_deleted(client, group, topic):
        send_numbers(producer, topic, KEYS, 1)
        eventually(lambda: not member.health().ready)
        assert "group" in reasons(member)
    eventually(lambda: member.health().ready)
    eventually(lambda: len(seen.deliveries) == len(KEYS))


def test_a_topic_that_was_deleted(start_member, topic, client):
    member, _ = start_member(route_interval=2)
    eventually(lambda: member.health().ready)
    delete_topic(client, topic)
    eventually(lambda: not member.health().ready)
    assert topic in reasons(member)
    assert member.health().live


# --- what is no reason ----------------------------------------------------------------------------


def never_unready(member, seconds):
    """Look again and again; the first reason ends the test."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        health = member.health()
        assert health.ready, health.reasons
        time.sleep(0.02)


def test_an_idle_topic(start_member):
    """Longer than the broker holds a pull, and than a pull may take."""
    member, _ = start_member(patient=True)
    eventually(lambda: member.health().ready)
    never_unready(member, USUAL_PULL + 8)
    assert {e.why for e in member.explain()} == {Why.EMPTY}


def test_slow_handlers_a_full_cache_a_rate_and_a_pause(start_member, producer, topic):
    """Whatever a program does with its queues, they could be pulled."""
    slow, _ = start_member(
        lambda messages, context: context.suspend(20), patient=True, pull_threshold=2, max_rate=1.0
    )
    send_numbers(producer, topic, KEYS, 5)
    eventually(lambda: any(e.flow_controlled for e in slow.explain()))
    eventually(lambda: slow.health().ready)
    slow.pause(slow.assignment[:1])
    never_unready(slow, USUAL_PULL + 8)
    slow.resume()
    never_unready(slow, 2)


def test_a_member_without_queues_because_there_are_others(start_member, events):
    members = [start_member()[0] for _ in range(QUEUES + 1)]
    eventually(lambda: Group(members, None).settled(QUEUES))
    (idle,) = [member for member in members if not member.assignment]
    eventually(lambda: idle.health().ready)
    assert {e.why for e in idle.explain()} == {Why.NOT_OWNED}
    assert "member.idle" in {event["event"] for event in events}


def test_a_new_member_of_an_idle_topic_is_ready_at_once(start_member):
    """Not after a long poll: a deployment waits for each member."""
    begun = time.monotonic()
    member, _ = start_member()
    eventually(lambda: member.health().ready)
    assert time.monotonic() - begun < USUAL_PULL / 2
