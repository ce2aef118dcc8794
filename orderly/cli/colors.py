"""Whether to colour what is printed: `--color`, NO_COLOR (no-color.org), TERM=dumb. Pure."""

from __future__ import annotations

from collections.abc import Mapping

CHOICES = ("auto", "always", "never")


def wanted(choice: str, env: Mapping[str, str], *, terminal: bool) -> bool:
    """Decide on colours.

    Args:
        choice: "always", "never", or "auto": on a terminal that can, unless NO_COLOR is set.
        env: the environment.
        terminal: whether the output is one.
    """
    if choice != "auto":
        return choice == "always"
    return terminal and not env.get("NO_COLOR") and can_draw(env)


def can_draw(env: Mapping[str, str]) -> bool:
    """Whether a terminal takes escape sequences."""
    return env.get("TERM", "") != "dumb"
