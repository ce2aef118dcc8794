"""The settings of the groups at one broker, which makes a group when it first hears of it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from orderly.protocol.group_config import GroupConfig

NAME = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)
MAX_GROUP = 120  # characters


class Groups:
    """Settings by group; they outlive a restart. Not thread-safe."""

    def __init__(self) -> None:
        self._configs: dict[str, GroupConfig] = {}
        self._changes = 0

    def __contains__(self, name: str) -> bool:
        return name in self._configs

    @property
    def version(self) -> Mapping[str, int]:
        """Changes with everything in the table (DataVersion)."""
        return {"counter": self._changes, "stateVersion": 0, "timestamp": 0}

    def all(self) -> list[GroupConfig]:
        """All groups."""
        return list(self._configs.values())

    def find(self, name: str, *, create: bool) -> GroupConfig | None:
        """A group's settings; `create`: made by default if it has a possible name."""
        config = self._configs.get(name)
        if config is None and create and is_group_name(name):
            config = GroupConfig(name=name)
            self.put(config)
        return config

    def put(self, config: GroupConfig) -> None:
        """Create a group, or replace its settings."""
        self._configs[config.name] = config
        self._changes += 1

    def remove(self, name: str) -> None:
        """Delete a group, if it is there."""
        if self._configs.pop(name, None) is not None:
            self._changes += 1


def is_group_name(name: str) -> bool:
    """Whether a group may have that name (TopicValidator.validateGroup)."""
    return len(name) <= MAX_GROUP and NAME.fullmatch(name) is not None
