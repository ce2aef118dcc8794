"""Offsets of held queues: committed to the broker, or kept in a broadcasting member's file.

They are committed every 5 s and when a queue is handed on. Only offsets go to the broker that the
lease still covers, right after a renewal, and after the broker's offset was compared with what we
wrote: the broker itself would accept a commit from anybody, so the fence is ours.
"""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote

from orderly.client.broker import BrokerCalls
from orderly.client.dialogues import peek, positions
from orderly.config.arguments import is_int
from orderly.consumer.broker_threads import BrokerThreads
from orderly.consumer.renewal import announce_loss, renew, renew_now
from orderly.consumer.session import HeldQueue, Session, now
from orderly.durable_file import hold, sync_folder, synced
from orderly.errors import (
    ConfigError,
    LifecycleError,
    LockLost,
    OffsetFileError,
    OrderlyError,
    RemotingError,
)
from orderly.log import get_logger, where
from orderly.model import MessageQueue
from orderly.ordering.broker_calls import (
    Call,
    LockQueues,
    Peek,
    QueryOffset,
    SaveOffset,
    UnlockQueues,
    converse,
)
from orderly.ordering.fence import Fence, new_minimum
from orderly.ordering.owned_queue import Drop
from orderly.ordering.state.ownership import (
    CommitProgress,
    NotOnRecord,
    Recreated,
    check_generation,
    commit,
    hand_on,
)

REFRESH = 3600.0  # seconds after which a state is written anew; brokers keep records for days
LOOK_AGAIN = 60.0  # seconds after which the broker's offset is compared though nothing is new
_TIMELY = 10.0  # seconds from the question for the stored offset to the write that rests on it


