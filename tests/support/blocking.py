"""A handler that runs for as long as a test wants."""

import threading

from orderly import ConsumeResult

_PATIENCE = 60.0


class Blocking:
    """An `act` for a Recorder that does not return before `release`; `running`: queues held up.

    Leaving its `with` block releases it, too.

    Args:
        act: says the answer then, and at once ever after; None: SUCCESS.
        at: only the message of this number holds it up; None: whatever comes.
    """

    def __init__(self, act=None, at=None):
        self._act = act
        self._at = at
        self._released = threading.Event()
        self.running = set()

    def __call__(self, messages, context):
        if self._at is None or int(messages[0].body) == self._at:
            self.running.add(context.message_queue)
            assert self._released.wait(_PATIENCE), "nobody released the handler"
            self.running.discard(context.message_queue)
        return self._act(messages, context) if self._act else ConsumeResult.SUCCESS

    def release(self):
        self._released.set()

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.release()
