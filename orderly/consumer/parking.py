"""Parks messages of a key: into the park topic, on record, and only then are they done.

`park_queue` appends them. The record that says that the key is parked is a state record; it is
written with the offset (`OffsetSaver.record`).

A message that is parked twice, because a step in between failed, is one: readers know it by its
source offset. So if any step fails, the same messages come again and nothing is lost.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Hashable, Mapping, Sequence

from orderly.clock import now
from orderly.consumer.offsets import OffsetSaver
from orderly.consumer.park_queue import ParkQueue
from orderly.consumer.session import HeldQueue, Session, log_context
from orderly.consumer.statistics import Notes
from orderly.errors import LockLost, OrderlyError
from orderly.log import type_text
from orderly.model import ReceivedMessage
from orderly.ordering.backoff import backoff
from orderly.ordering.context import Failure
from orderly.ordering.lane import Batch
from orderly.ordering.parking import KeyRatio, limit_reached
from orderly.protocol.park_record import (
    ParkDetails,
    park_message,
)
from orderly.protocol.parked_key import Key, ParkedKey, key_of

BEHIND = Failure("an earlier message of its key is parked")
_NO_KEYS = (
    "a key can be parked only with order='key', in clustering, and not in the group's retry topic:"
    " the message blocks its queue"
)
_BAD_KEY = (
    "a key that is {} cannot be parked, only a str of up to 1024 bytes or an int of 64 bits: the"
    " message blocks its key"
)
_FORMER = (
    "parked messages of its key are older than the topic: release or drop the key first (orderly"
    " parked release); its new messages wait until then"
)


class Parker:
    """Thread-safe; `park` blocks.

    Args:
        session: the consumer's shared state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._saver = OffsetSaver(session)
        self._ratio = KeyRatio(session.config.parking.ratio)
        self._seen: Notes[tuple[Hashable, float]] = Notes(lambda seen: self._ratio.saw(*seen))

    def saw(self, key: Hashable, moment: float) -> None:
        """Note that a message of `key` was taken at a moment (seconds)."""
        self._seen.note((key, moment))

    def park(
        self,
        held: HeldQueue,
        batch: Batch,
        failures: Mapping[int, Failure],
        finished: Collection[int] = (),
    ) -> float | None:
        """Park all that a batch's lane has in hand; call it in the lane's turn only.

        Args:
            held: the queue.
            batch: in work.
            failures: by queue offset, what is known of messages that failed.
            finished: queue offsets that are done already.

        Returns:
            None: all of it is parked, and on record, so that it may count as done. Else nothing
            may, and the lane is to wait so many seconds.
        """
        with held.lock:
            messages = held.owned.no_repeats(batch.lane)
        messages = [m for m in messages if m.queue_offset not in finished]
        if not messages:
            return None
        at = log_context(self._session.group, held, messages[0], batch.key)
        key = self._key(held, batch.key)
        refusal = self._impossible(held, batch.key, key)
        if refusal is not None:
            return self._refused(held, batch, messages, failures, refusal)
        assert key is not None, "without a key it is impossible"
        refusal = self._limit_reached(held, batch.key, messages)
        if refusal is not None:
            return self._refused(held, batch, messages, failures, refusal, passes=True)
        try:
            self._park(held, key, messages, failures)
        except LockLost:  # nothing failed, and lock.lost is logged
            return self._session.config.suspend
        except OrderlyError as error:
            return self._failed(held, batch.key, at, error, _known(messages, failures))
        return None

    def park_by_hand(self, held: HeldQueue, batch: Batch, by: str) -> str | None:
        """Park all that a batch's lane has in hand, for an operator; call it in its turn only.

        Args:
            held: the queue.
            batch: in work.
            by: who wants it, for people.

        Returns:
            None: all of it is parked, and on record. Else why it may not be.

        Raises:
            OrderlyError: nothing may count as parked.
        """
        with held.lock:
            messages = held.owned.no_repeats(batch.lane)
        if not messages:
            return "all that waits of it are repeated sends, which end by themselves"
        key = self._key(held, batch.key)
        refusal = self._impossible(held, batch.key, key)
        if refusal is None:
            refusal = self._limit_reached(held, batch.key, messages)
        if refusal is None:
            assert key is not None, "without a key it is impossible"
            self._park(held, key, messages, _wanted(held, batch.key, messages, by))
        return refusal

    def _refused(
        self,
        held: HeldQueue,
        batch: Batch,
        messages: Sequence[ReceivedMessage],
        failures: Mapping[int, Failure],
        refusal: str,
        *,
        passes: bool = False,
    ) -> float:
        """Note that nothing may be parked; returns how long to wait.

        If the reason may pass by itself, it is longer each time.
        """
        config, draw = self._session.config, random.random()  # noqa: S311 - it spreads waits
        seconds = longest = min(config.max_suspend, config.longest_suspend)
        if passes:
            tries = batch.messages[0].reconsume_times + 1
            seconds = round(backoff(tries, min(config.suspend, longest), longest, draw), 3)
        held.failures.waits(batch.key, refusal)
        at = log_context(self._session.group, held, messages[0], batch.key)
        known = _known(messages, failures)
        held.log.error("park.refused", **at, why=refusal, seconds=seconds, **known)
        return seconds

    def _failed(
        self,
        held: HeldQueue,
        key: Hashable,
        at: Mapping[str, object],
        error: OrderlyError,
        known: Mapping[str, object],
    ) -> float:
        """Note that nothing was parked; returns how long to wait."""
        with held.lock:
            failures = held.failed_parkings[key] = held.failed_parkings.get(key, 0) + 1
        config = self._session.config
        draw = random.random()  # noqa: S311 - it spreads waits
        seconds = round(backoff(failures, config.suspend, config.max_suspend, draw), 3)
        held.log.error("park.failed", **at, seconds=seconds, **{**known, "error": str(error)})
        return seconds

    # --- whether a key may be parked -----------------------------------------------------------

    def _key(self, held: HeldQueue, lane_key: Hashable) -> Key | None:
        """The key as it is parked: 1, 1.0 and True are one key to a lane."""
        with held.lock:
            parked = held.owned.parking.get(lane_key)
        return key_of(lane_key) if parked is None else parked.key

    def _impossible(self, held: HeldQueue, lane_key: Hashable, key: Key | None) -> str | None:
        """Why a key can never be parked, or not before somebody does something about it."""
        if held.memory is None:
            return _NO_KEYS
        if key is None:
            return _BAD_KEY.format(type_text(lane_key))
        with held.lock:
            return _FORMER if held.owned.parking.is_former(lane_key) else None

    def _limit_reached(
        self, held: HeldQueue, lane_key: Hashable, messages: Sequence[ReceivedMessage]
    ) -> str | None:
        """Why nothing is parked; else, None, its room is taken until it is parked or has failed."""
        size = sum(message.stored_size for message in messages)
        with held.lock:
            parked = held.owned.parking.parked(lane_key)
            reached = self._reached(held, lane_key, len(messages), size)
            if reached is None and not parked:
                reached = self._out_of_ratio(lane_key, parks=True)
            if reached is None:
                held.being_parked[lane_key] = (len(messages), size)
        return reached

    def why_not(self, held: HeldQueue, key: Key, messages: int, size: int) -> str | None:
        """Why a key that is not parked could not be now, or None; the queue's lock is held.

        Args:
            held: the queue.
            key: which key.
            messages: how many of it would be parked.
            size: their bytes.
        """
        return self._reached(held, key, messages, size) or self._out_of_ratio(key, parks=False)

    def _reached(self, held: HeldQueue, lane_key: Hashable, messages: int, size: int) -> str | None:
        outlook = self._session.outlook.get(held.queue.topic)
        share = self._session.config.parking.share(len(outlook.queues) if outlook else 1)
        parking, others = held.owned.parking, held.being_parked
        coming = sum(not parking.parked(key) for key in others)
        if coming and not parking.parked(lane_key) and len(parking) + coming >= share.keys:
            return f"{coming} more keys are being parked now; the queue's share is {share.keys}"
        messages += sum(count for count, _ in others.values())
        size += sum(of_key for _, of_key in others.values())
        return limit_reached(share, parking, lane_key, messages, size)

    def _out_of_ratio(self, lane_key: Hashable, *, parks: bool) -> str | None:
        """Checked and noted at once, for bad keys come together."""
        with self._seen.lock:
            self._seen.add_up()
            reached = self._ratio.refuses(lane_key, now())
            if reached is None and parks:
                self._ratio.parks(lane_key, now())
        return reached

    # --- parking -------------------------------------------------------------------------------

    def _park(
        self,
        held: HeldQueue,
        key: Key,
        messages: Sequence[ReceivedMessage],
        failures: Mapping[int, Failure],
    ) -> None:
        """Append them in order, then see that the key is on record; a failure parks nothing."""
        try:
            self._store(held, key, messages, failures)
        finally:
            with held.lock:
                held.being_parked.pop(key, None)
        with held.lock:
            held.failed_parkings.pop(key, None)

    def _store(
        self,
        held: HeldQueue,
        key: Key,
        messages: Sequence[ReceivedMessage],
        failures: Mapping[int, Failure],
    ) -> None:
        assert held.memory is not None, "without a record nothing is parked"
        lowest, queue = messages[0].queue_offset, ParkQueue(self._session, held)
        with held.lock:
            before = held.owned.parking.get(key)
        changes = before is None or lowest < before.next  # lower: the offset was set back
        try:
            for message in messages:
                failure = failures.get(message.queue_offset, BEHIND)
                self._append(held, queue, key, message, failure)
            if changes or not held.memory.recorded(key):
                self._saver.record(held)
        except OrderlyError:
            if changes:
                _undo(held, key, before)
            raise
        if before is None:
            self._log_parked(held, key, messages, failures)

    def _append(
        self,
        held: HeldQueue,
        queue: ParkQueue,
        key: Key,
        message: ReceivedMessage,
        failure: Failure,
    ) -> None:
        details = ParkDetails(
            key=key,
            attempts=failure.attempts,
            reason=failure.reason,
            fingerprint=failure.fingerprint,
            first_error=failure.first_error,
            last_error=failure.last_error,
            parked_at=time.time(),
            token=held.memory.token if held.memory else 0,
        )
        position = queue.append(park_message(message, details))
        with held.lock:
            held.owned.parking.note(key, message.queue_offset, position, message.stored_size)

    def _log_parked(
        self,
        held: HeldQueue,
        key: Key,
        messages: Sequence[ReceivedMessage],
        failures: Mapping[int, Failure],
    ) -> None:
        at = log_context(self._session.group, held, _failing(messages, failures), key)
        held.log.error("key.parked", **at, messages=len(messages), **_known(messages, failures))


