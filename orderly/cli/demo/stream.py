"""The demo's events as messages: those sent at once, those sent while the members run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orderly.cli.demo.bad_record import BadRecord, pick_bad
from orderly.cli.demo.flights import FlightEvent
from orderly.cli.demo.sending import Numbered
from orderly.cli.demo.trouble import FailingMessage, pick_failing
from orderly.model import Message

MOST_LIVE = 5_000


@dataclass(frozen=True, slots=True)
class Stream:
    """All events in order of time; a message's number is its event's place.

    Attributes:
        events: of the flights.
        first_live: number of the first one that is sent while the members run.
        bad: the one that is spoiled; it is among those.
        failing: the one that fails a few times; it is not.
    """

    events: Sequence[FlightEvent]
    first_live: int
    bad: BadRecord
    failing: FailingMessage

    def at_once(self, topic: str) -> Iterator[Numbered]:
        """The messages that are sent before anybody consumes."""
        return ((number, self._message(topic, number)) for number in range(self.first_live))

    def live(self, topic: str) -> list[Numbered]:
        """The messages that are sent while the members run."""
        numbers = range(self.first_live, len(self.events))
        return [(number, self._message(topic, number)) for number in numbers]

    def _message(self, topic: str, number: int) -> Message:
        """Keyed by the aircraft, tagged with what happened."""
        event = self.events[number]
        body = event.body(number, self.bad.time if number == self.bad.number else None)
        return Message(topic, body, sharding_key=event.tail, tags=event.kind)


def stream_of(events: Sequence[FlightEvent], seed: int) -> Stream:
    """Choose what is sent live, and which two events make trouble."""
    first_live = len(events) - min(len(events) // 2, MOST_LIVE)
    number = pick_failing(events[:first_live], seed)
    event = events[number]
    failing = FailingMessage(number, event.tail, f"{event.tail}'s {event.kind} of {event.time}")
    return Stream(events, first_live, pick_bad(events, first_live), failing)
