"""The check of a user's function that is to be called later."""

from __future__ import annotations

import inspect

from orderly.errors import ConfigError, NotAvailableYet


def check_function(what: str, function: object) -> None:
    """Raise ConfigError unless `function` can be called, NotAvailableYet if it is async.

    Args:
        what: what it is, for the error: "the handler".
        function: the user's.
    """
    if not callable(function):
        raise ConfigError(f"{what} must be callable, not {type(function).__name__}")
    call = getattr(function, "__call__", None)  # noqa: B004 - an instance may have an async one
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise NotAvailableYet(f"{what} is async; that is not available yet, pass a plain function")
