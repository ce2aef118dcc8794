"""The first questions of a scan: what each broker knows about offsets, topics and groups.

Three requests a broker answer for all groups. A broker that refuses to tell the offsets of all
groups at once (access rules) is asked group by group; one that does not answer leaves the part
that is remembered of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from orderly.client.pipeline import Pipeline, Question
from orderly.errors import BrokerError, OrderlyError, RemotingError
from orderly.model import MessageQueue
from orderly.monitoring.backlog.reading import NEVER, NOT_READ
from orderly.monitoring.collecting import questions
from orderly.monitoring.collecting.memory import Memory
from orderly.monitoring.collecting.parts import Pair, Part
from orderly.monitoring.collecting.round import Round
from orderly.monitoring.collecting.selection import Selection
from orderly.protocol.stats_bodies import OffsetPair
from orderly.protocol.topic_config import TopicConfig

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Opening:
    """What one broker said at first.

    Attributes:
        part: what is known of it.
        error: why something is missing; None: nothing is.
    """

    part: Part
    error: OrderlyError | None


def open_scan(
    pipeline: Pipeline, round_: Round, selection: Selection, memory: Memory, now: float
) -> dict[str, Opening]:
    """Ask every master; answers by broker name.

    Args:
        pipeline: to ask through.
        round_: of this scan.
        selection: says which groups to ask for singly, if it must be.
        memory: what earlier scans learned; it learns what the brokers say now.
        now: of the memory's clock.
    """
    asked = {
        address: _first_questions(selection, memory.retention_due(broker, now))
        for broker, address in round_.masters.items()
    }
    answers = pipeline.ask_each(asked, round_.deadline)
    openings = {}
    for broker, address in round_.masters.items():
        committed, configs, groups, *retention = answers[address]
        if retention:
            memory.keep_retention(broker, _value(retention[0]), now)
        part = _said(memory.recall(broker), _value(configs), _value(groups))
        if _refused(committed):
            opening = _group_by_group(pipeline, round_, part, selection, committed)
        elif isinstance(committed, OrderlyError):
            opening = Opening(part, committed)
        else:
            opening = Opening(_with_offsets(part, committed), _silence(configs, groups))
        if opening.part.committed is not None:
            memory.learn(opening.part, now)
        openings[broker] = opening
    return openings


def _first_questions(selection: Selection, with_retention: bool) -> Sequence[Question[Any]]:
    asked: list[Question[Any]] = [
        questions.all_committed(selection.named_groups if selection.only_named else None),
        questions.all_topics(),
        questions.all_groups(),
    ]
    return [*asked, questions.retention()] if with_retention else asked


def _value(answer: T | OrderlyError) -> T | None:
    return None if isinstance(answer, OrderlyError) else answer


def _refused(answer: object) -> bool:
    """Whether a broker that is well will not tell; busy ones may tell the next time."""
    return isinstance(answer, BrokerError) and not answer.retriable


def _silence(*answers: object) -> RemotingError | None:
    return next((answer for answer in answers if isinstance(answer, RemotingError)), None)


def _said(
    known: Part, configs: Mapping[str, TopicConfig] | None, groups: frozenset[str] | None
) -> Part:
    """What the broker tells now, and for the rest what it told before."""
    return replace(
        known,
        configs=known.configs if configs is None else configs,
        groups=known.groups if groups is None else groups,
    )


def _with_offsets(part: Part, committed: Mapping[Pair, Mapping[int, int]]) -> Part:
    """With offsets checked: a broker stores any number that anybody commits."""
    checked = {
        pair: offsets if min(offsets.values(), default=0) >= 0 and min(offsets, default=0) >= 0
        else {i: max(offset, NEVER) for i, offset in offsets.items() if i >= 0}
        for pair, offsets in committed.items()
    }  # fmt: skip
    return replace(part, committed=checked, pairs=tuple(committed))


# --- without the right to read all offsets ---------------------------------------------------


def _group_by_group(
    pipeline: Pipeline, round_: Round, part: Part, selection: Selection, refusal: OrderlyError
) -> Opening:
    """Read the offsets of each chosen group; statistics say 0 where nothing was committed."""
    groups = sorted(filter(selection.group, part.groups or selection.named_groups))
    if not groups:
        return Opening(part, refusal)
    address = round_.masters[part.broker]
    stats = pipeline.ask(address, [questions.offsets_of_group(g) for g in groups], round_.deadline)
    read = {g: s for g, s in zip(groups, stats, strict=True) if not isinstance(s, OrderlyError)}
    errors = [answer for answer in stats if isinstance(answer, OrderlyError)]
    if not read:
        return Opening(part, errors[0])
    zeros = _checked_zeros(pipeline, address, read, round_.deadline)
    unread = frozenset(groups) - read.keys()
    found = replace(_with_zeros(part, read, zeros), unread=unread)
    return Opening(found, errors[0] if errors else None)


def _checked_zeros(
    pipeline: Pipeline,
    address: str,
    read: Mapping[str, Mapping[MessageQueue, OffsetPair]],
    deadline: float,
) -> dict[tuple[str, MessageQueue], int]:
    """The offsets said to be 0; NEVER where only the single question tells there is none."""
    doubtful = [
        (group, queue)
        for group, table in read.items()
        for queue, offsets in table.items()
        if offsets.consumer_offset <= 0
    ]
    answers = pipeline.ask(address, [questions.one_committed(*it) for it in doubtful], deadline)
    return {it: _certain(answer) for it, answer in zip(doubtful, answers, strict=True)}


def _certain(answer: int | OrderlyError | None) -> int:
    if isinstance(answer, OrderlyError):
        return NOT_READ
    return NEVER if answer is None else max(answer, NEVER)


def _with_zeros(
    part: Part,
    read: Mapping[str, Mapping[MessageQueue, OffsetPair]],
    zeros: Mapping[tuple[str, MessageQueue], int],
) -> Part:
    committed: dict[Pair, dict[int, int]] = {}
    for group, table in read.items():
        for queue, offsets in table.items():
            offset = zeros.get((group, queue), offsets.consumer_offset)
            committed.setdefault((group, queue.topic), {})[queue.queue_id] = offset
    return replace(part, committed=committed, pairs=tuple(committed))
