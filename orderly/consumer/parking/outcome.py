"""What a call with a parked message came to."""

from __future__ import annotations

from orderly.consumer.handling.calling import Called
from orderly.log import type_text
from orderly.ordering.fingerprint import fingerprint
from orderly.ordering.outcomes import Fail
from orderly.ordering.results import ConsumeResult, Disposition


def failure_of(called: Called, offset: int) -> str | None:
    """Return why a message is not acknowledged, for people; None: it is.

    Nothing of the message is in it: of an exception only its fingerprint.

    Args:
        called: the call.
        offset: of its only message.
    """
    context, answer, effect = called.context, called.answer, called.effect
    rolled_back = effect.disposition is Disposition.ROLLBACK  # whatever was named, as live
    if effect.acknowledges or (offset in context.finished and not rolled_back):
        return None
    if offset in context.parked:
        return context.parked[offset].fingerprint or context.parked[offset].reason
    return context.rejected.get(offset) or _text(answer)


def _text(answer: object) -> str:
    match answer:
        case BaseException():
            return fingerprint(answer).text
        case Fail(reason):
            return reason
        case ConsumeResult():
            return f"the handler answered {answer.name}"
    return f"the handler answered {type_text(answer)}"
