"""Several options that belong together, given to a command as one argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
Options = Sequence[Callable[[Any], Any]]


def with_options(command: F, options: Options) -> F:
    """Add options, in the order in which help shows them."""
    for option in reversed(options):
        command = option(command)
    return command


def gathered(
    command: F, options: Options, names: Sequence[str], make: Callable[..., Any], argument: str
) -> F:
    """Add options whose values the command gets as one.

    Args:
        command: a function.
        options: to add.
        names: of their parameters.
        make: gets the values, in the order of `names`.
        argument: of the command, gets what `make` returns.
    """

    @wraps(with_options(command, options))
    def call(*args: Any, **values: Any) -> Any:
        together = make(*[values.pop(name) for name in names])
        return command(*args, **values, **{argument: together})

    return call  # type: ignore[return-value]
