"""The part of a listener that runs in a worker process: found by name, judged at home."""

import pickle

import pytest

import orderly
from orderly import Ack, ConsumeContext, ConsumeResult, Listener, Park
from orderly.errors import NotPicklable, WorkerDied
from tests.support.messages import QUEUE, message


@orderly.listener(decode="bytes", fatal=(ValueError,), on_poison="park_key")
def decorated(value, attempt):
    if attempt.message.queue_offset == 7:
        raise ValueError("bad")
    return Ack()


def plain(message, attempt):
    return Ack()


def elsewhere(listener):
    """The listener through another copy of its work, as through a process."""
    work = pickle.loads(pickle.dumps(listener.work))

    def call(messages, context):
        return pickle.loads(pickle.dumps(work(messages, context)))

    return listener.through(call)


@pytest.mark.parametrize("made", [decorated, Listener(plain)], ids=["decorated", "wrapped"])
def test_it_runs_there_and_acknowledges_here(made):
    context = ConsumeContext(QUEUE, key="k")
    assert elsewhere(made)([message(0), message(1)], context) is ConsumeResult.SUCCESS
    assert context.finished == {0, 1}


def test_the_failure_is_judged_here_with_the_fingerprint_made_there():
    away = elsewhere(decorated)
    context = ConsumeContext(QUEUE, "work", key="k")
    away([message(7)], context)
    assert "test_work:decorated" in context.parked[7].fingerprint
    assert isinstance(decorated.run(message(7)), Park)


def test_it_keeps_its_memory_and_its_settings():
    away = decorated.through(lambda messages, context: Ack())
    assert (away.parks, away.rules) == (True, decorated.rules)
    assert away._judge is decorated._judge


@pytest.mark.parametrize("error", [WorkerDied("gone"), NotPicklable("no"), SystemExit(1)])
def test_that_the_process_died_is_a_failure_of_the_message(error):
    def call(messages, context):
        raise error

    context = ConsumeContext(QUEUE, key="k")
    assert decorated.through(call)([message(0)], context) is ConsumeResult.SUSPEND
    assert context.finished == set()


def test_a_function_without_a_name_cannot_be_found_there():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Listener(lambda message, attempt: Ack()).work)
