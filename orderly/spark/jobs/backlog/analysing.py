"""All that is found in one series, as one row: what a worker does with a queue, or a group. Pure.

Arrow goes in and comes out; periods are lists in the row, so one pass over the history finds all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import pyarrow as pa

from orderly.spark.jobs.backlog.figures import Figures, figures
from orderly.spark.jobs.backlog.periods import Gap, Incident, Stuck, gaps, incidents, standstills
from orderly.spark.jobs.backlog.series import Floats, Series

TIME = pa.timestamp("us", tz="UTC")
KEY = pa.schema(
    [
        ("level", pa.string()),  # "group" or "queue"
        ("group", pa.string()),
        ("topic", pa.string()),  # "" for a group, as is the broker; the queue is -1
        ("broker", pa.string()),
        ("queue_id", pa.int32()),
    ]
)
_ARROW: dict[str, pa.DataType] = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "Ended": pa.string(),
}
_TIMES = {"begin", "end", "most_at", "worst_at"}


def _struct(record: type) -> list[pa.Field]:
    """The fields of a dataclass, with times as timestamps."""
    return [
        pa.field(
            field.name,
            TIME if field.name in _TIMES else _ARROW[str(field.type).removesuffix(" | None")],
        )
        for field in fields(record)
    ]


PERIODS = {"incidents": Incident, "stuck": Stuck, "gaps": Gap}
FOUND = pa.schema(
    [
        *KEY,
        *_struct(Figures),
        pa.field("breached_seconds", pa.float64()),
        pa.field("stuck_seconds", pa.float64()),
        *(pa.field(name, pa.list_(pa.struct(_struct(of)))) for name, of in PERIODS.items()),
    ]
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What is looked for: as in `BacklogSettings`."""

    limits: Mapping[str, float]
    join: float
    stuck_after: float


def analysed(table: pa.Table, rules: Rules) -> pa.Table:
    """The findings of one series.

    Args:
        table: its samples, in any order: KEY (the same in all rows), the columns of `Series`.
        rules: what is looked for.

    Returns:
        One row of FOUND.
    """
    series = series_of(table)
    broken = [
        each
        for measure, limit in rules.limits.items()
        for each in incidents(series, measure, limit, rules.join)
    ]
    stuck = standstills(series, rules.stuck_after)
    row: dict[str, Any] = {name: table[name][0].as_py() for name in KEY.names}
    row |= _plain(figures(series))
    row |= {
        "breached_seconds": covered((each.begin, each.end) for each in broken),
        "stuck_seconds": covered((each.begin, each.end) for each in stuck),
        "incidents": _records(broken),
        "stuck": _records(stuck),
        "gaps": _records(gaps(series)),
    }
    return pa.Table.from_pylist([row], FOUND)


def series_of(table: pa.Table) -> Series:
    """The samples, sorted by time."""
    table = table.sort_by("at")
    columns: dict[str, Any] = {
        name: _floats(table[name])
        for name in ("at", "interval", "backlog", "head_age", "committed", "maximum", "counted")
    }
    columns |= {name: _floats(table[name]).astype(np.bool_) for name in ("whole", "aged")}
    return Series(**columns)


def _floats(column: pa.ChunkedArray) -> Floats:
    floats: Floats = column.cast(pa.float64(), safe=False).to_numpy()  # null becomes nan
    return floats


def covered(periods: Iterable[tuple[float, float]]) -> float:
    """Seconds that lie in at least one period."""
    seconds, until = 0.0, float("-inf")
    for begin, end in sorted(periods):
        seconds += max(0.0, end - max(begin, until))
        until = max(until, end)
    return seconds


def _records(found: Sequence[Any]) -> list[dict[str, Any]]:
    return [_plain(each) for each in found]


def _plain(record: Any) -> dict[str, Any]:
    values = asdict(record)
    for name in _TIMES & values.keys():
        if values[name] is not None:
            values[name] = round(values[name] * 1e6)
    return values
