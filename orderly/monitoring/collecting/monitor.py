"""The monitor: a thread that scans a cluster again and again, and holds the last snapshot."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, final

from orderly.client.background import Periodic
from orderly.errors import OrderlyError
from orderly.log import get_logger
from orderly.monitoring.backlog.snapshot import Snapshot
from orderly.monitoring.collecting.scan import Collector
from orderly.monitoring.collecting.survey import AddsDetails, Observer

if TYPE_CHECKING:
    from orderly.monitoring.backlog.evaluate import Backlog, Point

_log = get_logger("orderly.monitoring")
_INTERVAL = 15.0  # seconds


@dataclass(frozen=True, slots=True)
class MonitorStatus:
    """How the monitor itself is doing.

    Attributes:
        scans: scans that succeeded since the start.
        failures: scans that failed as a whole.
        last_success: when the last one that succeeded ended, seconds since the epoch.
        last_error: why the last scan failed; None: it succeeded.
        running: between `start` and `close`.
    """

    scans: int = 0
    failures: int = 0
    last_success: float | None = None
    last_error: str | None = None
    running: bool = False


@final
class Monitor:
    """Scans every `interval` seconds, on a thread of its own. Thread-safe.

    A scan that fails (no name server answers) leaves the last snapshot as it is: see `status`.

    Args:
        collector: from now on used only by this monitor.
        backlog: judges the scans; used only by this monitor.
        details: asks about groups; None: offsets only.
        interval: seconds from the start of one scan to the start of the next.
        taken: called once with each new snapshot, on the monitor's thread.
    """

    def __init__(
        self,
        collector: Collector,
        backlog: Backlog,
        details: AddsDetails | None = None,
        *,
        interval: float = _INTERVAL,
        taken: Callable[[Snapshot], object] | None = None,
    ) -> None:
        self.interval = interval
        self._observer = Observer(collector, details)
        self._patience = collector.settings.deadline
        self._backlog = backlog
        self._taken = taken
        self._judging = threading.Lock()
        self._status_lock = threading.Lock()
        self._latest: Snapshot | None = None
        self._status = MonitorStatus()
        self._thread = Periodic("monitor", interval, self._round)

    def start(self) -> Self:
        """Begin to scan, at once.

        Raises:
            LifecycleError: started before, or closed.
        """
        self._thread.start()
        self._change_status(running=True)
        return self

    def close(self) -> None:
        """End scanning; a scan in progress ends by its deadline. Idempotent."""
        self._thread.stop(timeout=self._patience)
        self._change_status(running=False)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def latest(self) -> Snapshot | None:
        """The last snapshot; None before the first scan has succeeded."""
        return self._latest

    def status(self) -> MonitorStatus:
        """How the monitor itself is doing."""
        return self._status

    def history(self, group: str, topic: str | None = None) -> Sequence[Point]:
        """The backlog of a group, or of a topic in it, in the last scans; the oldest first."""
        with self._judging:
            return self._backlog.history(group, topic)

    def _round(self) -> None:
        try:
            snapshot = self._look()
        except Exception as error:  # noqa: BLE001 - the next scan can succeed
            self._failed(error)
            return
        _log_changes(self._latest, snapshot)
        self._latest = snapshot
        self._change_status(scans=self._status.scans + 1, last_success=time.time(), last_error=None)
        if self._taken is not None:
            self._taken(snapshot)

    def _look(self) -> Snapshot:
        scan = self._observer.look(self._latest)
        with self._judging:
            return self._backlog.take(scan)

    def _failed(self, error: Exception) -> None:
        """Warn once for each time it begins to fail, not at every scan."""
        emit = _log.warning if self._status.last_error is None else _log.debug
        emit("scan.failed", error=str(error), exc_info=not isinstance(error, OrderlyError))
        text = str(error) or repr(error)
        self._change_status(failures=self._status.failures + 1, last_error=text)

    def _change_status(self, **changes: Any) -> None:
        """Change the status: `start` and `close` do it while the thread does."""
        with self._status_lock:
            self._status = replace(self._status, **changes)


def _log_changes(last: Snapshot | None, now: Snapshot) -> None:
    """Log brokers that fell silent or answer again, once for each time."""
    for name, broker in now.brokers.items():
        before = last.brokers.get(name) if last else None
        was = before.error if before else None
        if broker.error is not None and was is None:
            _log.warning("broker.not_measured", broker=name, error=broker.error)
        elif broker.error is None and was is not None:
            _log.info("broker.measured_again", broker=name)
