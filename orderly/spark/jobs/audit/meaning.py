"""What the words of an audit's report mean, and what to do about some findings. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from orderly.monitoring.reporting.words import plural
from orderly.spark.jobs.audit.figures import Figures
from orderly.spark.jobs.audit.settings import AuditSettings

_NUMBERS = (
    "The number in the property {name!r} must rise with each message of a key. An inversion is a"
    " message after one with a higher number, in the same queue. Across queues the times of"
    " storing are compared, by the brokers' clocks."
)
_BIRTHS = (
    "There is no number to judge, so the time of birth is: by the sender's clock it must not fall"
    " from one message of a key to the next. Two senders with different clocks look like"
    " inversions; two messages of one millisecond can be in either order; what is missing can't be"
    " seen. A repeat is a message with an id that the key had before: next to that message, or"
    " anywhere if the time of birth fell, too."
)
_GAPS = (
    "A gap is numbers of a key that are nowhere between the lowest and the highest one read. What"
    " came late is an inversion and no gap."
)
_NO_GAPS = "Numbers that are left out were not looked for."
_REPEATS = (
    "A repeat with the same id was sent again by the producer, which had no answer the first time:"
    " at least once, as promised. With another id the program sent it again."
)
_MIXED = (
    " {mixed:,} of them came back to a queue that they had left, which no such change explains:"
    " look for senders with different selectors, or with different lists of queues."
)
_LEAPING = (
    "Most keys leave numbers out. If the numbers are not counted one by one in each key, audit"
    " without gaps (--no-gaps)."
)


def meaning(found: Figures, settings: AuditSettings) -> Iterator[str]:
    """Paragraphs for a reader who did not make the audit."""
    yield _NUMBERS.format(name=settings.seq_property) if settings.by_seq else _BIRTHS
    if settings.by_seq:
        yield _GAPS if settings.judges_gaps else _NO_GAPS
    yield _REPEATS
    if found.moved:
        moved = (
            f"{plural(found.moved, 'key')} went from one queue to another: so it is when the number"
            " of queues changes."
        )
        yield moved + (_MIXED.format(mixed=found.mixed) if found.mixed else "")
    if settings.judges_gaps and found.leaping > found.keys / 2:
        yield _LEAPING
    if found.inexact:
        yield (
            f"Not looked at one by one: {plural(found.inexact, 'suspect key')}. Too many, too large"
            " (look_at, look_at_messages), or expired since. Their counts are of neighbours, and a"
            " number that came late counts as a gap."
        )
