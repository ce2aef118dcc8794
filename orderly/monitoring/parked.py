"""A group's parked keys, for operators and programs: look, add, release, drop, export, keep alive.

Reading needs no running member, nor does `keepalive`, which stores parked messages again. To change
a key, a command is sent to the queue's owner (`park_commands`). A queue that cannot be read is
unknown; it never counts as "nothing is parked".
"""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from orderly.client import Client
from orderly.client.client import retention
from orderly.config import check_group, check_topic
from orderly.durable_file import replacing
from orderly.errors import ConfigError, OrderlyError
from orderly.model import MessageQueue, ReceivedMessage, UndecodableMessage
from orderly.monitoring.collecting.members import is_proxied
from orderly.monitoring.park_command_sender import (
    Ended,
    OnProgress,
    OnSent,
    Outcome,
    ask_owners,
    run_command,
    run_each,
)
from orderly.monitoring.parked_queues import KeyFound, ParkedQueue, ParkedQueues, Unknown
from orderly.protocol.park_record import Parked, Verb, parked_again, read_parked
from orderly.protocol.parked_key import Key


@dataclass(frozen=True, slots=True)
class KeyReport:
    """One parked key.

    Attributes:
        queue: the source queue.
        key: the key.
        messages, size: how many are parked, and their bytes; 0 also if the broker has deleted them.
        recorded: how many messages the owners counted.
        gone: how many of these can be gone, because the broker has deleted a part of the park
            queue, or a part is damaged; else 0.
        first: the first message that waits, and what is known about its failure; None: gone.
        last_offset: source offset of the last message; None: gone.
        expires: before this time (seconds since the epoch) the broker deletes none of them by age;
            None: not known.
        untried: how many of the messages have never failed: they only wait behind an earlier one.
    """

    queue: MessageQueue
    key: Key
    messages: int
    size: int
    recorded: int
    gone: int
    first: Parked | None
    last_offset: int | None
    expires: float | None
    untried: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """The parked keys of a group.

    Attributes:
        keys: sorted by topic, queue and key.
        read: the source queues that were read: those on brokers that the name server lists.
        unknown: queues that could not be read.
    """

    keys: tuple[KeyReport, ...]
    read: tuple[MessageQueue, ...]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Added:
    """The result of `add`.

    Attributes:
        outcomes: of the queues in which the key waits, or in which it was refused, with the reason.
        read: the source queues whose owners answered.
        unknown: the queues whose owners did not answer, and why, as far as that is known.
    """

    outcomes: tuple[Outcome, ...]
    read: tuple[MessageQueue, ...]
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Renewal:
    """What `keepalive` did.

    Attributes:
        appended: messages that were appended again.
        unknown: queues in which something failed: old messages there can still be old.
    """

    appended: int
    unknown: Unknown


@dataclass(frozen=True, slots=True)
class Exported:
    """What `export` did.

    Attributes:
        messages: in the file.
        gone: messages that the owners counted, and that may be gone; see `KeyReport`.
    """

    messages: int
    gone: int


# --- parked messages as lines of JSON in a file: kept beyond the broker's removal by age ----------


def write_lines(path: Path, group: str, messages: Iterable[Parked]) -> int:
    """Write messages to a file that appears, or is replaced, when it is complete; returns how many.

    Only its owner can read it. A link is replaced itself.

    Raises:
        OSError: it cannot be written, or is a device, for example; the file is unchanged.
    """
    count = 0
    with replacing(path) as file:
        for message in messages:
            file.write(f"{json.dumps(exported(group, message))}\n".encode("ascii"))
            count += 1
    return count


