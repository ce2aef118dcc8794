"""COMMIT and ROLLBACK belong to manual commit; answered under auto-commit, a warning says so."""

import structlog

from orderly import ConsumeResult
from tests.support.consuming import send_numbers
from tests.support.waiting import eventually

BAD = 1


def answers(result):
    """Answer `result` on the first attempt of number 1, SUCCESS otherwise."""

    def act(messages, context):
        first = int(messages[0].body) == BAD and context.attempt == 1
        return result if first else ConsumeResult.SUCCESS

    return act


def deliveries(result, producer, topic, start_member, **settings):
    """Numbers as they were delivered, and the answers that were warned of."""
    send_numbers(producer, topic, ["a"], 3)
    with structlog.testing.capture_logs() as events:
        _, seen = start_member(answers(result), suspend=0.02, **settings)
        eventually(lambda: 2 in seen.numbers("a"), within=20)
    warned = [e for e in events if e["event"] == "handler.answer_misplaced"]
    assert all(e["log_level"] == "warning" and e["offset"] == BAD for e in warned)
    return seen.numbers("a"), [e["answer"] for e in warned]


def test_commit_acknowledges(producer, topic, start_member):
    found = deliveries(ConsumeResult.COMMIT, producer, topic, start_member)
    assert found == ([0, BAD, 2], ["COMMIT"])


def test_rollback_suspends(producer, topic, start_member):
    found = deliveries(ConsumeResult.ROLLBACK, producer, topic, start_member)
    assert found == ([0, BAD, BAD, 2], ["ROLLBACK"])


def test_rollback_acknowledges_if_java_is_to_be_copied(producer, topic, start_member):
    found = deliveries(ConsumeResult.ROLLBACK, producer, topic, start_member, java_compat=True)
    assert found == ([0, BAD, 2], ["ROLLBACK"])
