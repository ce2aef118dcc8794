"""The figures of an audit, what follows from them, and what its words mean. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orderly.monitoring.backlog.states import Verdict
from orderly.report.words import plural, share
from orderly.spark.jobs.audit.settings import AuditSettings


@dataclass(frozen=True, slots=True)
class AuditFigures:
    """What was found, counted.

    Attributes:
        messages: read.
        keyless: of these, without a key; never judged.
        unnumbered: of these, with a key and without a number that can be read.
        judged: of these, what is left.
        lost: offsets that were gone when they were read.
        keys: different ones.
        moved: keys in more than one queue.
        mixed: of these, those that came back to a queue they had left.
        wrong: keys with anything of what follows, or mixed.
        inversions: messages after one with a higher number, in a queue.
        across: the same between two queues.
        repeats: messages that had been there before.
        resent: of these, the same id.
        repeated_sends: of these, what consumers leave out: marked by the producer that sent them
            again, or repeats of what it marked, in the same queue.
        gaps: places where numbers are left out.
        missing: numbers left out there.
        leaping: keys that leave numbers out, whether that counts or not.
        inexact: suspects that were not looked at; their counts are the summaries'.
    """

    messages: int = 0
    keyless: int = 0
    unnumbered: int = 0
    judged: int = 0
    lost: int = 0
    keys: int = 0
    moved: int = 0
    mixed: int = 0
    wrong: int = 0
    inversions: int = 0
    across: int = 0
    repeats: int = 0
    resent: int = 0
    repeated_sends: int = 0
    gaps: int = 0
    missing: int = 0
    leaping: int = 0
    inexact: int = 0

    @property
    def verdict(self) -> Verdict:
        """OK: in order; WARNING: only repeats; CRITICAL: order broken; UNKNOWN: can't be said.

        A suspect without any count is one of which the summaries can't say in which of two queues
        its messages came first: if it was not looked at, nobody knows.
        """
        if not self.judged:
            return Verdict.UNKNOWN
        if self.inversions or self.across or self.gaps or self.mixed:
            return Verdict.CRITICAL
        if self.repeats:
            return Verdict.WARNING
        return Verdict.UNKNOWN if self.lost or self.inexact else Verdict.OK


def headline(found: AuditFigures, seq_property: str) -> str:
    """The whole in one or two sentences.

    Args:
        found: the figures.
        seq_property: "": times of birth were judged.
    """
    if not found.judged:
        return f"Not judged: {why_not(found, seq_property)}."
    parts = [*_broken(found), *_left_out(found, seq_property)]
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def why_not(found: AuditFigures, seq_property: str) -> str:
    """Why nothing was judged."""
    if not found.messages:
        lost = f"; {plural(found.lost, 'message')} gone" if found.lost else ""
        return f"no messages were read{lost}"
    if found.keyless == found.messages:
        return f"none of {plural(found.messages, 'message')} has a sharding key"
    return (
        f"none of {plural(found.messages - found.keyless, 'message')} with a key has a whole"
        f" number in the property {seq_property!r}"
    )


def _broken(found: AuditFigures) -> list[str]:
    counted = (
        (found.inversions, "inversion", "inversions"),
        (found.across, "inversion across queues", "inversions across queues"),
        (found.gaps, "gap", "gaps"),
        (found.repeats - found.repeated_sends, "repeat", "repeats"),
        (found.repeated_sends, "repeated send", "repeated sends"),
        (found.mixed, "key in several queues at once", "keys in several queues at once"),
    )
    counts = [
        f"{number:,} {one if number == 1 else many}" for number, one, many in counted if number
    ]
    if counts:
        *others, last = counts
        listed = f"{', '.join(others)} and {last}" if others else last
        return [f"{listed}, in {found.wrong:,} of {plural(found.keys, 'key')}"]
    if found.lost:
        return [f"the messages read are in order, but {_were(found.lost, 'message')} gone"]
    if found.inexact:
        judged, keys = plural(found.judged, "message"), plural(found.keys, "key")
        return [f"no error was found in {judged} of {keys}"]
    return [f"all {plural(found.judged, 'message')} of {plural(found.keys, 'key')} are in order"]


def _left_out(found: AuditFigures, seq_property: str) -> list[str]:
    parts = []
    if found.unnumbered:
        lacking = share(found.unnumbered / (found.messages - found.keyless))
        parts.append(f"{lacking} of messages with a key have no number in {seq_property!r}")
    if found.keyless:
        parts.append(f"{plural(found.keyless, 'message')} without a key are not judged")
    if found.inexact:
        parts.append(f"{_were(found.inexact, 'suspect key')} not looked at one by one")
    return parts


def _were(number: int, word: str) -> str:
    return f"{plural(number, word)} {'was' if number == 1 else 'were'}"


# --- what the words of a report mean, and what to do about some findings --------------------------


_NUMBERS = (
    "The number in the property {name!r} must rise with each message of a key. An inversion is a"
    " message after one with a higher number, in the same queue. Across queues the audit compares"
    " store times, by the brokers' clocks."
)
_BIRTHS = (
    "The messages have no number, so the audit judges their time of birth, by the sender's clock:"
    " it must not fall from one message of a key to the next. Two senders with different clocks"
    " look like inversions. Two messages of one millisecond can be in either order. Missing"
    " messages cannot be seen. A repeat is a message with an id that the key had before: next to"
    " that message, or anywhere if the time of birth fell, too, or if the key has messages that are"
    " marked as sent again."
)
_GAPS = (
    "A gap is one or more numbers of a key that no message has, between the lowest and the highest"
    " number read. A message that came late is an inversion, not a gap."
)
_NO_GAPS = "The audit did not look for missing numbers."
_REPEATS = (
    "A repeated send is a copy behind its message in the same queue, and one of the two is marked:"
    " the producer got no answer and sent it again. Consumers of this library leave it out. Other"
    " repeats reach a handler. With the same id, they were sent again by a producer that marks"
    " nothing, into another queue, or by a program that had received them. With another id, they"
    " were sent again by the program."
)
_MIXED = (
    " {mixed:,} of them came back to a queue that they had left. Such a change does not explain"
    " that: look for senders with different selectors, or with different lists of queues."
)
_LEAPING = (
    "Most keys leave out numbers. If your numbers do not count one by one in each key, audit"
    " without gaps (--no-gaps)."
)


def meaning(found: AuditFigures, settings: AuditSettings) -> Iterator[str]:
    """Paragraphs for a reader who did not make the audit."""
    yield _NUMBERS.format(name=settings.seq_property) if settings.by_seq else _BIRTHS
    if settings.by_seq:
        yield _GAPS if settings.judges_gaps else _NO_GAPS
    yield _REPEATS
    if found.moved:
        moved = (
            f"{plural(found.moved, 'key')} went from one queue to another, as keys do when the"
            " number of queues changes."
        )
        yield moved + (_MIXED.format(mixed=found.mixed) if found.mixed else "")
    if settings.judges_gaps and found.leaping > found.keys / 2:
        yield _LEAPING
    if found.inexact:
        yield (
            f"Not looked at one by one: {plural(found.inexact, 'suspect key')}. There were too"
            " many, they were too large (look_at, look_at_messages), or their messages have"
            " expired since. Their counts compare neighbours only, so a number that came late"
            " counts as a gap."
        )