def exported(group: str, message: Parked) -> dict[str, Any]:
    """Everything that is known about a parked message; times are seconds since the epoch."""
    source, details = message.original, message.details
    return {
        "group": group,
        "topic": source.queue.topic,
        "broker": source.queue.broker_name,
        "queue": source.queue.queue_id,
        "offset": source.queue_offset,
        "key": message.key,
        "message_id": source.message_id,
        "born_time": source.born_time,
        "store_time": source.store_time,
        "attempts": details.attempts,
        "reason": details.reason,
        "fingerprint": details.fingerprint,
        "first_error": details.first_error,
        "last_error": details.last_error,
        "parked_at": details.parked_at,
        "properties": dict(source.properties),
        "body_base64": b64encode(source.raw_body).decode("ascii"),
    } | _unread(source)


def _unread(source: ReceivedMessage) -> dict[str, Any]:
    """Of a body that cannot be read, why, and the flags that say how its bytes were written."""
    if not isinstance(source, UndecodableMessage):
        return {}
    return {"undecodable": source.why, "sys_flag": source.sys_flag}


# --- operators' view ------------------------------------------------------------------------------


PATIENCE = 60.0  # seconds without a word of a queue's owner


def _unheard(_: int | str) -> None:
    """Nobody listens."""


class ParkedMessages:
    """The parked keys of one group. Not thread-safe; every method blocks.

    Every method raises OrderlyError if no name server answers, or none lists a park topic of the
    group.

    Args:
        client: of the cluster.
        group: the consumer group, as the broker names it.
        topic: only keys of this source topic; None: keys of all topics.

    Raises:
        ConfigError: a name that brokers refuse.
    """

    def __init__(self, client: Client, group: str, topic: str | None = None) -> None:
        self._client = client
        self._group = check_group(group)
        self._queues = ParkedQueues(client, group, None if topic is None else check_topic(topic))

    # --- looking -------------------------------------------------------------------------------

    def list(self, key: Key | None = None) -> Listing:
        """All parked keys, and the queues that could not be read.

        Args:
            key: only this one; None: all.
        """
        found, unknown = self._queues.each(lambda queue: (queue.queue, self._reports(queue, key)))
        keys = chain.from_iterable(reports for _, reports in found)
        return Listing(tuple(keys), tuple(queue for queue, _ in found), unknown)

    def keys(self) -> tuple[tuple[str, Key], ...]:
        """Source topic and key of everything that is parked. Reads only the records.

        Raises:
            OrderlyError: a queue could not be read.
        """
        found = ((queue.queue.topic, queue.on_record().parked) for queue in self._queues.all())
        return tuple(dict.fromkeys((topic, each.key) for topic, parked in found for each in parked))

    def show(self, key: Key) -> Iterator[Parked]:
        """The parked messages of a key, in the order in which they will be released.

        Raises:
            ConfigError: the key is not parked, or is parked in several topics.
            OrderlyError: a broker does not answer, or has deleted one of them meanwhile.
        """
        for queue, parked in self._queues.holders(key):
            yield from map(read_parked, queue.messages(queue.find([parked])[key]))

    def _reports(self, queue: ParkedQueue, key: Key | None) -> tuple[KeyReport, ...]:
        parked = tuple(p for p in queue.on_record().parked if key is None or p.key == key)
        found = queue.find(parked)
        seconds = self._retention(queue) if parked else None
        return tuple(_report(queue, found[each.key], seconds) for each in parked)

    def _retention(self, queue: ParkedQueue) -> float | None:
        """Seconds for which the queue's broker keeps messages; None: not known."""
        try:
            return retention(self._client, queue.park_queue)
        except OrderlyError:
            return None

    # --- commands ------------------------------------------------------------------------------

    def release(
        self,
        key: Key,
        *,
        patience: float = PATIENCE,
        on_progress: OnProgress = _unheard,
        on_sent: OnSent = _unheard,
    ) -> tuple[Outcome, ...]:
        """Let the queue's owner run a key's parked messages; after that, new messages run as usual.

        Args:
            key: a parked one.
            patience: stop waiting after this many seconds without a sign from the owner.
            on_progress: called with the number of messages done so far.
            on_sent: called with a line of text, for people, when the command is stored.

        Returns:
            One outcome for each queue in which the key is parked: a single one, unless the topic's
            queues or the key function changed meanwhile.

        Raises:
            NotParked: the key is not parked; nothing was sent.
            ConfigError: it is parked in several topics; nothing was sent.
            OrderlyError: no owner answered, or the parked keys are not known; the text says which.
        """
        return self._command(Verb.RELEASE, key, patience, on_progress, on_sent)

    def try_(
        self,
        key: Key,
        *,
        patience: float = PATIENCE,
        on_progress: OnProgress = _unheard,
        on_sent: OnSent = _unheard,
    ) -> tuple[Outcome, ...]:
        """Run a key's parked messages without acknowledging any, to see which would succeed.

        Works only with a handler that supports it (a listener made with dry_run=True). Otherwise
        like `release`.
        """
        return self._command(Verb.TRY, key, patience, on_progress, on_sent)

    def release_each(
        self,
        keys: Iterable[tuple[MessageQueue, Key]],
        *,
        dry_run: bool = False,
        patience: float = PATIENCE,
    ) -> Iterator[Ended]:
        """Run the messages of several parked keys, as `release` or `try_` does for one.

        In each queue keys run one after the other, in the order given; queues run in parallel.

        Args:
            keys: source queue and key of each, as `list` returns them.
            dry_run: acknowledge none.
            patience: give up a queue after this many seconds without a sign from its owner.

        Yields:
            Queue, key, and its outcome; or an error if the outcome is not known or the key was not
            tried.

        Raises:
            OrderlyError: the wait was interrupted (Ctrl-C).
        """
        wanted: dict[MessageQueue, list[Key]] = {}
        for queue, key in keys:
            wanted.setdefault(queue, []).append(key)
        verb = Verb.TRY if dry_run else Verb.RELEASE
        open_queue = partial(ParkedQueue, self._client, self._group)
        yield from run_each(wanted, open_queue, verb, patience=patience)

    def drop(
        self,
        key: Key,
        *,
        patience: float = PATIENCE,
        on_progress: OnProgress = _unheard,
        on_sent: OnSent = _unheard,
    ) -> tuple[Outcome, ...]:
        """Discard a key's parked messages: they never run. Arguments and errors as `release`."""
        return self._command(Verb.DROP, key, patience, on_progress, on_sent)

    def add(
        self,
        key: Key,
        *,
        dry_run: bool = False,
        patience: float = PATIENCE,
        on_sent: OnSent = _unheard,
    ) -> Added:
        """Park a key that blocks: the messages that wait now, and all later ones.

        Only the owner of a queue knows for sure whether a key is in it, so the command asks the
        owners of all queues of the topic. It also works while the key waits after a failure or is
        suspended. If a handler call of the key runs, the owner waits for its end. An owner that
        finds the command minutes later refuses it.

        Args:
            key: a key that is not parked.
            dry_run: only ask whether the key would be parked, and how many of its messages wait.
            patience: stop waiting after this many seconds without a sign from an owner.
            on_sent: called with a line of text, for people, when the commands are stored.

        Raises:
            ConfigError: the group has parked keys of several topics, so you must name one; or its
                members do not keep order by key. Nothing was sent.
            OrderlyError: no member is online, and nothing was sent; or the wait was interrupted.
        """
        queues = self._queues.all()
        topics = sorted({queue.queue.topic for queue in queues})
        if len(topics) > 1:
            raise ConfigError(
                f"group {self._group} keeps order by key in several topics: {', '.join(topics)};"
                " name one (--topic)"
            )
        self._check_members(topics[0])
        verb = Verb.LOOK if dry_run else Verb.ADD
        outcomes, silent = ask_owners(queues, verb, key, patience=patience, on_sent=on_sent)
        found = tuple(o for o in outcomes if o.settled or o.reason is not None)
        return Added(found, tuple(o.queue for o in outcomes), silent)

    def _check_members(self, topic: str) -> None:
        """Raise an error if nobody can own a queue of which keys are parked."""
        try:
            online = self._client.admin.consumer_connections(self._group)
        except OrderlyError:  # a broker is away; not known, so there may well be somebody
            return
        if online is None and is_proxied(self._client):
            return  # its members are a proxy's, and brokers do not know them
        if online is None:
            raise OrderlyError(
                f"no member of group {self._group} is online, and only the owner of a queue can"
                " park a key of it; nothing was sent"
            )
        for member in online.connections:
            try:
                info = self._client.groups.running_info(self._group, member.client_id)
            except OrderlyError:
                return
            if info.properties.get("order") == "key":
                return
        raise ConfigError(
            f"the members of group {self._group} keep order by queue, and only order='key' can"
            f" park a key of {topic}; nothing was sent"
        )

    def _command(
        self, verb: Verb, key: Key, patience: float, on_progress: OnProgress, on_sent: OnSent
    ) -> tuple[Outcome, ...]:
        return tuple(
            run_command(
                queue, verb, key, patience=patience, on_progress=on_progress, on_sent=on_sent
            )
            for queue, _ in self._queues.holders(key)
        )

    # --- copies --------------------------------------------------------------------------------

    def export(self, path: Path) -> Exported:
        """Write all parked messages to a file, one JSON object a line.

        The file appears, or is replaced, only when it is complete.

        Raises:
            OrderlyError: a queue could not be read; a part is never written as if it were
                everything.
            OSError: the file cannot be written.
        """
        gone = 0

        def everything() -> Iterator[Parked]:
            nonlocal gone
            for queue in self._queues.all():
                for parked in queue.on_record().parked:
                    found = queue.find([parked])[parked.key]
                    gone += found.gone
                    yield from map(read_parked, queue.messages(found))

        count = write_lines(path, self._group, everything())
        return Exported(count, gone)

    def keepalive(
        self, older_than: float | None = None, on_progress: OnProgress = _unheard
    ) -> Renewal:
        """Store old parked messages again before the broker deletes them by their age.

        You can call it while members run. If a message is released meanwhile, it is no longer on
        record as parked, so its new copy does not count. Of two copies one counts.

        Args:
            older_than: seconds since the copy was stored; None: half of the broker's retention.
            on_progress: called with the number of messages stored so far.
        """
        appended = 0

        def renew(queue: ParkedQueue) -> None:
            nonlocal appended
            for message in self._old(queue, older_than):
                queue.append(parked_again(message))
                appended += 1
                on_progress(appended)

        _, unknown = self._queues.each(renew)
        return Renewal(appended, unknown)

    def _old(self, queue: ParkedQueue, older_than: float | None) -> Iterator[ReceivedMessage]:
        parked = queue.on_record().parked
        if not parked:
            return
        age = retention(self._client, queue.park_queue) / 2 if older_than is None else older_than
        oldest = time.time() - age
        for key in queue.find(parked).values():
            if key.on_record.key in {still.key for still in queue.on_record().parked}:
                yield from queue.messages(key, stored_before=oldest)


def _report(queue: ParkedQueue, found: KeyFound, kept_for: float | None) -> KeyReport:
    places, first = found.places, next(queue.messages(found), None)
    stored = [found.stored[place.position] for place in places]
    oldest = min((copy.at for copy in stored), default=None)
    return KeyReport(
        queue=queue.queue,
        key=found.on_record.key,
        messages=len(places),
        size=sum(copy.size for copy in stored),
        recorded=found.on_record.messages,
        gone=found.gone,
        first=None if first is None else read_parked(first),
        last_offset=places[-1].offset if places else None,
        expires=None if oldest is None or kept_for is None else oldest + kept_for,
        untried=sum(copy.attempts == 0 for copy in stored),
    )
