"""Which message of a batch is to blame when its call is ended from outside.

A worker process dies, or a call that hangs is cancelled: the handler gives no answer, and one
message of the batch is the cause. What the handler had named done is done. If it named some, it
goes through them one by one, and the next one is the cause: an attempt is counted for that alone.
Else nobody knows yet. Then no attempt is counted, and each message is handed out alone (`Lanes`),
until the batch is over. So the others never become dead letters because of the one.
"""

from __future__ import annotations

from collections.abc import Sequence

from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext


def name_untried(messages: Sequence[ReceivedMessage], context: ConsumeContext) -> None:
    """Name in its context the messages of such a call that no attempt is counted for."""
    left = [message for message in messages if message.queue_offset not in context.finished]
    known = len(messages) == 1 or len(left) < len(messages)
    for message in left[known:]:
        context.not_tried(message)
