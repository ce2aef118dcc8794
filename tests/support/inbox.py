"""Collects what other threads report."""

import threading

SOON = 30.0  # a deadline for what takes milliseconds


class Inbox:
    """A callback that keeps what it is given; `wait` blocks until there is enough."""

    def __init__(self):
        self.items = []
        self._changed = threading.Condition()

    def __call__(self, item):
        with self._changed:
            self.items.append(item)
            self._changed.notify_all()

    def wait(self, count=1):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.items) >= count, SOON), self.items
        return self.items

    def one(self):
        (item,) = self.wait()
        return item
