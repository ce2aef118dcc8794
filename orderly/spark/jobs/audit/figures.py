"""The figures of an audit, and what follows from them: verdict and headline. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from orderly.monitoring.backlog.states import Verdict
from orderly.monitoring.reporting.words import plural, share


@dataclass(frozen=True, slots=True)
class Figures:
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
        resent: of these, the same id: sent again by the producer after an unclear outcome.
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


def headline(found: Figures, seq_property: str) -> str:
    """The whole in one or two sentences.

    Args:
        found: the figures.
        seq_property: "": times of birth were judged.
    """
    if not found.judged:
        return f"Not judged: {why_not(found, seq_property)}."
    parts = [*_broken(found), *_left_out(found, seq_property)]
    return " ".join(f"{part[0].upper()}{part[1:]}." for part in parts)


def why_not(found: Figures, seq_property: str) -> str:
    """Why nothing was judged."""
    if not found.messages:
        lost = f"; {plural(found.lost, 'message')} gone" if found.lost else ""
        return f"there are no messages in what was read{lost}"
    if found.keyless == found.messages:
        return f"none of {plural(found.messages, 'message')} has a sharding key"
    return (
        f"none of {plural(found.messages - found.keyless, 'message')} with a key has a whole"
        f" number in the property {seq_property!r}"
    )


def _broken(found: Figures) -> list[str]:
    counted = (
        (found.inversions, "inversion", "inversions"),
        (found.across, "inversion across queues", "inversions across queues"),
        (found.gaps, "gap", "gaps"),
        (found.repeats, "repeat", "repeats"),
        (found.mixed, "key in several queues at once", "keys in several queues at once"),
    )
    told = [f"{number:,} {one if number == 1 else many}" for number, one, many in counted if number]
    if told:
        listed = told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
        return [f"{listed}, in {found.wrong:,} of {plural(found.keys, 'key')}"]
    if found.lost:
        return [f"what was read is in order, but {_were(found.lost, 'message')} gone"]
    if found.inexact:
        judged, keys = plural(found.judged, "message"), plural(found.keys, "key")
        return [f"nothing wrong was found in {judged} of {keys}"]
    return [f"all {plural(found.judged, 'message')} of {plural(found.keys, 'key')} are in order"]


def _left_out(found: Figures, seq_property: str) -> list[str]:
    told = []
    if found.unnumbered:
        part = share(found.unnumbered / (found.messages - found.keyless))
        told.append(f"{part} of messages with a key have no number in {seq_property!r}")
    if found.keyless:
        told.append(f"{plural(found.keyless, 'message')} without a key are not judged")
    if found.inexact:
        told.append(f"{_were(found.inexact, 'suspect key')} not looked at one by one")
    return told


def _were(number: int, word: str) -> str:
    return f"{plural(number, word)} {'was' if number == 1 else 'were'}"
