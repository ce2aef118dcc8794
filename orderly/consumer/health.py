"""What a consumer says of its own health: values, and the JSON that probes show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from orderly.model import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueHealth:
    """One queue this consumer holds.

    Attributes:
        queue: which one.
        why: one word of a fixed list that says what it is doing or waiting for.
        seconds: for how long a handler has been running, or for how much longer it waits.
        offset: of its first message that is not finished. This offset is saved for the group. None
            if it is not known yet.
        next_offset: the offset of the next message to pull; None before the first pull.
        cached_messages, cached_bytes: messages pulled and not yet finished, and their bytes of
            memory, unpacked.
        parked_keys: keys that are parked until somebody releases them.
        paused_keys: keys with unfinished messages that the program paused.
    """

    queue: MessageQueue
    why: str
    seconds: float | None
    offset: int | None
    next_offset: int | None
    cached_messages: int
    cached_bytes: int
    parked_keys: int = 0
    paused_keys: int = 0


@dataclass(frozen=True, slots=True)
class Health:
    """One consumer at one moment.

    Attributes:
        live: False: it cannot recover by itself; restart the process.
        ready: it was seen to work: it holds its queues, and pulls of each succeed within their
            usual time. Or it has no queue, since there are more members than queues.
        state: created, running, failed or closed.
        queues: those it holds, sorted.
        reasons: sentences that say why it is not live or not ready, and which messages will be
            deleted unhandled.
    """

    live: bool
    ready: bool
    state: str
    queues: tuple[QueueHealth, ...] = ()
    reasons: tuple[str, ...] = ()

    def to_json(self) -> str:
        """All of it as one JSON object, for people and programs."""
        return json.dumps(asdict(self))


def together(healths: Sequence[tuple[str, Health]]) -> Health:
    """Of several consumers of a process, each with its group's name: well if all are."""
    return Health(
        live=all(health.live for _, health in healths),
        ready=all(health.ready for _, health in healths),
        state=", ".join(dict.fromkeys(health.state for _, health in healths)),
        queues=tuple(queue for _, health in healths for queue in health.queues),
        reasons=tuple(f"{group}: {why}" for group, health in healths for why in health.reasons),
    )
