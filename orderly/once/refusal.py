"""What a verdict other than APPLY leads to: an event, and an error where none may be acked."""

from __future__ import annotations

from orderly.errors import LockLost, QueueRecreated
from orderly.log import get_logger, where
from orderly.model import ReceivedMessage
from orderly.once.place import Place
from orderly.once.rule import Verdict

_log = get_logger("orderly.once")


def tell(
    verdict: Verdict,
    place: Place,
    message: ReceivedMessage,
    token: int | None,
    found: tuple[int, int | None],
    *,
    redact: bool = False,
) -> None:
    """Emit the event of a refusal; nothing for APPLY.

    Args:
        verdict: of the message.
        place: its row's.
        message: which one.
        token: of the queue's owner here.
        found: offset and token of the row.
        redact: show no key.

    Raises:
        LockLost: STALE_OWNER.
        QueueRecreated: RECREATED.
    """
    if verdict:
        return
    key = place.key.removeprefix("=") if redact else place.key
    at = where(place.group, message.queue, message) | {"key": key, "redact": redact}
    emit = {Verdict.STALE_OWNER: _log.warning, Verdict.RECREATED: _log.error}.get(
        verdict, _log.info
    )
    emit(
        "message.not_applied",
        **at,
        verdict=verdict.value,
        message_id=message.message_id,
        token=token,
        generation=place.generation,
        applied_offset=found[0],
        applied_token=found[1],
    )
    if verdict is Verdict.STALE_OWNER:
        raise LockLost(
            f"{message.queue} is no longer ours: token {token} is below {found[1]}, which is stored"
            " with this key. If somebody deleted the group's state topic, tokens begin anew: stop"
            f" all members and start them with generation={place.generation + 1}"
        )
    if verdict is Verdict.RECREATED:
        raise QueueRecreated(
            f"{message.queue} at {message.queue_offset} was stored after what is noted as applied,"
            f" at {found[0]}: the topic was deleted and made anew. Stop all members and start them"
            f" with generation={place.generation + 1}"
        )
