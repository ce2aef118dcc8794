"""Commands about parked keys: what is told while they are awaited, and how the wait ends."""

import threading
from dataclasses import replace

import pytest

from orderly.errors import OrderlyError, RequestTimeout
from orderly.monitoring.parking import queues
from orderly.monitoring.parking.queue import ParkedQueue
from orderly.protocol.park_record import Command, Result, control_message
from tests.support.hand_owner import HandOwner


def test_the_wait_ends_with_the_result_of_this_command_only(parked, owner, monkeypatch):
    progress = []

    def answered(message):
        at = HandOwner.append(owner, message)
        (command,) = [r for r in owner.records(at) if isinstance(r, Command)]
        for result in (
            Result("another", done=True, settled=9),
            Result(command.id, done=False, settled=2),
            Result(command.id, done=True, settled=3),
        ):
            HandOwner.append(owner, control_message(result))
        return at

    monkeypatch.setattr(
        "orderly.monitoring.parking.queue.ParkedQueue.append", lambda _, m: answered(m)
    )
    (outcome,) = parked.release("a", on_progress=progress.append)
    assert (outcome.settled, outcome.failed_at, outcome.refused) == (3, None, False)
    assert progress == [2]


def test_silence_is_an_error_that_says_that_the_command_stays(parked, owner):
    at = owner.end()
    with pytest.raises(OrderlyError, match=r"no member .* is online.* The command \(try\) stays"):
        parked.try_("a", patience=0.1)
    assert len(owner.records(at)) == 1


def test_who_will_run_it_is_told_before_the_wait(parked, owner):
    told = []
    with pytest.raises(OrderlyError):
        parked.drop("a", patience=0.1, on_sent=told.append)
    (text,) = told
    assert text.startswith("drop of key 'a' is sent to the owner of orders/broker-a/0: no member")


def test_an_interrupted_wait_says_that_the_command_stays(parked, owner):
    at = owner.end()

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(OrderlyError, match=r"interrupted.* The command \(drop\) stays"):
        parked.drop("a", on_sent=interrupt)
    assert len(owner.records(at)) == 1


@pytest.fixture
def silence(monkeypatch):
    """Have the broker not answer to so many reads once a command is sent."""

    def begin(times):
        sent, failures = [], [RequestTimeout("broker-a did not answer")] * times

        class Silent(ParkedQueue):
            def __init__(self, *args):
                super().__init__(*args)
                self._true, self.perform = self.perform, self._failing

            def _failing(self, call):
                if sent and failures:
                    raise failures.pop()
                return self._true(call)

        monkeypatch.setattr(queues, "ParkedQueue", Silent)
        return sent.append

    return begin


def test_a_broker_that_is_silent_for_a_while_does_not_end_the_wait(parked, owner, silence):
    at, on_sent = owner.end(), silence(times=2)
    done = lambda: owner.answer(at, lambda c: Result(c.id, done=True, settled=3))  # noqa: E731
    answering = threading.Thread(target=done)
    answering.start()
    (outcome,) = parked.release("a", on_sent=on_sent)
    answering.join(10)
    assert outcome.settled == 3


def test_a_broker_that_stays_silent_is_named_at_the_end_of_the_wait(parked, owner, silence):
    with pytest.raises(OrderlyError, match=r"did not answer.* The command \(release\) stays"):
        parked.release("a", patience=0.5, on_sent=silence(times=99))


@pytest.fixture
def somebody_is_online(parked, monkeypatch):
    monkeypatch.setattr(parked, "_check_members", lambda topic: None)


@pytest.mark.usefixtures("somebody_is_online")
def test_to_add_a_key_the_owners_of_all_queues_are_asked(orderly_fake, parked, owner):
    at, told = owner.end(), []
    answers = lambda: owner.answer(at, lambda c: Result(c.id, done=True, settled=2))  # noqa: E731
    answering = threading.Thread(target=answers)
    answering.start()
    added = parked.add("b", on_sent=told.append)
    answering.join(10)
    assert [(o.queue, o.key, o.settled, o.reason) for o in added.outcomes] == [
        (owner.queue, "b", 2, None)
    ]
    assert (added.read, added.unknown) == ((owner.queue,), ())
    assert told[0].startswith("add of key 'b' is sent to the owners of 1 queue of orders: ")


@pytest.mark.usefixtures("somebody_is_online")
@pytest.mark.parametrize(
    ("words", "why"), [((), "no owner answered"), ((0,), "has taken the command")]
)
def test_an_owner_that_does_not_answer_is_not_known(parked, owner, words, why):
    at = owner.end()
    results = [lambda c, n=n: Result(c.id, done=False, settled=n) for n in words]
    answering = threading.Thread(target=lambda: owner.answer(at, *results))
    answering.start()
    added = parked.add("b", dry_run=True, patience=4)
    answering.join(10)
    assert (added.outcomes, added.read) == ((), ())
    ((queue, error),) = added.unknown
    assert queue == owner.queue
    assert why in str(error)


@pytest.mark.usefixtures("somebody_is_online")
def test_a_broker_that_takes_no_command_is_asked_once(client, parked, owner, monkeypatch):
    asked, numbers = [], range(3)
    found = [ParkedQueue(client, "shipping", replace(owner.queue, queue_id=n)) for n in numbers]
    monkeypatch.setattr(parked._queues, "all", lambda: found)

    def silent(queue, message):
        asked.append(queue)
        raise RequestTimeout("broker-a did not answer")

    monkeypatch.setattr(ParkedQueue, "append", silent)
    added = parked.add("b")
    assert len(asked) == 1
    assert [queue.queue_id for queue, _ in added.unknown] == [0, 1, 2]
    assert {str(error) for _, error in added.unknown} == {"broker-a did not answer"}


def test_of_several_topics_one_must_be_named(client, parked, owner, new_owner):
    new_owner("payments")
    with pytest.raises(OrderlyError, match="several topics: orders, payments"):
        parked.add("b")
