"""Where nobody can say what key a message has, its queue waits in front of it and says so."""

import sys

import pytest

from orderly.consumer.session import sharding_key
from tests.support.consuming import judged_by_key, send_numbers
from tests.support.waiting import eventually

KEYS = ["a", "b", "c"]
BAD = ("b", 3)


class KeyFunction:
    """The sharding key, but for one message: `fail` is called there until `repaired`."""

    def __init__(self, fail):
        self.fail, self.repaired = fail, False

    def __call__(self, message):
        if (message.sharding_key, int(message.body)) != BAD or self.repaired:
            return sharding_key(message)
        return self.fail()


def raising():
    raise ValueError("no such account")


@pytest.fixture
def topic(orderly_topic):
    return orderly_topic(queues=1)


@pytest.mark.parametrize(
    ("fail", "said"),
    [
        (raising, "ValueError: no such account"),
        (list, "TypeError: unhashable type: 'list'"),
        (sys.exit, "SystemExit"),
    ],
    ids=["it raises", "an unhashable key", "it exits"],
)
def test_the_queue_waits_and_goes_on_when_it_works_again(
    fail, said, producer, topic, start_group, caplog
):
    key = KeyFunction(fail)
    group = start_group(queues=1, order="key", key=key, pull_retry=0.1)
    results = send_numbers(producer, topic, KEYS, 8)
    bad = results[BAD[1] * len(KEYS) + KEYS.index(BAD[0])].queue_offset

    def reports():
        return [r.message for r in caplog.records if "key_function.raised" in r.message]

    eventually(lambda: len(reports()) >= 3, within=20)
    eventually(lambda: len(group.seen.deliveries) == bad)
    assert {d.offset for d in group.seen.deliveries} == set(range(bad)), "all before, none behind"
    assert all(f"offset={bad}" in report and said in report for report in reports())
    (unready,) = [c.health() for c in group.consumers if not c.health().ready]
    assert unready.live
    assert f"failed at offset {bad}: {said}" in unready.reasons[0]
    key.repaired = True
    eventually(lambda: len(group.seen.deliveries) >= len(results), within=20)
    verdict = judged_by_key(KEYS, results, group.seen)
    assert verdict.ok, verdict
    assert verdict.duplicates == 0
