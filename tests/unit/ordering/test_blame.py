"""Which message of a batch is to blame when a worker process dies, or a hanging call is ended."""

import pytest

from orderly.ordering.blame import name_untried
from orderly.ordering.context import ConsumeContext
from tests.support.messages import QUEUE, message

BATCH = tuple(message(offset, "k") for offset in range(4))


@pytest.mark.parametrize(
    ("batch", "done", "untried"),
    [
        (BATCH, (), {0, 1, 2, 3}),  # nobody knows
        (BATCH, (0, 1), {3}),  # the handler goes through them one by one
        (BATCH, (1, 0, 2), set()),
        (BATCH, (0, 1, 2, 3), set()),
        (BATCH[:1], (), set()),  # it can be no other
    ],
)
def test_an_attempt_is_counted_for_what_is_surely_to_blame(batch, done, untried):
    context = ConsumeContext(QUEUE, "group")
    context.finished.update(done)
    name_untried(batch, context)
    assert (context.finished, context.untried) == (set(done), untried)
