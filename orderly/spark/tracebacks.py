"""Errors as users of Spark see them: Spark prints the whole traceback, so ours is one step long."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from orderly.errors import OrderlyError
from orderly.log import get_logger

P = ParamSpec("P")
R = TypeVar("R")
_log = get_logger("orderly.spark")


def short_traceback(entry: Callable[P, R]) -> Callable[P, R]:
    """Wrap what Spark calls: an error of ours is raised again, without the way it came.

    Its text says what is wrong and what to do, and Spark puts it behind the traceback, with its
    causes, one a line. Any other error is a defect and keeps all.
    """

    @wraps(entry)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return entry(*args, **kwargs)
        except OrderlyError as error:
            raise shortened(error) from None

    return call


def shortened(error: OrderlyError) -> OrderlyError:
    """The error without the way it came, to be raised `from None`; causes become its notes."""
    _log.debug("spark.failed", exc_info=error)
    told, cause = str(error), error.__cause__
    while cause is not None:
        if str(cause) not in told:
            error.add_note(f"caused by {type(cause).__name__}: {cause}")
            told += str(cause)
        cause = cause.__cause__
    return error.with_traceback(None)
