"""The promise every decoder keeps: a value or ProtocolError, soon, and in bounded memory."""

import signal
import tracemalloc
from dataclasses import dataclass

from orderly.errors import ProtocolError

CPU_SECONDS = 2.0  # a case may take; inputs have at most some 100 KiB
BYTES_PER_BYTE = 100  # memory a byte of input may need; `{},` of JSON makes an object of 3 bytes
_FIXED = 1 << 20  # bytes any case may need


class TookTooLong(BaseException):
    """Raised inside a decoder that is over its time; no decoder may catch it."""


@dataclass(frozen=True)
class Violation:
    """A broken promise: which decoder, with what, and how."""

    target: str
    data: bytes
    what: str


def judge(name, target, data, *, measured=False):
    """Decode `data`; returns the Violation, or None.

    Args:
        name: the target's.
        target: a Target.
        data: the input.
        measured: whether memory is measured, which takes several times as long.
    """
    if measured:
        tracemalloc.start()
    try:
        what = _decode(target.decode, data)
        peak = tracemalloc.get_traced_memory()[1] if measured else 0
    finally:
        if measured:
            tracemalloc.stop()
    bound = BYTES_PER_BYTE * len(data) + _FIXED + target.extra
    if what is None and peak > bound:
        what = f"{peak} bytes of memory for {len(data)} of input; at most {bound} are allowed"
    return None if what is None else Violation(name, data, what)


def _decode(decode, data):
    before = signal.signal(signal.SIGPROF, _stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        try:
            decode(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except ProtocolError:
        return None
    except TookTooLong:
        return f"more than {CPU_SECONDS} s of CPU time"
    except Exception as error:  # anything but ProtocolError is the finding
        return f"{type(error).__name__}: {error}"[:300]
    finally:
        signal.signal(signal.SIGPROF, before)
    return None


def _stop(signum, frame):
    raise TookTooLong
