"""Only the broker's "none stored" lets a start be computed; until it is known nothing is pulled.

A guess would be the end of the queue here, and skip what the group has not consumed yet.
"""

from collections import Counter

import pytest

from orderly.client.broker import BrokerCalls
from orderly.errors import BrokerBusy, BrokerError, ProtocolError, RequestTimeout
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

KEYS = [f"k{i}" for i in range(4)]  # one a queue
FAILURES = 2

ERRORS = {
    "no answer": RequestTimeout("made by the test"),
    "a system error": BrokerError("made by the test", code=1),
    "flow control": BrokerBusy("made by the test", code=2),
    "an unreadable answer": ProtocolError("made by the test"),
}


@pytest.fixture
def before(monkeypatch):
    """Have `act` called with the arguments of each request of one kind, before it is sent."""

    def before(name, act):
        request = getattr(BrokerCalls, name)

        def watched(self, *args, **kwargs):
            act(*args, **kwargs)
            return request(self, *args, **kwargs)

        monkeypatch.setattr(BrokerCalls, name, watched)

    return before


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_nothing_is_skipped_and_nothing_pulled_before(
    error, before, producer, topic, start_member, start_group
):
    send_numbers(producer, topic, KEYS, 2)
    former, consumed = start_member()
    eventually(lambda: len(consumed.deliveries) == 2 * len(KEYS), within=20)
    former.close()
    send_numbers(producer, topic, KEYS, 3, first=2)
    failed, early = Counter(), []

    def fail(queue):
        failed[queue] += 1
        if failed[queue] <= FAILURES:
            raise error

    def note(queue):
        if failed[queue] <= FAILURES:
            early.append(queue)

    before("query_offset", lambda group, queue: fail(queue))
    before("pull", lambda query, *_, **__: note(query.queue))
    before("update_offset", lambda group, queue, offset: note(queue))
    seen = start_group(consume_from="last").seen
    send_numbers(producer, topic, KEYS, 2, first=5)
    eventually(lambda: all(6 in seen.numbers(key) for key in KEYS), within=20)
    assert early == []
    assert len(failed) >= len(KEYS)
    eventually(lambda: min(failed.values()) > FAILURES)
    assert seen.by_key() == {key: [2, 3, 4, 5, 6] for key in KEYS}
