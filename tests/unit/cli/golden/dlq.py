"""`orderly dlq`: what is shown, what is asked before anything is sent, and what is told of it."""

from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

from orderly.errors import ConfigError, ConnectionLost, SendFailed
from orderly.model import MessageQueue, SendResult
from orderly.monitoring import dead_letters as module
from orderly.monitoring.dead_letters import DeadLetter, Replayed, ReplayPlan
from tests.support.messages import message
from tests.unit.cli.golden.transcript import Table, client_is

SENT = SendResult(MessageQueue("orders", "broker-a", 3), 17, "new", "o")


def letter(offset, key="k", **more):
    found = replace(message(offset, key), **more)
    return DeadLetter(replace(found, properties={**found.properties, "RETRY_TOPIC": "orders"}))


LETTERS = (letter(1), letter(2, None), letter(3, "\x1b[2Jevil", body=b"\xff\x1b[31m"))


@contextmanager
def world(letters=LETTERS, failing=None, foreign=(), interrupted=None):
    """A group with these dead letters; tells which were sent where."""
    asked = []

    def plan(chosen, to):
        due = tuple((to or each.topic, each) for each in chosen if each not in foreign)
        error = ConfigError("it says that it came from \x1b[2J")
        refused = tuple(Replayed(each, None, error) for each in chosen if each in foreign)
        return ReplayPlan(due, refused)

    def replay(plan):
        yield from plan.refused
        for to, each in plan.due:
            asked.append(f"{each.message_id} to {to}")
            if each is interrupted:
                raise KeyboardInterrupt
            if each is failing:
                error = SendFailed("it was not acknowledged")
                error.__cause__ = ConnectionLost("broker-a is gone")
                yield Replayed(each, None, error)
            else:
                yield Replayed(each, SENT, None)

    group = mock.Mock(list=lambda: letters, each=lambda: iter(letters), plan=plan, replay=replay)
    with (
        client_is(None),
        mock.patch.object(module, "DeadLetters", return_value=group),
        mock.patch("orderly.cli.dead_letters.require_group"),  # it is known
    ):
        yield asked


TABLE = Table(__file__, world, {
    "of Jane": {"letters": (letter(1, "jane", body=b"card of jane"), letter(2, None))},
    "there are none": {"letters": ()},
    "the first is not stored": {"failing": LETTERS[0]},
    "Ctrl-C at the second": {"interrupted": LETTERS[1]},
    "somebody says no": {"answer": False},
    "somebody says yes": {"answer": True},
    "the first is refused, yes to the rest": {"answer": True, "foreign": LETTERS[:1]},
    "all are refused": {"answer": True, "foreign": LETTERS},
})  # fmt: skip