def _failing(
    messages: Sequence[ReceivedMessage], failures: Mapping[int, Failure]
) -> ReceivedMessage:
    """The message for which a key is parked, of those that are parked now."""
    return next((m for m in messages if m.queue_offset in failures), messages[0])


def _known(
    messages: Sequence[ReceivedMessage], failures: Mapping[int, Failure]
) -> dict[str, object]:
    """What is known of its failure, as fields of an event."""
    failure = failures.get(_failing(messages, failures).queue_offset, BEHIND)
    return {
        "reason": failure.reason,
        "attempts": failure.attempts,
        "fingerprint": failure.fingerprint,
        "evidence": failure.evidence,
        "error": failure.last_error,
        "exc_info": failure.error,
    }


def _wanted(
    held: HeldQueue, key: Hashable, messages: Sequence[ReceivedMessage], by: str
) -> dict[int, Failure]:
    """What is known of messages that an operator wants parked: of the first, and what failed."""
    found = {}
    for message in messages:
        failing = held.failures.of(key, message.queue_offset)
        if message is messages[0] or message.reconsume_times:
            reason, attempts = f"an operator parked the key ({by})", message.reconsume_times
            how = None if failing is None else failing.fingerprint.text
            found[message.queue_offset] = Failure(reason, attempts, how)
    return found


def _undo(held: HeldQueue, key: Key, before: ParkedKey | None) -> None:
    """Put a key's entry back as it was before."""
    with held.lock:
        parking = held.owned.parking
        if before is not None:
            parking.restore(before)
        elif parking.parked(key):
            parking.release(key)
