"""A broadcasting member's own offset file (Java: LocalFileOffsetStore).

The file is replaced whole, so it is the old one or the new one after a crash, and the one before
is kept as ".bak". What cannot be read is never taken for "nothing stored": that would skip or
repeat messages without anybody knowing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from orderly.client.broker import BrokerCalls
from orderly.client.dialogues import positions
from orderly.config.arguments import is_int
from orderly.durable_file import hold, sync_folder, synced
from orderly.errors import ConfigError, LifecycleError, OffsetFileError
from orderly.log import get_logger, where
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import (
    Call,
    HasOffsets,
    LockQueues,
    QueryOffset,
    SaveOffset,
    UnlockQueues,
)

_VERSION = 1

OffsetTable = dict[MessageQueue, int]


class _DamagedError(ValueError):
    """Not an offset file, or not a whole one."""


class LocalOffsets:
    """The next offset of each queue, for one member of a broadcasting group. Thread-safe.

    A member is known by group and `instance`, because client ids are new at every start. Only one
    consumer at a time, in any process, may have its offsets open.

    Args:
        folder: made if need be, for its owner only; "~" is understood.
        group: the consumer group.
        instance: the member's stable name.

    Attributes:
        path: the file.
    """

    def __init__(self, folder: Path, group: str, instance: str) -> None:
        self._owner = {"group": group, "instance": instance}
        name = f"{quote(group, safe='')}@{quote(instance, safe='')}.json"
        self.path = folder.expanduser() / name
        self._backup = self.path.with_name(f"{name}.bak")
        self._log = get_logger("orderly.consumer", **where(group), file=str(self.path))
        self._lock = threading.Lock()
        self._held: TextIO | None = None
        self._offsets: OffsetTable = {}

    def open(self) -> None:
        """Lock the file and read it; a file that is not there has no offsets.

        A damaged file is put aside as ".corrupt-<time>" if the ".bak" is whole; that one, one
        save older, is then used, with a warning. Else everything is left as it is.

        Raises:
            ConfigError: another consumer has it open.
            OffsetFileError: it cannot be read, is damaged, or a newer version wrote it.
            LifecycleError: it is open.
        """
        with self._lock:
            if self._held is not None:
                raise LifecycleError(f"{self.path} is open already; close it first")
            try:
                held = self._hold()
            except OSError as error:
                raise self._failure("locked", error) from error
            try:
                self._offsets = self._load()
            except BaseException:
                held.close()
                raise
            self._held = held

    def close(self) -> None:
        """Let another consumer have the file. Idempotent; writes nothing, `put` did."""
        with self._lock:
            if self._held is not None:
                self._held.close()
                self._held = None

    def get(self, queue: MessageQueue) -> int | None:
        """The offset stored for `queue`, or None. Never waits for the disk."""
        return self._offsets.get(queue)

    def put(self, queue: MessageQueue, offset: int) -> None:
        """Store one offset; as `put_all`."""
        self.put_all({queue: offset})

    def put_all(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets; they are on the disk when this returns. One write, however many.

        Raises:
            OffsetFileError: they could not be written; the ones stored before stay.
            ConfigError: an offset is negative or no int; nothing is stored.
            LifecycleError: not open.
        """
        for queue, offset in offsets.items():
            if not _is_count(offset):
                raise ConfigError(f"the offset of {queue} must be an int from 0, not {offset!r}")
        with self._lock:
            if self._held is None:
                raise LifecycleError(f"{self.path} is not open; nothing can be stored")
            merged = {**self._offsets, **offsets}
            try:
                self._replace(_encode(self._owner, merged, datetime.now(UTC)))
            except OSError as error:
                raise self._failure("written", error) from error
            self._offsets = merged

    def _hold(self) -> TextIO:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refusal = ConfigError(
            f"another consumer of group {self._owner['group']!r} with instance"
            f" {self._owner['instance']!r} has its offsets open ({self.path}); give each consumer"
            " an instance of its own, or stop the other one"
        )
        return hold(self.path.with_name(f"{self.path.name}.lock"), refusal)

    def _load(self) -> OffsetTable:
        try:
            offsets = self._read(self.path)
        except _DamagedError as damage:
            return self._recover(damage)
        if offsets is None:  # the first start, or a crash between the two steps of `_replace`
            offsets = self._read_backup()
            if offsets is not None:
                self._log.warning("offset_file.missing")
        return offsets or {}

    def _recover(self, damage: _DamagedError) -> OffsetTable:
        offsets = self._read_backup()
        if offsets is None:
            raise self._damaged(self.path, damage) from damage
        aside = self.path.with_name(f"{self.path.name}.corrupt-{datetime.now(UTC):%Y%m%dT%H%M%SZ}")
        try:
            self.path.replace(aside)
        except OSError as error:
            raise self._failure("put aside", error) from error
        self._log.warning("offset_file.damaged", damage=str(damage), kept_as=str(aside))
        return offsets

    def _read_backup(self) -> OffsetTable | None:
        try:
            return self._read(self._backup)
        except _DamagedError as damage:
            raise self._damaged(self._backup, damage) from damage

    def _read(self, path: Path) -> OffsetTable | None:
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._failure("read", error) from error
        return _decode(self._owner, data, path)

    def _replace(self, data: bytes) -> None:
        """Write beside the file, then rename: at every moment a whole one has a name we read."""
        fresh = self.path.with_name(f"{self.path.name}.new")
        with synced(fresh) as file:
            file.write(data)
        if self.path.exists():
            self.path.replace(self._backup)
        fresh.replace(self.path)
        sync_folder(self.path.parent)

    def _damaged(self, path: Path, damage: _DamagedError) -> OffsetFileError:
        return OffsetFileError(
            f"the offset file {path} is damaged ({damage}) and there is no complete copy beside"
            f" it; restore {self.path}, or remove it and {self._backup.name} to begin where"
            " ConsumerConfig.consume_from says"
        )

    def _failure(self, what: str, error: OSError) -> OffsetFileError:
        return OffsetFileError(
            f"the offset file {self.path} cannot be {what}: {error}; check the folder's"
            " permissions and free space, or set ConsumerConfig.offsets_folder"
        )


