"""The broker refuses an offset, or an operator sets it: exactly there the queue goes on."""

import threading

import pytest

from orderly import ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.operator import set_group
from tests.support.waiting import eventually

KEY = "k"


def send(producer, topic, first, count):
    return send_numbers(producer, topic, [KEY], count, first=first)[0].queue


def test_an_offset_beyond_the_end_is_repaired_and_reported(
    producer, topic, client, group, start_group, caplog
):
    queue = send(producer, topic, 0, 5)
    set_group(client, group)
    client.brokers.update_offset(group, queue, 1000)
    seen = start_group().seen
    eventually(lambda: client.brokers.query_offset(group, queue) == 5, within=20)
    send(producer, topic, 5, 3)
    eventually(lambda: 7 in seen.numbers(KEY), within=20)
    assert seen.numbers(KEY) == [5, 6, 7]
    (report,) = [r.message for r in caplog.records if "the broker refused the offset" in r.message]
    assert "refused=1000 correct=5 skipped=0" in report
    assert topic in report


@pytest.mark.parametrize("target", [3, 8], ids=["back", "forward"])
def test_a_reset_while_running_starts_exactly_there(
    target, producer, topic, client, group, start_group
):
    queue = send(producer, topic, 0, 6)
    seen = start_group(commit_interval=0.1).seen
    eventually(lambda: client.brokers.query_offset(group, queue) == 6, within=20)
    send_to = max(target, 6) + 3
    if target > 6:
        hold_back(client, group, producer, topic, queue, target)
    else:
        client.groups.reset_queues(group, {queue: target})
    send(producer, topic, max(target, 6), 3)
    eventually(lambda: seen.numbers(KEY).count(send_to - 1) == 1, within=20)
    again = seen.numbers(KEY)[6:]
    assert again[again.index(target) :] == list(range(target, send_to))
