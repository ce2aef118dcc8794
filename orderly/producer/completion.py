"""Telling the futures: on whatever thread the news came, once each, and nobody can stop it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from orderly.errors import LifecycleError, OrderlyError
from orderly.log import get_logger
from orderly.model import SendResult
from orderly.producer.pending import PendingSend
from orderly.redaction import places

_log = get_logger("orderly.producer")
_telling = threading.local()


def succeed(entries: Iterable[tuple[PendingSend, SendResult]], *, first_time: bool) -> None:
    """Complete futures with their results.

    Args:
        entries: with their results.
        first_time: False: some may have been told already, or given up; they stay as they are.
    """
    for entry, result in entries:
        if first_time or not entry.future.done():
            _tell(entry, result)


def fail(failed: Iterable[tuple[PendingSend, OrderlyError]]) -> None:
    """Complete futures with errors; those cancelled in the meantime stay cancelled."""
    for entry, error in failed:
        if entry.claim():
            _tell(entry, error)


def in_callback() -> bool:
    """Whether this thread is running callbacks of futures: it must not wait for others."""
    return getattr(_telling, "active", False)


def refuse_in_callback(method: str) -> None:
    """Refuse a call that would wait, on the thread whose work it would wait for.

    Raises:
        LifecycleError: called from a future's callback.
    """
    if in_callback():
        raise LifecycleError(
            f"{method}() inside a future's callback would wait for the thread it runs on; use"
            " submit() there, or hand the work to a thread of your own"
        )


def _tell(entry: PendingSend, outcome: SendResult | OrderlyError) -> None:
    outer, _telling.active = in_callback(), True
    try:
        if isinstance(outcome, SendResult):
            entry.future.set_result(outcome)
        else:
            entry.future.set_exception(outcome)
    except BaseException as error:  # noqa: BLE001 - futures catch Exception; a SystemExit from a
        # user's callback must neither end a reader thread nor leave the next futures waiting
        told = {"error": type(error).__name__, "stack": places(error)}  # its text may quote a key
        _log.error("send.callback_raised", message_id=entry.message_id, **told)
    finally:
        _telling.active = outer