def _encode(owner: Mapping[str, str], offsets: OffsetTable, at: datetime) -> bytes:
    rows = [
        {"topic": q.topic, "broker": q.broker_name, "queue_id": q.queue_id, "offset": offsets[q]}
        for q in sorted(offsets)
    ]
    written = at.isoformat(timespec="milliseconds")
    document = {"version": _VERSION, **owner, "written": written, "offsets": rows}
    return json.dumps(document, indent=1).encode()


def _decode(owner: Mapping[str, str], data: bytes, path: Path) -> OffsetTable:
    try:
        document = json.loads(data)
        version = document["version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _DamagedError(f"no JSON object with a version: {error!r}") from error
    if version != _VERSION:
        raise OffsetFileError(
            f"{path} has version {version!r}, this release reads version {_VERSION}; use the"
            " release that wrote it, or another ConsumerConfig.instance to start over"
        )
    found = {name: document.get(name) for name in owner}
    if found != dict(owner):  # a copy, or a file system that takes "A" and "a" for one name
        raise OffsetFileError(f"{path} belongs to {found}, not to {dict(owner)}; move it away")
    return _rows(document.get("offsets"))


def _rows(rows: Any) -> OffsetTable:
    if not isinstance(rows, list):
        raise _DamagedError(f"no list of offsets: {rows!r}"[:200])
    offsets: OffsetTable = {}
    for row in rows:
        queue, offset = _row(row)
        if queue in offsets:
            raise _DamagedError(f"{queue} twice")
        offsets[queue] = offset
    return offsets


def _row(row: Any) -> tuple[MessageQueue, int]:
    match row:
        case {"topic": str(topic), "broker": str(broker), "queue_id": number, "offset": offset} if (
            _is_count(number) and _is_count(offset)
        ):
            return MessageQueue(topic, broker, number), offset
    raise _DamagedError(f"no offset of a queue: {row!r}"[:200])


def _is_count(value: object) -> bool:
    return is_int(value) and value >= 0


def broadcasting_performer(
    group: str, offsets: LocalOffsets, brokers: BrokerCalls
) -> Callable[[Call], Any]:
    """Return the function that answers calls for a broadcasting member.

    Nobody else consumes for it: locks are granted here, and its offsets are in a local file.
    """
    table: dict[type[Call], Callable[[Any], Any]] = {
        LockQueues: lambda call: frozenset(call.queues),
        UnlockQueues: lambda _: None,
        QueryOffset: lambda call: offsets.get(call.queue),
        HasOffsets: lambda call: any(offsets.get(queue) is not None for queue in call.queues),
        SaveOffset: lambda call: offsets.put(call.queue, call.offset),
        **positions(brokers, group),
    }
    return lambda call: table[type(call)](call)
