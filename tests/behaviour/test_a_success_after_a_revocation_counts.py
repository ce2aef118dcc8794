"""What a handler says after its queue was given away still counts: the lock was kept for it.

Java forgets the result of a dropped queue, so the heir gets the message again.
"""


from orderly import ConsumeResult
from tests.support.blocking import Blocking

KEYS = [f"k{i}" for i in range(4)]  # one a queue
COUNT = 4


def manual(act):
    def with_manual_commit(messages, context):
        context.auto_commit = False
        return act(messages, context)

    return with_manual_commit


def kept_then_committed(blocking):
    """Keep number 0 in hand, and commit with number 1."""

    def act(messages, context):
        answer = blocking(messages, context)
        return ConsumeResult.SUCCESS if int(messages[0].body) == 0 else answer

    return manual(act)


CASES = {
    "a success": (Blocking, ConsumeResult.SUCCESS, 0, 1),
    "a failure": (Blocking, ConsumeResult.SUSPEND, 0, 0),
    "a commit of all in hand": (kept_then_committed, ConsumeResult.COMMIT, 1, 2),
    "kept in hand, never committed": (kept_then_committed, ConsumeResult.SUCCESS, 1, 0),
}
