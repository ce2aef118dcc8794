"""What a listener's function is told of a call that came through librocketmq."""

from __future__ import annotations

from orderly.errors import UnsupportedByDriver
from orderly.ordering.context import ConsumeContext, Lost


def refusal(what: str) -> UnsupportedByDriver:
    """Return the error that says that the native driver has no `what`, and who has."""
    return UnsupportedByDriver(
        f"librocketmq has no {what}: use orderly.OrderlyConsumer, which speaks to the brokers"
        " itself (docs/how-to/native.md)"
    )


class NativeContext(ConsumeContext):
    """A ConsumeContext that knows nothing of the queue's lock: that is in the library's hands."""

    __slots__ = ()

    @property
    def deadline(self) -> float:
        """Not to be had: raises UnsupportedByDriver."""
        raise refusal("deadline of a queue's lock")

    @property
    def lost(self) -> Lost:
        """Not to be had: raises UnsupportedByDriver."""
        raise refusal("word of a lost lock")

    def extend(self) -> float:
        """Not to be had: raises UnsupportedByDriver."""
        raise refusal("renewing of a lock by hand")
