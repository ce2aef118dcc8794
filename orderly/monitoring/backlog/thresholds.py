"""What is watched about a group, and which values are a warning or critical."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from orderly.errors import ConfigError
from orderly.monitoring.backlog.ranges import Range


class Measure(StrEnum):
    """A figure of a group (or, in rule LAGGING, of a queue) that a threshold may be set for."""

    BACKLOG = "backlog"
    HEAD_AGE = "head_age"
    DRAIN_ETA = "drain_eta"
    RETENTION_ETA = "retention_eta"
    PARKED = "parked"
    DEAD = "dead"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class About:
    """What a measure is: its unit ("messages", "keys" or "seconds"), and a line of help."""

    unit: str
    help: str

    @property
    def duration(self) -> bool:
        """Whether it is a time."""
        return self.unit == "seconds"


MEASURES = {
    Measure.BACKLOG: About("messages", "messages stored and not finished"),
    Measure.HEAD_AGE: About("seconds", "how long ago the oldest of them was stored"),
    Measure.DRAIN_ETA: About("seconds", "until the slowest queue has worked off its backlog"),
    Measure.RETENTION_ETA: About("seconds", "until the broker deletes what is not consumed"),
    Measure.PARKED: About("keys", "keys that wait in the park topic"),
    Measure.DEAD: About("messages", "messages in the dead letter topic"),
    Measure.LOST: About("messages", "messages deleted before they were consumed"),
}
DEFAULT_WARN = {Measure.PARKED: "0", Measure.DEAD: "0"}  # they no longer count as backlog
DEFAULT_CRIT = {Measure.LOST: "0"}


@dataclass(frozen=True, slots=True)
class Limits:
    """When a value is a warning, and when it is critical; None: never.

    `given` by somebody, not by default: then a value that is not known is not in order, either.
    """

    warn: Range | None = None
    crit: Range | None = None
    given: bool = False


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Limits by measure; a measure without an entry is not judged."""

    limits: Mapping[Measure, Limits]

    @classmethod
    def parse(cls, warn: Mapping[str, str], crit: Mapping[str, str]) -> Self:
        """Read thresholds from texts; what is not given is as by default.

        By default parked keys and dead letters are a warning, and lost messages are critical;
        the range `~:` switches a default off.

        Args:
            warn: ranges by name of a Measure. Those of times take durations. A bare number for
                `retention_eta` alerts below it, as `N:` does.
            crit: as `warn`.

        Raises:
            ConfigError: an unknown measure, a text that is no range, or a `warn` that alerts of
                nothing but what `crit` alerts of too.
        """
        for name in {*warn, *crit} - set(Measure):
            raise ConfigError(f"no threshold {name!r}: take one of {', '.join(Measure)}")
        limits = {measure: _limits(measure, warn, crit) for measure in Measure}
        return cls({name: found for name, found in limits.items() if found.warn or found.crit})


def _limits(measure: Measure, warn: Mapping[str, str], crit: Mapping[str, str]) -> Limits:
    limits = Limits(
        _range(measure, warn.get(measure, DEFAULT_WARN.get(measure))),
        _range(measure, crit.get(measure, DEFAULT_CRIT.get(measure))),
        given=measure in warn or measure in crit,
    )
    if measure in warn and limits.warn and limits.crit and limits.crit.hides(limits.warn):
        raise ConfigError(
            f"{measure}: warning {limits.warn} is within critical {limits.crit}, so WARNING could"
            " never be reached; set them the other way round"
        )
    return limits


def _range(measure: Measure, text: str | None) -> Range | None:
    if text is None:
        return None
    bare = measure is Measure.RETENTION_ETA and not {":", "@"} & set(text)
    try:
        found = Range.parse(text + ":" if bare else text, duration=MEASURES[measure].duration)
    except ConfigError as error:
        raise ConfigError(f"{measure}: {error}") from error
    return None if found.never else found


NO_THRESHOLDS = Thresholds({})
