"""Which member owns which queues: pure functions of sorted queues and sorted client ids.

Every member computes this alone, so the answer may depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from orderly.model import MessageQueue

Allocation = Callable[[str, Sequence[MessageQueue], Sequence[str]], Sequence[MessageQueue]]
"""(my client id, sorted queues, sorted client ids) -> my queues."""


def averagely(
    client_id: str, queues: Sequence[MessageQueue], members: Sequence[str]
) -> Sequence[MessageQueue]:
    """Contiguous blocks; the first `len(queues) % len(members)` members get one more.

    Java: AllocateMessageQueueAveragely. A client that is not among the members gets nothing.
    """
    if client_id not in members:
        return ()
    index = members.index(client_id)
    share, rest = divmod(len(queues), len(members))
    start = index * share + min(index, rest)
    return queues[start : start + share + (index < rest)]
