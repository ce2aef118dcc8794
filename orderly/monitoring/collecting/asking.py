"""Questions to brokers by their names, within one scan."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from orderly.client.pipeline import Pipeline, Question
from orderly.errors import OrderlyError, RouteError
from orderly.monitoring.collecting.round import Round

R = TypeVar("R")


class Asking:
    """Asks for one scan. One thread at a time.

    Args:
        pipeline: of the collector, with its limits.
        round_: addresses and end of the scan.
    """

    def __init__(self, pipeline: Pipeline, round_: Round) -> None:
        self._pipeline = pipeline
        self._round = round_

    @property
    def proxied(self) -> Collection[str]:
        """See Round."""
        return self._round.proxied

    def ask(self, questions: Sequence[tuple[str, Question[R]]]) -> list[R | OrderlyError]:
        """Ask each broker its questions, all side by side; blocks.

        Args:
            questions: broker name and question.

        Returns:
            The answers, each at the place of its question; an error where there is none.
        """
        by_address: dict[str, list[int]] = {}
        for place, (broker, _) in enumerate(questions):
            if broker in self._round.masters:
                by_address.setdefault(self._round.masters[broker], []).append(place)
        answered = self._pipeline.ask_each(
            {
                address: [questions[place][1] for place in places]
                for address, places in by_address.items()
            },
            self._round.deadline,
        )
        found: dict[int, R | OrderlyError] = {}
        for address, places in by_address.items():
            found.update(zip(places, answered[address], strict=True))
        return [
            found[place] if place in found else _nobody(broker)
            for place, (broker, _) in enumerate(questions)
        ]


def _nobody(broker: str) -> RouteError:
    return RouteError(f"broker {broker!r} has no master at the name server")
