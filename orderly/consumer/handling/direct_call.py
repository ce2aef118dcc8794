"""One message that an administrator wants consumed, waiting for its lane's turn."""

from __future__ import annotations

from concurrent.futures import Future

from orderly.consumer.handling.calling import Called
from orderly.consumer.handling.errand import CallHandler, Steps
from orderly.model import ReceivedMessage


class DirectCall:
    """Thread-safe.

    Args:
        message: to hand to the handler.
    """

    def __init__(self, message: ReceivedMessage) -> None:
        self.message = message
        self._called: Future[Called] = Future()

    def steps(self) -> Steps:
        """Have it handled, unless nobody waits for it any more."""
        if self._called.set_running_or_notify_cancel():
            called = yield CallHandler((self.message,))
            self._called.set_result(called)

    def wait(self, seconds: float) -> Called:
        """Wait for the answer.

        Raises:
            TimeoutError: it did not come to its turn; it will not run later either.
        """
        try:
            return self._called.result(seconds)
        except TimeoutError:
            self._called.cancel()
            raise
