"""Effects once, with Django's ORM: the library's rule, with a Django model as its row.

`orderly.once.Once` does the same with SQLAlchemy. Here the row must be in Django's transaction, for
that is where the effect is.
"""

from __future__ import annotations

from accounts.models import Applied
from orderly import Attempt
from orderly.once.rule import Naming, Row, RowPlace, arrival, decide, report_refusal

# Raise it by one, all workers stopped, to have every effect again: see docs/how-to/once.md.
_NAMING = Naming(generation=0)


def apply_once(attempt: Attempt) -> bool:
    """Return whether the message's effect must still happen, and note that it does.

    Call it inside of `transaction.atomic()`, and have the effect in there if it is true. False: the
    effect is there already; acknowledge.

    Raises:
        LockLost: another member has taken the queue over and been at work on the key.
        QueueRecreated: the topic was deleted and created again.
    """
    message = attempt.message
    place, came = _NAMING.place(message, attempt), arrival(message, attempt)
    stored, _ = Applied.objects.select_for_update().get_or_create(**_names(place))
    row = Row(stored.offset, stored.token, stored.stored_at, tuple(stored.recent.split()))
    verdict, new = decide(row, came)
    if new != row:
        stored.offset, stored.token, stored.stored_at = new.offset, new.token, new.stored_at
        stored.recent = " ".join(new.recent)
        stored.save()
    report_refusal(
        verdict, place, message, came.token, (row.offset, row.token), redact=attempt.redact_keys
    )
    return bool(verdict)


def _names(place: RowPlace) -> dict[str, str | int]:
    return {
        "group": place.group,
        "topic": place.topic,
        "broker": place.broker,
        "queue_id": place.queue_id,
        "generation": place.generation,
        "key": place.key,
    }
