"""Where a history lies: `dt=2026-11-21/snapshots-….parquet`, and the file that still grows. Pure.

Spark, pandas and others leave out names that begin with `_`: they see finished files alone, which
never change. The growing one is whole at any moment, too: it is only ever replaced.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

_DAY = "dt="
_FINISHED, _GROWING, _PART = "snapshots-", "_growing-", "_part-"
_SUFFIX = ".parquet"


def day_of(at: float) -> date:
    """The day of a moment, in UTC; `at` in seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC).date()


def folder_of(directory: Path, day: date) -> Path:
    """The folder of a day."""
    return directory / f"{_DAY}{day.isoformat()}"


def growing_name(at: float, token: str) -> str:
    """The name of a file that grows, from its first snapshot's time.

    Args:
        at: seconds since the epoch.
        token: tells two files of one moment apart.
    """
    stamp = datetime.fromtimestamp(at, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{_GROWING}{stamp}-{token}{_SUFFIX}"


def finished(growing: Path) -> Path:
    """What a growing file is called once it no longer grows."""
    return growing.with_name(_FINISHED + growing.name.removeprefix(_GROWING))


def part(growing: Path) -> Path:
    """Where the next state of a growing file is written before it takes the file's place."""
    return growing.with_name(_PART + growing.name)


def growing_files(directory: Path) -> list[Path]:
    """Files that grow, or did when their recorder died; sorted."""
    return sorted(directory.glob(f"{_DAY}*/{_GROWING}*{_SUFFIX}"))


def part_files(directory: Path) -> list[Path]:
    """What a recorder that died in the middle of writing has left behind."""
    return list(directory.glob(f"{_DAY}*/{_PART}*"))


def finished_files(folder: Path) -> list[Path]:
    """The finished files of a day, sorted."""
    return sorted(folder.glob(f"{_FINISHED}*{_SUFFIX}"))


def days(directory: Path) -> dict[date, Path]:
    """The folders of days, by day, sorted; others are not ours."""
    found = {}
    for folder in sorted(directory.glob(f"{_DAY}*")):
        try:
            found[date.fromisoformat(folder.name.removeprefix(_DAY))] = folder
        except ValueError:
            continue
    return found


def expired(known: dict[date, Path], now: float, keep: float) -> list[Path]:
    """Folders of days that ended more than `keep` seconds before `now`."""
    oldest = day_of(now - keep)
    return [folder for day, folder in known.items() if day + timedelta(days=1) <= oldest]
