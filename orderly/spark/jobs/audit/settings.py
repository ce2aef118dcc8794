"""What an audit judges, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import ConfigError

_OWN_OPTIONS = ("emit", "seqProperty", "columns", "includeProperties", "pushdown")


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """What to judge, and how.

    Attributes:
        source: options of the source: namesrv, topic, startingOffsets, endingOffsets, tags, ….
        seq_property: the property with the event's number, which rises with each message of a
            key. "": the time of birth is judged, by the sender's clock.
        gaps: whether numbers count one by one in each key, so that one left out is a message
            missing. False for numbers that only rise: versions, times, offsets of elsewhere.
        look_at: suspects whose messages are looked at; of more keys only the summaries' counts
            count.
        look_at_messages: a suspect with more messages is not looked at: one task would have all of
            them in memory, about 300 bytes each.
        redact_keys: whether results show hashes instead of keys.

    Raises:
        ConfigError: an option of the source that is the audit's own.
    """

    source: Mapping[str, str]
    seq_property: str = ""
    gaps: bool = True
    look_at: int = 100_000
    look_at_messages: int = 1_000_000
    redact_keys: bool = False

    def __post_init__(self) -> None:
        ours = {name.lower() for name in _OWN_OPTIONS}
        taken = [name for name in self.source if name.lower() in ours]
        if taken:
            raise ConfigError(
                f"the audit sets {taken[0]} of the source itself: leave it out"
                " (the property with the numbers is seq_property)"
            )
        if self.look_at < 0:
            raise ConfigError("look_at must be 0 or more keys")

    @property
    def by_seq(self) -> bool:
        """Whether numbers are judged; else times of birth."""
        return bool(self.seq_property)

    @property
    def judges_gaps(self) -> bool:
        """Whether numbers left out are looked for; times of birth leave most out."""
        return self.gaps and self.by_seq

    def document(self) -> dict[str, Any]:
        """For `result.json`."""
        return {
            "source": dict(self.source),
            "seq_property": self.seq_property,
            "gaps": self.gaps,
            "look_at": self.look_at,
            "look_at_messages": self.look_at_messages,
            "redact_keys": self.redact_keys,
        }
