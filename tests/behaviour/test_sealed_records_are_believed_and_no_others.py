"""A group with a secret works as one without, and does nothing that others have written."""

import json
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from orderly import Ack, Park
from orderly.client.broker import PullQuery
from orderly.monitoring.park_command_sender import run_command
from orderly.monitoring.parked_queues import ParkedQueue
from orderly.ordering.topic_names import state_topic
from orderly.protocol.heartbeat import Subscription
from orderly.protocol.park_record import COMMAND, PARKED, ParkMessage, Verb, park_request
from tests.support.consuming import send_numbers
from tests.support.messages import send_raw
from tests.support.waiting import eventually, patient_client

SECRET, BAD = "a secret of the group", "bad"


class Account:
    """Parks one key until it is mended; notes what it applied."""

    def __init__(self):
        self.applied, self.flags, self.mended = [], [], False

    def __call__(self, messages, context):
        if context.key == BAD and not self.mended:
            return Park("no such account")
        self.applied += [message.queue_offset for message in messages if context.key == BAD]
        self.flags += [message.flag for message in messages if context.key == BAD]
        return Ack()


@pytest.fixture
def told():
    with capture_logs() as lines:
        yield lambda event: [line for line in lines if line["event"] == event]


@pytest.fixture
def operator(orderly_namesrv, closing, group):
    """Gives a command with a secret, as the command line does; returns its outcome."""

    def give(queue, verb):
        client = closing(patient_client(orderly_namesrv, record_secrets=SECRET))
        parked = ParkedQueue(client, group, queue)
        options = {"patience": 60.0, "on_progress": lambda _: None, "on_sent": lambda _: None}
        return run_command(parked, verb, BAD, **options)

    return give


def test_a_key_is_parked_handed_over_and_released_and_a_forged_drop_does_nothing(
    start_group, start_member, producer, topic, group, parks, operator, told
):
    account = Account()
    members = start_group(account, order="key", secrets=SECRET)
    stored = send_numbers(producer, topic, [BAD], 4)
    queue, offsets = stored[0].queue, [each.queue_offset for each in stored]
    eventually(lambda: parks.parked(queue, BAD) == offsets, within=30)
    parks.command(queue, Verb.DROP, BAD)  # by somebody who knows all but the secret
    eventually(lambda: told("record.not_believed"), within=30)
    members.close()
    member, _ = start_member(account, order="key", secrets=SECRET)
    eventually(lambda: queue in member.assignment, within=60)
    assert [key.key for key in member.parked()[queue]] == [BAD]
    account.mended = True
    assert operator(queue, Verb.RELEASE).settled == len(offsets)
    assert account.applied == offsets
    assert not told("state.damaged")
    assert not told("state.rebuilt")
    refused = {line["topic"] for line in told("record.not_believed")}
    assert state_topic(group, topic) not in refused  # its own it believes


@pytest.mark.parametrize(
    "forged", [{"flag": 99}, {"sys_flag": 0x701}, {"sys_flag": 0x301}], ids=str
)  # fmt: skip
def test_a_parked_message_that_is_appended_again_with_another_head_changes_nothing(
    start_group, client, topic, queue, group, parks, operator, forged
):
    """A seal does not cover the head of the stored message: nothing that counts is read there."""
    account = Account()
    start_group(account, order="key", secrets=SECRET)
    offset = send_raw(client, queue, b"7", key=BAD, sys_flag=0, flag=5)
    eventually(lambda: parks.parked(queue, BAD) == [offset], within=60)
    target = parks.queue_of(queue)
    query = PullQuery(group, target, 0, 32, Subscription(target.topic), suspend=1.0)
    (genuine,) = [m for m in client.brokers.pull_now(query).messages if PARKED in m.properties]
    again = replace(ParkMessage(dict(genuine.properties), genuine.body, flag=5), **forged)
    client.brokers.send_now(target, park_request(group, target, again, 1.0))
    account.mended = True
    assert operator(queue, Verb.RELEASE).settled == 1
    assert (account.applied, account.flags) == ([offset], [5])


def test_a_genuine_drop_that_is_appended_again_drops_nothing_that_was_parked_since(
    start_group, producer, topic, group, client, parks, operator
):
    start_group(Account(), order="key", secrets=SECRET)
    first = send_numbers(producer, topic, [BAD], 2)
    queue, offsets = first[0].queue, [each.queue_offset for each in first]
    eventually(lambda: parks.parked(queue, BAD) == offsets, within=30)
    assert operator(queue, Verb.DROP).reason is None
    offsets += [each.queue_offset for each in send_numbers(producer, topic, [BAD], 2)]
    eventually(lambda: parks.parked(queue, BAD) == offsets, within=30)
    target = parks.queue_of(queue)
    query = PullQuery(group, target, 0, 32, Subscription(target.topic), suspend=1.0)
    stored = client.brokers.pull_now(query).messages
    (drop,) = [message for message in stored if message.tags == COMMAND]
    again = ParkMessage(dict(drop.properties), drop.body)
    at = client.brokers.send_now(target, park_request(group, target, again, 1.0)).queue_offset
    number = json.loads(drop.body.split(b" ", 4)[4])["id"]
    last = eventually(lambda: [r for r in parks.results(queue, number) if r.done][1:], within=30)
    assert at > drop.queue_offset
    assert "is not parked" in last[-1].reason
