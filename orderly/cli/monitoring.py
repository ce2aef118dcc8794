"""A monitor that runs until somebody ends it: what the exporter and the recorder have in common."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from orderly.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from orderly.client import Client
    from orderly.monitoring.backlog.snapshot import Snapshot
    from orderly.monitoring.collecting.monitor import Monitor
    from orderly.monitoring.collecting.selection import Selection
    from orderly.monitoring.recording.recorder import Recorder

_LOOK = 0.2  # seconds


def monitor_of(
    client: Client, selection: Selection, interval: float, taken: Callable[[Snapshot], None]
) -> Monitor:
    """A monitor with all details; enter it to start it.

    Args:
        client: to ask with; stays open as long as the monitor runs.
        selection: of what.
        interval: seconds from scan to scan.
        taken: is given each snapshot.
    """
    from orderly.monitoring.backlog.evaluate import Backlog  # noqa: PLC0415 - `--help` is quick
    from orderly.monitoring.collecting.details import Details  # noqa: PLC0415
    from orderly.monitoring.collecting.monitor import Monitor  # noqa: PLC0415
    from orderly.monitoring.collecting.scan import Collector  # noqa: PLC0415

    collector = Collector(client, selection)
    details = Details(collector.pipeline, asked=selection.named_groups)
    return Monitor(collector, Backlog(), details, interval=interval, taken=taken)


def recorder_of(directory: Path, interval: float, keep: float | None) -> Recorder:
    """What writes snapshots to a directory.

    Raises:
        ConfigError: it cannot, or pyarrow is not installed.
    """
    try:
        from orderly.monitoring.recording.recorder import Recorder  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError(
            f"recording needs {error.name}: pip install 'rocketmq-orderly[spark]'"
        ) from error
    return Recorder(directory, interval=interval, keep=keep)


def told_to_end() -> Callable[[], None]:
    """Have SIGTERM and ^C leave a note; returns what waits for one, in the main thread.

    They do no more, for they may interrupt a lock's holder. The wait looks again and again: Python
    runs a signal's handler between two steps of the main thread, so one that comes right before a
    wait without end would not end it.
    """
    notes: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: notes.append(received))

    def wait() -> None:
        while not notes:
            time.sleep(_LOOK)

    return wait
