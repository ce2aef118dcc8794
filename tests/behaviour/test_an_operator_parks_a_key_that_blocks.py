"""`orderly parked add`: a key that waits is set aside at an operator's word, in order, and lost is
nothing; where that cannot be it is said why, and the key waits on."""

import threading

import pytest

from orderly import Ack, Fail, Suspend
from orderly.config import ParkLimits
from orderly.errors import OrderlyError
from orderly.monitoring.park_command_sender import Outcome
from orderly.monitoring.parked import ParkedMessages
from orderly.protocol.park_record import Result
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

BAD, KEYS = "bad", ["bad", "good", "well"]
COUNT = 6
ALL = list(range(COUNT))
LONG = 3600  # seconds: no test waits for the end of it


class NotToday(Exception):
    retry_after = LONG


class Handler:
    """Answers `answer` to the bad key, or raises it, until that is Ack.

    `done` are the numbers it did, by key.
    """

    def __init__(self, answer):
        self.answer, self.asked = answer, 0
        self.done = {key: [] for key in KEYS}

    def __call__(self, messages, context):
        answer = self.answer if context.key == BAD else Ack()
        self.asked += context.key == BAD
        if answer == Ack():
            self.done[context.key] += [int(m.body) for m in messages]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def operator(client, group, topic, parks):
    return ParkedMessages(client, group, topic)


def committed(client, group, stored):
    ends = {result.queue: result.queue_offset + 1 for result in stored}
    return all(client.brokers.query_offset(group, q) == end for q, end in ends.items())


def queue_of_bad(stored):
    return stored[0].queue


@pytest.mark.parametrize("answer", [Suspend(LONG), NotToday()], ids=["suspended", "failed"])
@pytest.mark.parametrize("engine", ["thread", "async"])
def test_it_waits_no_longer_and_comes_back_in_order(
    answer, engine, operator, producer, topic, start_group, client, group
):
    handler = Handler(answer)

    async def act(messages, context):
        return handler(messages, context)

    start_group(
        handler if engine == "thread" else act,
        order="key",
        commit_interval=0.3,
        max_suspend=LONG,
    )
    stored = send_numbers(producer, topic, KEYS, COUNT)
    eventually(lambda: handler.asked, within=20)
    would = [Outcome(queue_of_bad(stored), BAD, COUNT)]
    eventually(lambda: list(operator.add(BAD, dry_run=True).outcomes) == would, within=30)
    assert not operator.list().keys, "nothing was parked"
    added = operator.add(BAD)
    assert [(o.queue, o.reason) for o in added.outcomes] == [(queue_of_bad(stored), None)]
    assert added.outcomes[0].settled >= 1
    assert (len(added.read), added.unknown) == (4, ())
    asked = handler.asked
    stored += send_numbers(producer, topic, [BAD], 1)
    eventually(lambda: committed(client, group, stored), within=20)
    assert handler.asked == asked, "it is not asked again"
    assert handler.done == {BAD: [], "good": ALL, "well": ALL}
    (report,) = operator.list().keys
    assert (report.key, report.messages, report.recorded) == (BAD, COUNT + 1, COUNT + 1)
    details = report.first.details
    assert details.reason.startswith("an operator parked the key")
    assert (details.attempts >= 1, details.fingerprint is None) == (True, False)
    assert operator.add(BAD).outcomes[0].reason == f"key {BAD!r} is already parked"
    handler.answer = Ack()
    (outcome,) = operator.release(BAD)
    assert (outcome.settled, outcome.reason) == (COUNT + 1, None)
    assert handler.done[BAD] == [*ALL, 0], "in order, each once"


def test_where_its_body_was_let_go_it_is_pulled_again_and_parked(
    operator, producer, topic, start_group
):
    """Of many keys that wait those that wake last have no body here."""
    keys = [f"waits-{number}" for number in range(60)]

    def handle(messages, context):
        return Suspend(300 if context.key == BAD else 120)

    group = start_group(handle, order="key", pull_threshold=40)
    send_numbers(producer, topic, keys, 1)
    (bad,) = send_numbers(producer, topic, [BAD], 1)
    eventually(lambda: group.seen.numbers(BAD) and all(map(group.seen.numbers, keys)), within=60)

    def let_go():  # a moment after the handler answered
        told = [e for member in group.consumers for e in member.explain() if e.queue == bad.queue]
        return max(e.keys_suspended - e.cached for e in told) > 0

    eventually(let_go)
    (outcome,) = operator.add(BAD).outcomes
    assert (outcome.queue, outcome.settled, outcome.reason) == (bad.queue, 1, None)


def test_a_call_that_runs_is_waited_for(operator, producer, topic, start_group, parks):
    let_go, began = threading.Event(), threading.Event()

    def handle(messages, context):
        if context.key == BAD:
            began.set()
            let_go.wait(30)
            return Fail("no")
        return Ack()

    start_group(handle, order="key")
    queue = queue_of_bad(send_numbers(producer, topic, [BAD], 2))
    assert began.wait(20)
    found = []
    asking = threading.Thread(target=lambda: found.append(operator.add(BAD)))
    asking.start()
    try:
        words = lambda: [r for r in parks.records(queue) if isinstance(r, Result)]  # noqa: E731
        eventually(words, within=30)
        assert not any(result.done for result in words())
        assert parks.parked(queue, BAD) == []
    finally:
        let_go.set()
        asking.join(60)
    assert [o.reason for o in found[0].outcomes] == [None]
    eventually(lambda: len(parks.parked(queue, BAD)) == 2)


def test_a_key_of_which_nothing_waits(operator, producer, topic, start_group, client, group):
    start_group(lambda *_: Ack(), order="key", commit_interval=0.3)
    stored = send_numbers(producer, topic, KEYS, 1)
    eventually(lambda: committed(client, group, stored), within=20)
    added = operator.add("good")
    assert (added.outcomes, len(added.read), added.unknown) == ((), 4, ())


def test_at_a_limit_it_waits_on(operator, producer, topic, start_group, parks):
    handler = Handler(Suspend(25))
    start_group(handler, order="key", parking=ParkLimits(messages=4))  # one a queue
    stored = send_numbers(producer, topic, [BAD], 2)
    refused = lambda **how: [o.reason for o in operator.add(BAD, **how).outcomes if o.refused]  # noqa: E731
    eventually(lambda: refused(dry_run=True), within=30)
    (reason,) = refused()
    assert "share of the limit" in reason
    assert parks.parked(queue_of_bad(stored), BAD) == []


def test_without_an_owner_by_key_nothing_is_sent(operator, start_member, parks, producer, topic):
    with pytest.raises(OrderlyError, match="no member has consumed with order='key'"):
        operator.add(BAD)
    first, _ = start_member(order="key")
    eventually(lambda: len(first.assignment) == 4)
    first.close()
    with pytest.raises(OrderlyError, match=r"no member of group .* is online"):
        operator.add(BAD)
    second, _ = start_member(order="queue")
    eventually(lambda: len(second.assignment) == 4, within=20)
    with pytest.raises(OrderlyError, match="keep order by queue"):
        operator.add(BAD)
