"""Which groups and topics a scan is about: names or patterns, over the brokers' own names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache

from orderly.errors import ConfigError
from orderly.monitoring.collecting.names import is_system_group, is_system_topic

_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of groups and topics; names are compared as the brokers have them.

    Attributes:
        groups, topics: globs, of which one must fit; none: all.
        regex: they are regular expressions instead, which must fit a whole name.
        system: RocketMQ's own groups and topics, too, if they fit.

    Raises:
        ConfigError: not a regular expression.
    """

    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    regex: bool = False
    system: bool = False

    def __post_init__(self) -> None:
        for pattern in (*self.groups, *self.topics):
            _compiled(pattern, self.regex)

    def group(self, name: str) -> bool:
        """Whether a group is chosen."""
        return self._fits(name, self.groups) and (self.system or not is_system_group(name))

    def topic(self, name: str) -> bool:
        """Whether a topic is chosen."""
        return self._fits(name, self.topics) and (self.system or not is_system_topic(name))

    @property
    def named_groups(self) -> tuple[str, ...]:
        """The groups that are given by their name."""
        return self._named(self.groups)

    @property
    def only_named(self) -> bool:
        """Whether no group can be chosen but by its name."""
        return bool(self.groups) and len(self.named_groups) == len(self.groups)

    @property
    def named_topics(self) -> tuple[str, ...]:
        """The topics that are given by their name."""
        return self._named(self.topics)

    def _fits(self, name: str, patterns: Sequence[str]) -> bool:
        return not patterns or any(_compiled(p, self.regex).fullmatch(name) for p in patterns)

    def _named(self, patterns: Sequence[str]) -> tuple[str, ...]:
        return () if self.regex else tuple(p for p in patterns if not _WILD.search(p))


EVERYTHING = Selection()


@cache
def _compiled(pattern: str, regex: bool) -> re.Pattern[str]:
    try:
        return re.compile(pattern if regex else translate(pattern))
    except re.error as error:
        raise ConfigError(
            f"{pattern!r} is not a regular expression: {error}; leave out -r to give a glob"
        ) from error
