"""What a consumer and its worker processes say to each other: one pickled value a time.

To the worker: WorkerCall, OwnershipNews, Extended. From it: ExtensionAsked, Answered. Beside that
go notes, a few bytes each, that a worker's death does not take with it.

Pickle is no unsafe deserialisation here. Both ends are the user's own program under the same
user; the pipe is an inherited socket pair without a name that nobody else can open; and the
worker runs the user's code anyway. What came over the network travels inside as bytes and text,
which pickle copies and never interprets.
"""

from __future__ import annotations

import os
import pickle
import struct
import traceback
from contextlib import suppress
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from typing import Any

from orderly.errors import NotPicklable
from orderly.model import ReceivedMessage
from orderly.ordering.context import ConsumeContext

ContextFields = dict[str, Any]

_FIELDS = fields(ConsumeContext)
SENT = tuple(f.name for f in _FIELDS if f.name != "ownership")
"""Fields of a context that go to the worker."""
SET_BY_HANDLER = tuple(f.name for f in _FIELDS if not f.init or f.name == "auto_commit")
"""Fields that come back from it."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A value, or an error to raise, that the other process may be unable to load.

    Attributes:
        data: the pickled value or error.
        failed: it is an error.
        text: the error's traceback, which cannot be pickled itself.
    """

    data: bytes
    failed: bool = False
    text: str = ""

    def unpack(self) -> Any:
        """Return the value.

        Raises:
            BaseException: the error, with the other process's traceback as a note.
            NotPicklable: this process cannot load it.
        """
        try:
            value = pickle.loads(self.data)  # noqa: S301 - see the module's docstring
        except Exception as error:
            raise NotPicklable(
                f"cannot be loaded from its pickle: {error!r}\n{self.text}"
            ) from error
        if self.failed:
            value.add_note(self.text)
            raise value
        return value


def packed(value: object, what: str) -> Packed:
    """Return `value`, or the error that `what` it is cannot be pickled."""
    try:
        return Packed(pickle.dumps(value))
    except Exception as error:  # noqa: BLE001 - pickle runs code of the user's classes
        failure = NotPicklable(f"{what} ({type(value).__qualname__}) cannot be pickled: {error}")
        failure.__cause__ = error
        return packed_error(failure)


def packed_error(error: BaseException) -> Packed:
    """Return `error`, or if it cannot be pickled a NotPicklable that names it."""
    lines = traceback.format_exception(error)
    try:
        data = pickle.dumps(error)
    except Exception as why:  # noqa: BLE001 - pickle runs code of the user's classes
        data = pickle.dumps(NotPicklable(f"{lines[-1].strip()} (cannot be pickled: {why})"))
    return Packed(data, failed=True, text=f"In process {os.getpid()}:\n{''.join(lines)}")


@dataclass(frozen=True, slots=True)
class OwnershipNews:
    """How the consumer holds the queue. Times: CLOCK_BOOTTIME, which all processes share."""

    deadline: float
    lost: bool


@dataclass(frozen=True, slots=True)
class WorkerCall:
    """Call the handler. An answer repeats the number."""

    number: int
    messages: tuple[ReceivedMessage, ...]
    context: Packed
    token: int | None
    generation: int
    news: OwnershipNews


@dataclass(frozen=True, slots=True)
class ExtensionAsked:
    """The handler called `context.extend()`."""


@dataclass(frozen=True, slots=True)
class Extended:
    """What `context.extend()` gave in the consumer's process: a deadline or an error."""

    outcome: Packed


@dataclass(frozen=True, slots=True)
class Answered:
    """The call is over: what the handler returned or raised, and what it set in its context."""

    number: int
    outcome: Packed
    context: Packed


def state_of(context: ConsumeContext, names: tuple[str, ...]) -> ContextFields:
    """Return those fields' values."""
    return {name: getattr(context, name) for name in names}


def set_state(context: ConsumeContext, state: ContextFields) -> None:
    """Set the fields to those values."""
    for name, value in state.items():
        setattr(context, name, value)


# --- notes: what a worker has said must count even if it never answers ----------------------------
# They go through a pipe of their own, which keeps them when the worker dies. The parent reads them
# only then; a note costs the worker one system call, and the parent nothing.


_NOTE = struct.Struct("=IH")  # number of the call, modulo 2**32; place in its batch
_BEGUN = _NOTE.pack(0, 0)  # calls count from 1
_ALL = 65536  # bytes that may wait in a pipe


class NoteTaker:
    """The worker's end of the pipe.

    Args:
        pipe: to be written to.
    """

    def __init__(self, pipe: Connection) -> None:
        os.set_inheritable(pipe.fileno(), False)
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe

    def begun(self) -> None:
        """Note that calls can be run."""
        self._write(_BEGUN)

    def done(self, number: int, place: int) -> None:
        """Note that a message of a call, the first being 0, was named done."""
        self._write(_NOTE.pack(number % 2**32, place))

    def _write(self, note: bytes) -> None:
        with suppress(OSError):  # full, closed, or the parent is gone
            os.write(self._pipe.fileno(), note)


class Notes:
    """The parent's end.

    Args:
        pipe: to be read from.
    """

    def __init__(self, pipe: Connection) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe

    def last(self, number: int, begun: bool) -> tuple[bool, set[int]]:
        """Of a worker that died: whether it had begun, and the places named done in that call."""
        notes = self._read()
        at_end = len(notes) - len(notes) % _NOTE.size
        found = set(_NOTE.iter_unpack(notes[:at_end]))
        named = {place for of_call, place in found if of_call == number % 2**32}
        return begun or _NOTE.unpack(_BEGUN) in found, named

    def forget(self) -> None:
        """Throw away what was said, so that there is room for more."""
        self._read()

    def _read(self) -> bytes:
        with suppress(OSError):  # nothing waits
            return os.read(self._pipe.fileno(), _ALL)
        return b""
