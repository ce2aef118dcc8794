"""What failed, in errors and in the log: who was asked, for what, and what happened."""

from __future__ import annotations

from orderly.errors import (
    ConnectionLost,
    LifecycleError,
    ProtocolError,
    ReplyTooLarge,
    RequestTimeout,
)
from orderly.log import get_logger
from orderly.protocol.codes import RequestCode

_log = get_logger("orderly.remoting")


def connection_lost(address: str, code: int, cause: BaseException | None) -> ConnectionLost:
    """The error of one request that a connection's end left unanswered.

    A fresh one for each request: raised in several threads, one error would mix their tracebacks.
    """
    garbled = isinstance(cause, ProtocolError)
    reason = f"it sent bytes that break the protocol ({cause})" if garbled else str(cause)
    error = ConnectionLost(
        f"the connection to {address} was lost with {request_name(code)} unanswered: {reason}",
        address,
    )
    error.__cause__ = cause
    return error


def said_nothing(cause: BaseException, *, encrypted: bool) -> BaseException:
    """The cause of an end before the peer sent a byte: it may want to be spoken to otherwise."""
    if not isinstance(cause, ConnectionResetError | BrokenPipeError):
        return cause
    hint = (
        "a certificate of this client, set tls_cert_file and tls_key_file"
        if encrypted
        else "TLS, set tls=True (ORDERLY_TLS)"
    )
    return ConnectionResetError(f"{cause}, and had said nothing; if it demands {hint}")


def request_timed_out(address: str, code: int, timeout: float) -> RequestTimeout:
    """The error of a request that waited `timeout` seconds for its reply."""
    return RequestTimeout(
        f"{address} did not answer {request_name(code)} within {timeout:g} s;"
        " it may still execute the request",
        address,
    )


def reply_too_large(address: str, code: int, size: int, max_frame: int) -> ReplyTooLarge:
    """The error of a request whose reply was thrown away, as larger than `max_frame` bytes."""
    return ReplyTooLarge(
        f"{address} answered {request_name(code)} with {size} bytes, and max_frame is {max_frame}:"
        f" ask for less, or set ClientConfig.max_frame to {size} or more",
        address,
        size=size,
    )


def request_name(code: int) -> str:
    """Return the code with its name, if it has one here."""
    try:
        return f"{RequestCode(code).name} ({code})"
    except ValueError:
        return f"request {code}"


def log_end(address: str, cause: BaseException | None) -> None:
    """Say why a connection ended, as loud as that is unexpected."""
    fields = {"address": address, "cause": str(cause)}
    if isinstance(cause, LifecycleError):
        _log.debug("connection.closed", **fields)
    elif isinstance(cause, OSError):
        _log.info("connection.lost", **fields)
    else:
        _log.error("connection.given_up", **fields, exc_info=cause)


def log_failure(event: str, address: str, code: int, error: Exception) -> None:
    """Log the exception of a callback, in the clause that caught it."""
    _log.error(event, address=address, request=request_name(code), error=repr(error), exc_info=True)
