"""One message that an administrator wants consumed, waiting for its lane's turn."""

from __future__ import annotations

from concurrent.futures import Future

from orderly.consumer.handling.calling import Called
from orderly.model import ReceivedMessage


class DirectCall:
    """Thread-safe.

    Args:
        message: to hand to the handler.
    """

    def __init__(self, message: ReceivedMessage) -> None:
        self.message = message
        self._called: Future[Called] = Future()

    @property
    def wanted(self) -> bool:
        """Whether to run it now; False: nobody waits for it any more. Ask once."""
        return self._called.set_running_or_notify_cancel()

    def answer(self, called: Called) -> None:
        """Say what came of it."""
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
