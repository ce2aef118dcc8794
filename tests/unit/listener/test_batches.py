"""Batches with any outcome per message: order is kept and nothing is acknowledged without Ack."""

from hypothesis import given
from hypothesis import strategies as st

from orderly.listener import Block, Listener, Retry
from orderly.ordering.context import ConsumeContext
from orderly.ordering.outcomes import Ack, DeadLetter, Fail, Suspend
from orderly.ordering.results import ConsumeResult
from tests.support.messages import QUEUE, message

ANSWERS = st.sampled_from(
    [
        Ack(), Ack(), Ack(), Fail("r"), Suspend(), Suspend(2.0), Suspend(31), DeadLetter("r"),
        Block("r"), None, True, "Ack", Ack, ConsumeResult.SUCCESS, OSError("down"),
        ValueError("fatal"),
    ]
)  # fmt: skip
RETRIED = 3


@st.composite
def batches(draw):
    """For each message the answers of its attempts in place."""
    attempts = st.lists(ANSWERS, min_size=RETRIED, max_size=RETRIED)
    return draw(st.lists(attempts, min_size=1, max_size=6))


class Play:
    """Answers from the batch; remembers who ran and who answered Ack."""

    def __init__(self, batch):
        self.batch = batch
        self.ran = []
        self.done = []

    def __call__(self, message, attempt):
        self.ran.append(message.queue_offset)
        answer = self.batch[message.queue_offset][attempt.number - 1]
        if isinstance(answer, Exception):
            raise answer
        if answer == Ack():
            self.done.append(message.queue_offset)
        return answer


@given(batches(), st.sampled_from([Block, DeadLetter]), st.sampled_from([0, 5, None]))
def test_everything_before_the_first_failing_one_is_done_and_nothing_after_it_runs(
    batch, then, limit
):
    play, context = Play(batch), ConsumeContext(QUEUE)
    retry = Retry(attempts=RETRIED, fatal=(ValueError,))
    listener = Listener(play, retry=retry, limit=limit, then=then, sleep=lambda _: None)
    result = listener([message(offset) for offset in range(len(batch))], context)

    assert context.finished == set(play.done), "acknowledged without Ack, or Ack was lost"
    assert play.ran == sorted(play.ran), "a later message ran before an earlier one had ended"
    last = play.ran[-1]
    assert set(play.ran) == set(range(last + 1)), "a message was passed over"
    assert set(range(last)) <= context.finished, "something ran behind a failing message"
    assert (result is ConsumeResult.SUCCESS) == (len(play.done) == len(batch))
    assert result in (ConsumeResult.SUCCESS, ConsumeResult.SUSPEND)
    assert not context.finished & context.rejected.keys()
    assert set(context.rejected) <= {last}
    assert context.auto_commit is True
