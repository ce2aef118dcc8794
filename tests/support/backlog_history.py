"""A history of backlogs, made by hand: known breaches, standstills and gaps, for those who look."""

from datetime import UTC, datetime
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from orderly.monitoring.recording.names import day_of, folder_of
from orderly.monitoring.recording.rows import SCHEMA

MONDAY = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
EVERY = 60.0
USUAL = 5  # messages behind
FLOW = 10  # messages between two scans


class MadeHistory:
    """Queues that are fine at every minute, until somebody says otherwise.

    Args:
        queues: how many of topic "orders" each group has.
        minutes: how long.
    """

    def __init__(self, queues, minutes):
        self.minutes = minutes
        self.rows = {
            (group, queue, minute): self._fine(group, queue, minute)
            for group, count in queues.items()
            for queue in range(count)
            for minute in range(minutes)
        }

    def _fine(self, group, queue, minute):
        return {
            "at": self.time(minute), "interval": EVERY, "group": group, "topic": "orders",
            "broker": "broker-a", "queue_id": queue, "state": "OK", "min_offset": 0,
            "committed": 1000 + FLOW * minute, "max_offset": 1000 + FLOW * minute + USUAL,
            "backlog": USUAL, "head_age": 1.0, "in_rate": FLOW / EVERY, "out_rate": FLOW / EVERY,
            "owner": "client-1", "parked": 0, "dead": 0,
        }  # fmt: skip

    def time(self, minute):
        return datetime.fromtimestamp(MONDAY + EVERY * minute, UTC)

    def change(self, group, queue, minutes, **fields):
        """Say otherwise, of some minutes; a list gives each its own value."""
        for place, minute in enumerate(minutes):
            for name, value in fields.items():
                now = value[place] if isinstance(value, list) else value
                self.rows[group, queue, minute][name] = now

    def stop(self, group, queue, minutes):
        """Nothing is committed in these minutes, and made good at once afterwards."""
        first = 1000 + FLOW * minutes[0]
        behind = [USUAL + FLOW * place for place in range(len(minutes))]
        self.change(group, queue, minutes, committed=first, backlog=behind)

    def forget(self, minutes):
        """Nobody scanned in these minutes."""
        gone = set(minutes)
        self.rows = {key: row for key, row in self.rows.items() if key[2] not in gone}

    def hide(self, group, queue, minutes):
        """This queue could not be read."""
        unknown = dict.fromkeys(("min_offset", "committed", "max_offset", "backlog", "head_age"))
        self.change(group, queue, minutes, state="UNKNOWN", **unknown)

    def write(self, directory):
        """Write it as a recorder leaves it, a file a day."""
        rows = sorted(self.rows.values(), key=lambda row: row["at"])
        for day, same in groupby(rows, key=lambda row: day_of(row["at"].timestamp())):
            folder = folder_of(directory, day)
            folder.mkdir(parents=True)
            table = pa.Table.from_pylist(list(same), SCHEMA)
            pq.write_table(table, folder / "snapshots-made.parquet")
