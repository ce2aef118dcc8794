"""Where keys would go with other numbers of queues: every selector that looks at keys, at once.

Each worker tries them on its own keys and tells sums by queue, so no key leaves it. The places are
those of `orderly.spark.placing`, which are proven to be those of `orderly.selectors`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orderly.model import MessageQueue
from orderly.monitoring.skew.what_if import queues_if
from orderly.selectors import KEYED, Layout, queues_of
from orderly.spark.placing import NUMBERS, PLACES, Numbers, stored_numbers

NEW = -1  # the place, now, of a queue that is not there

TRIED = pa.schema(
    [
        pa.field("selector", pa.string(), nullable=False),
        pa.field("queues", pa.int32(), nullable=False),
        pa.field("place", pa.int32(), nullable=False),  # NEW: the selector does not take the keys
        pa.field("messages", pa.int64(), nullable=False),
        pa.field("moved", pa.int64(), nullable=False),  # of these, that lie in another queue now
    ]
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tried. Picklable.

    Attributes:
        present: the queues that hold messages now, in counting order.
        tried: the queues by their number, in counting order.
    """

    present: tuple[MessageQueue, ...]
    tried: dict[int, tuple[MessageQueue, ...]]


def plan(layout: Layout, topic: str, found: Iterable[MessageQueue], numbers: Iterable[int]) -> Plan:
    """Plan trials.

    Args:
        layout: of the topic, now.
        topic: its name.
        found: queues that hold messages; some may be written to no longer.
        numbers: of queues, to try beside the present one.
    """
    now = queues_of(layout, topic)
    present = (*now, *sorted(set(found) - set(now)))
    return Plan(
        present,
        {number: queues_if(layout, topic, number) for number in sorted({len(now), *numbers})},
    )


def tried(batches: Iterable[pa.RecordBatch], of: Plan) -> Iterator[pa.RecordBatch]:
    """Try everything on counts of keys, and tell sums.

    Args:
        batches: `key` (not null), `broker`, `queue_id`, `n` messages of it there.
        of: what to try.

    Returns:
        One batch of TRIED.
    """
    trials = _Trials(of)
    for batch in batches:
        if batch.num_rows:
            trials.add(batch)
    yield trials.told()


class _Trials:
    """Adds up what would be where."""

    def __init__(self, of: Plan) -> None:
        self._plan = of
        self._place = {
            (queue.broker_name, queue.queue_id): place for place, queue in enumerate(of.present)
        }
        place = {queue: number for number, queue in enumerate(of.present)}
        self._homes = {  # where each queue, as the selector counts them, is among the present ones
            (name, number): np.array([place.get(it, NEW) for it in KEYED[name].counted(queues)])
            for name in NUMBERS
            for number, queues in of.tried.items()
        }
        self._sums = {
            (name, number): np.zeros((2, number), np.int64) for name, number in self._homes
        }
        self._refused: set[str] = set()

    def add(self, batch: pa.RecordBatch) -> None:
        """Try all selectors on some keys."""
        messages = batch["n"].to_numpy(zero_copy_only=False)
        present = self._present(batch)
        for name in NUMBERS.keys() - self._refused:
            numbers = numbers_of(name, batch["key"])
            if numbers is None:
                self._refused.add(name)
                continue
            for number in self._plan.tried:
                chosen = PLACES[name](numbers, number)
                moved = np.where(self._homes[name, number][chosen] != present, messages, 0)
                sums = self._sums[name, number]
                sums[0] += _summed(chosen, messages, number)
                sums[1] += _summed(chosen, moved, number)

    def _present(self, batch: pa.RecordBatch) -> Numbers:
        """The place of each row's queue."""
        brokers = batch["broker"].dictionary_encode()
        ids = batch["queue_id"].to_numpy(zero_copy_only=False)
        names = brokers.dictionary.to_pylist()
        table = np.full((len(names), int(ids.max()) + 1), NEW)
        for (broker, queue_id), place in self._place.items():
            if broker in names and queue_id < table.shape[1]:
                table[names.index(broker), queue_id] = place
        found: Numbers = table[brokers.indices.to_numpy(), ids]
        return found

    def told(self) -> pa.RecordBatch:
        """All sums; of a selector that refused a key only that."""
        parts = [
            [(name, number, place, *map(int, pair)) for place, pair in enumerate(sums.T)]
            for (name, number), sums in self._sums.items()
            if name not in self._refused
        ]
        parts.append([(name, 0, NEW, 0, 0) for name in self._refused])
        columns = zip(*(row for part in parts for row in part), strict=True)
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, TRIED, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=TRIED)


def numbers_of(selector: str, keys: pa.Array) -> Numbers | None:
    """What a selector makes of stored keys; None: it takes no such keys."""
    taken = stored_numbers(keys) if selector == "numeric_mod" else keys
    return None if taken is None else NUMBERS[selector](taken)


def _summed(chosen: Numbers, messages: npt.NDArray[np.int64], number: int) -> Numbers:
    """Messages by place. Sums of a batch are far below 2^53, where floats are exact."""
    return np.bincount(chosen, weights=messages, minlength=number).astype(np.int64)


def head_loads(
    selector: str, keys: Sequence[str], messages: Sequence[int], number: int
) -> npt.NDArray[np.int64]:
    """Messages by place of a few keys alone, that the selector takes."""
    numbers = numbers_of(selector, pa.array(keys, pa.string()))
    assert numbers is not None
    return _summed(PLACES[selector](numbers, number), np.array(messages, np.int64), number)