class OffsetSaver:
    """Saves offsets. Thread-safe.

    Args:
        session: the consumer's shared state.

    Attributes:
        steps: what is under way at brokers.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.steps = BrokerThreads(f"saving-{session.group}")

    def save_all(self, deadline: float = math.inf) -> None:
        """Save what is unsaved; a failure is logged and tried again in the next round.

        Of a queue with nothing new the broker's offset is compared once a minute: it vanishes when
        the topic is deleted, or a killed broker forgets it, and an idle queue would never notice.
        Brokers are asked side by side; one that does not answer is asked once a round.

        Args:
            deadline: after it no further queue is begun (seconds, `session.now`).
        """
        if self._session.store_together is not None:
            self._save_together(self._session.store_together)
            return
        unsaved: dict[str, list[HeldQueue]] = {}
        for held in self._session.held():
            if self._has_news(held) or self._overdue(held):
                unsaved.setdefault(held.queue.broker_name, []).append(held)
        steps = {
            name: partial(self._save_of_broker, holds, deadline) for name, holds in unsaved.items()
        }
        if math.isfinite(deadline):  # the last time: also where a round has not ended yet
            last = BrokerThreads(f"last-saving-{self._session.group}")
            last.run(steps, self._session.client.config.request_timeout)
        else:
            self.steps.run(steps)

    def save(self, held: HeldQueue) -> None:
        """Save one queue's offset; a failure is logged, and tried again in the next round."""
        if self._session.store_together is None and self._has_news(held):
            self._save_of_broker([held], math.inf)

    def record(self, held: HeldQueue) -> None:
        """Commit one queue now: its offset, what is finished ahead and the parked keys.

        Returns once all that is on record, also if it was before.

        Raises:
            LockLost: the queue is no longer ours.
            OrderlyError: it may not be on record. Calling it again is right.
        """
        renew_now(self._session, held)
        try:
            with held.saving:
                self._in_time(held)()
                progress = self._progress(held)
                if progress is not None:
                    self._commit(held, progress)
        except LockLost as error:
            self._fenced(held, error)
            raise

    def _save_of_broker(self, holds: Sequence[HeldQueue], deadline: float) -> None:
        if now() >= deadline:
            return
        try:
            renew_now(self._session, *holds)
        except OrderlyError as error:
            log, broker = self._session.log, holds[0].queue.broker_name
            log.warning("offset.not_saved", broker=broker, error=str(error))
            return
        for held in holds:
            if now() >= deadline or not self._saved(held):
                return

    def _saved(self, held: HeldQueue) -> bool:
        """Save one queue's offset; returns whether its broker answers."""
        try:
            with held.saving:
                progress = self._progress(held, anyway=self._overdue(held))
                if progress is not None:
                    self._commit(held, progress)
        except LockLost as error:
            self._fenced(held, error)
        except NotOnRecord as error:
            held.log.warning("state.not_recorded", error=str(error))
        except OrderlyError as error:
            held.log.warning("offset.not_saved", error=str(error))
            return not isinstance(error, RemotingError)
        return True

    def _commit(self, held: HeldQueue, progress: CommitProgress) -> None:
        stale = self._stale(held)
        dialogue = commit(
            held.queue, progress, held.owned.fence, held.memory, now=now(), refresh=stale
        )
        try:
            self._session.converse(dialogue, self._in_time(held))
        except NotOnRecord:
            self._session.attention()  # the next round makes the state topic
            raise
        held.compared_at = now()
        if stale:
            held.refreshed_at = now()

    def find_out(self, held: HeldQueue) -> None:
        """Find out whether the queue's topic was made anew; then the queue is given up.

        Raises:
            LockLost: it was, or it is no longer ours.
            OffsetReset: an operator has reset the offset.
            OrderlyError: it cannot be known now.
        """
        fence = held.owned.fence
        if converse(new_minimum(held.queue, fence.landmark), self._session.perform) is None:
            return
        renew_now(self._session, held)
        try:
            with held.saving:
                with held.lock:
                    kept = held.owned.parking.kept
                dialogue = check_generation(held.queue, fence, held.memory, kept)
                self._session.converse(dialogue, self._in_time(held))
        except LockLost as error:
            self._fenced(held, error)
            raise

    def _in_time(self, held: HeldQueue) -> Callable[[], None]:
        """The check before each write: the process may have slept since the lock was renewed."""
        begun = now()

        def check() -> None:
            with held.lock:
                ours = held.owned.may_save(now())
            if not ours:
                raise LockLost(f"{held.queue} was lost before its progress was saved")
            if now() - begun > _TIMELY:
                raise OrderlyError("the broker's answers came too late to go by them")

        return check

    def _overdue(self, held: HeldQueue) -> bool:
        return held.owned.dropped is None and now() - held.compared_at >= LOOK_AGAIN

    def _stale(self, held: HeldQueue) -> bool:
        return held.memory is not None and now() - held.refreshed_at >= REFRESH

    def _save_together(self, store: Callable[[dict[MessageQueue, int]], None]) -> None:
        """Save all offsets with one write, where the write is what costs."""
        with contextlib.ExitStack() as saving:
            unsaved: dict[HeldQueue, int] = {}
            for held in self._session.held():
                saving.enter_context(held.saving)
                progress = self._progress(held)
                if progress is not None:
                    unsaved[held] = progress.offset
            if not unsaved:
                return
            try:
                store({held.queue: offset for held, offset in unsaved.items()})
            except OrderlyError as error:
                self._session.log.warning("offset.not_saved", error=str(error))
                return
            for held, offset in unsaved.items():
                held.owned.fence.note(offset, now())

    def hand_on(self, held: HeldQueue) -> None:
        """Save the offset of an idle, dropped queue, then give its lock back.

        The caller holds `session.locking` of its broker.

        Raises:
            OrderlyError: a failure that may pass; the queue may still be locked.
        """
        with held.saving:
            progress = self._progress(held, closing=True)
            if progress is not None:
                renew(self._session, held.queue.broker_name)
                progress = self._progress(held, closing=True)
            with held.lock:
                ours = held.owned.keeps_lock(now())
            if ours:
                fence, memory = held.owned.fence, held.memory
                dialogue = hand_on(held.queue, progress, fence, memory, now=now())
                refusal = self._session.converse(dialogue, self._in_time(held))
                if isinstance(refusal, NotOnRecord):
                    held.log.warning("state.not_recorded", error=str(refusal))
                elif refusal is not None:
                    held.log.error("offset.save_refused", error=str(refusal))
            with held.lock:
                held.released = ours
                held.owned.drop(Drop.LOST)  # unlocked: whoever waited for `saving` saves no more

    def _has_news(self, held: HeldQueue) -> bool:
        """Whether there is something to save; what is finished ahead is worked out if need be."""
        with held.lock:
            moved = held.owned.unsaved(now()) is not None
        return moved or self._progress(held) is not None

    def _progress(
        self, held: HeldQueue, *, closing: bool = False, anyway: bool = False
    ) -> CommitProgress | None:
        """What is to be saved; None: nothing new, unless wanted `anyway`, or not ours to save."""
        with held.lock:
            owned = held.owned
            if not owned.may_save(now()):
                return None
            unsaved = owned.unsaved(now()) is not None
            offset, ahead, moved = owned.offset, owned.ahead, owned.restarted
            kept, crashes = owned.parking.kept, owned.crashes(closing=closing)
        finished = () if ahead is None else ahead.finished
        progress = CommitProgress(offset, finished, moved, kept, crashes)
        if unsaved or anyway:
            return progress
        if held.memory is None:
            return None
        fence = owned.fence
        due = held.memory.due(offset, fence.written, finished, kept, crashes, fence=fence)
        return progress if closing or due or self._stale(held) else None

    def _fenced(self, held: HeldQueue, error: LockLost) -> None:
        if isinstance(error, Recreated):
            self._recreated(held, error.start)
        else:
            with held.lock:
                held.owned.drop(Drop.FENCED)
        announce_loss(self._session, held, str(error))

    def _recreated(self, held: HeldQueue, start: int) -> None:
        """Give a queue up whose topic was made anew; what is known of it begins at `start`."""
        fence = held.owned.fence
        with held.lock:
            dropped = held.owned.drop(Drop.RECREATED)
            # A broker that is killed now comes back with an offset of before.
            held.owned.fence = Fence(start, fence.window, now=now())
        if dropped:
            held.log.warning("topic.recreated", former=fence.written, start=start)


# --- a broadcasting member's own file (Java: LocalFileOffsetStore) --------------------------------
# The file is replaced whole, so it is the old one or the new one after a crash, and the one before
# is kept as ".bak". What cannot be read is never taken for "nothing stored": that would skip or
# repeat messages without anybody knowing.


_VERSION = 1

OffsetTable = dict[MessageQueue, int]


class _DamagedError(ValueError):
    """Not an offset file, or not a whole one."""


class LocalOffsets:
    """The next offset of each queue, for one member of a broadcasting group. Thread-safe.

    A member is known by group and `instance`, because client ids are new at every start. Only one
    consumer at a time, in whatever process, may have its offsets open.

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
            f"the offset file {path} is damaged ({damage}) and no whole copy is beside it; restore"
            f" {self.path}, or remove it and {self._backup.name} to begin where"
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
            " release that wrote it, or another ConsumerConfig.instance to begin anew"
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
        SaveOffset: lambda call: offsets.put(call.queue, call.offset),
        Peek: lambda call: peek(brokers, group, call),
        **positions(brokers),
    }
    return lambda call: table[type(call)](call)
