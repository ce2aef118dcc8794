"""The function is told what a context knows, and can do nothing with it that acknowledges."""

from dataclasses import replace

import pytest

from orderly import Attempt, ConsumeContext
from orderly.errors import LockLost
from orderly.once.place import Naming, arrival
from tests.support.messages import QUEUE, message


class Tenure:
    token = 7
    deadline = 99.0

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
    assert attempt.lost.is_set()
    with pytest.raises(LockLost):
        attempt.extend()


@pytest.mark.parametrize("name", ["done", "not_tried", "dead_letter", "park", "suspend"])
def test_it_cannot_acknowledge(name):
    assert not hasattr(Attempt(message(0), ConsumeContext(QUEUE)), name)


def test_once_takes_it_in_place_of_a_context():
    context = ConsumeContext(QUEUE, "shipping", key="k", tenure=Tenure())
    given = message(3, "k")
    attempt = Attempt(given, context)
    assert Naming().place(given, attempt) == Naming().place(given, context)
    assert arrival(given, attempt) == arrival(given, context)
