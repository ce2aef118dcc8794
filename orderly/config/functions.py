"""The checks of a user's function that is to be called later, or was cancelled."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from orderly.errors import ConfigError, NotAvailableYet


def check_callable(what: str, function: object) -> None:
    """Raise ConfigError unless `function` can be called.

    Args:
        what: what it is, for the error: "the handler".
        function: the user's; plain or async.
    """
    if not callable(function):
        raise ConfigError(f"{what} must be callable, not {type(function).__name__}")


def check_function(what: str, function: object) -> None:
    """Raise ConfigError unless `function` can be called, NotAvailableYet if it is async.

    Args:
        what: what it is, for the error: "the listener's function".
        function: the user's.
    """
    check_callable(what, function)
    if is_async(function):
        raise NotAvailableYet(f"{what} is async; that is not available yet, pass a plain function")


def check_arguments(what: str, function: Callable[..., object], *names: str) -> None:
    """Raise ConfigError if `function` cannot be called with as many arguments.

    Args:
        what: what it is, for the error: "the listener's function".
        function: the user's; plain or async.
        names: of what it is called with, for the error.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=False)
    except ValueError:  # made in C, some tell nothing
        return
    try:
        signature.bind(*names)
    except TypeError as error:
        raise ConfigError(
            f"{what} is called with ({', '.join(names)}), but takes {signature}; a method must be"
            " bound to its object"
        ) from error


def is_async(function: object) -> bool:
    """True for an `async def`, and for an object whose `__call__` is one."""
    call = getattr(function, "__call__", None)  # noqa: B004 - not whether, but how it is called
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def asked_to_stop() -> bool:
    """Whether a CancelledError is meant for the running task, not for what it awaited."""
    import asyncio  # noqa: PLC0415 - who asks has it; a cold start of the CLI needs none

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
