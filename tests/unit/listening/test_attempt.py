"""The function is told what a context knows, and can do nothing with it that acknowledges."""

from dataclasses import replace

import pytest
from sqlalchemy import create_engine

from orderly import Attempt, ConsumeContext
from orderly.errors import LockLost
from orderly.once import Once, Verdict
from tests.support.messages import QUEUE, message


class Tenure:
    token = 7
    deadline = 99.0

    def generation_of(self, key, replayed):
        return 3 if replayed else 4

    class lost:  # noqa: N801
        is_set = staticmethod(lambda: True)

    def extend(self):
        raise LockLost("gone")


def test_it_tells_what_the_context_knows():
    context = ConsumeContext(
        QUEUE, "shipping", key=("k", 1), tenure=Tenure(), replayed=True, dry_run=True
    )
    given = replace(message(3, "k"), reconsume_times=4)
    attempt = Attempt(given, context)
    assert (attempt.message, attempt.number) == (given, 5)
    assert (attempt.group, attempt.key, attempt.token) == ("shipping", ("k", 1), 7)
    assert (attempt.message_queue, attempt.deadline) == (QUEUE, 99.0)
    assert (attempt.replayed, attempt.dry_run) == (True, True)
    assert attempt.generation == 3
    assert attempt.lost.is_set()
    with pytest.raises(LockLost):
        attempt.extend()


@pytest.mark.parametrize("name", ["done", "not_tried", "dead_letter", "park", "suspend"])
def test_it_cannot_acknowledge(name):
    assert not hasattr(Attempt(message(0), ConsumeContext(QUEUE)), name)


@pytest.mark.parametrize("redact", [False, True])
def test_once_takes_it_in_place_of_a_context(redact):
    context = ConsumeContext(QUEUE, "shipping", key="k", tenure=Tenure(), redact_keys=redact)
    given, engine, once = message(3, "k"), create_engine("sqlite://"), Once()
    once.metadata.create_all(engine)
    for owner in (Attempt(given, context), context):
        with engine.begin() as db:
            verdict = once.apply(db, given, owner)
        assert verdict is (Verdict.APPLY if isinstance(owner, Attempt) else Verdict.REPEAT)
    engine.dispose()
