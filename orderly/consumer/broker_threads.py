"""What is to be done at several brokers, side by side: one that hangs holds up nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from orderly.client.background import report_defect

PATIENCE = 0.5  # seconds; most brokers have answered all of a step by then


class BrokerThreads:
    """Runs steps, each on a thread of its own, one at a time for each broker. Thread-safe.

    Args:
        name: the threads are called "orderly-<name>-<broker>".
        late: called after a step that ended when nobody waited for it any more.
    """

    def __init__(self, name: str, late: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._late = late
        self._changed = threading.Condition()
        self._running: dict[str, bool] = {}  # broker: nobody waits for the step any more

    def run(self, steps: Mapping[str, Callable[[], None]], patience: float | None = None) -> None:
        """Begin the steps, and wait for them, but not for long; where one still runs none begins.

        Args:
            steps: by broker; none raises.
            patience: seconds to wait; None: `PATIENCE`. Those that take longer go on.
        """
        with self._changed:
            mine = steps.keys() - self._running.keys()
            self._running.update(dict.fromkeys(mine, False))
        for broker in sorted(mine):
            self._begin(broker, steps[broker])
        with self._changed:
            self._changed.wait_for(
                lambda: mine.isdisjoint(self._running), PATIENCE if patience is None else patience
            )
            self._running.update(dict.fromkeys(mine & self._running.keys(), True))

    def wait(self, seconds: float) -> bool:
        """Wait until no step runs, at most so long; returns whether none does."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)

    def _begin(self, broker: str, step: Callable[[], None]) -> None:
        name = f"orderly-{self._name}-{broker}"
        thread = threading.Thread(target=self._work, args=(broker, step), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads: one after the other, then
            self._work(broker, step)

    def _work(self, broker: str, step: Callable[[], None]) -> None:
        try:
            step()
        except BaseException as error:  # noqa: BLE001 - a defect must not keep the broker busy
            report_defect(f"{self._name}-{broker}", error)
        with self._changed:
            late = self._running.pop(broker)
            self._changed.notify_all()
        if late:
            self._late()
