"""Finding an option by the name that a user, or Spark, gave it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from orderly.errors import ConfigError
from orderly.spark.options.table import Option

_SECRET = re.compile("secret|password|token|access_?key", re.IGNORECASE)


def find(name: str, options: Iterable[Option]) -> Option:
    """The option of that name, in upper or lower case.

    Args:
        name: as given.
        options: those that there are.

    Raises:
        ConfigError: there is none; the text names the one that was probably meant.
    """
    known = {option.name.lower(): option for option in options}
    found = known.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), known, n=1)
        raise ConfigError(_unknown(name, [known[key].name for key in near], known.values()))
    return found


def _unknown(name: str, near: list[str], options: Iterable[Option]) -> str:
    if _SECRET.search(name):
        return (
            f"{name} is no option: options end up in plans, logs and checkpoints. Put secrets into"
            " the file that settingsFile names, or into the environment (ORDERLY_ACCESS_KEY, …)"
        )
    if name.lower() == "path":
        return "there is nothing at a path here: name the topic, as in option('topic', 'orders')"
    if near:
        return f"there is no option {name}; did you mean {near[0]}?"
    return f"there is no option {name}; there are {', '.join(option.name for option in options)}"
