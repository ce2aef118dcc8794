"""What a consumer and its worker processes say to each other: one pickled value a time.

To the worker: WorkerCall, OwnershipNews, Extended. From it: ExtensionAsked, Answered.

Pickle is no unsafe deserialisation here. Both ends are the user's own program under the same
user; the pipe is an inherited socket pair without a name that nobody else can open; and the
worker runs the user's code anyway. What came over the network travels inside as bytes and text,
which pickle copies and never interprets.
"""

from __future__ import annotations

import os
import pickle
import traceback
from dataclasses import dataclass, fields
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
