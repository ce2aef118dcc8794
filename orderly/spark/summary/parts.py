"""Summaries as columns of numpy, and their sum: neighbours of the same key become one.

A message is the smallest summary, so one rule (`fold`) makes summaries of messages, and few
summaries of many. It is associative: what comes out does not depend on where one splits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from orderly.spark.summary.groups import Bools, Groups, Ints


@dataclass(frozen=True, slots=True)
class Numbers:
    """What was judged: the columns that a part with nothing judged does not have.

    Attributes:
        first_uniq, last_uniq: None: an equal number is the same message, whatever its id.
    """

    first: Ints
    last: Ints
    least: Ints
    greatest: Ints
    first_uniq: pa.StringArray | None = None
    last_uniq: pa.StringArray | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Summaries in the order of their offsets; columns as in SCHEMA.

    Counts that are the same for all (a message is 1) may be arrays without strides, which take
    no memory. `numbers` has a row for each part; where `judged` is 0 it may hold anything.
    """

    n: Ints
    judged: Ints
    first_offset: Ints
    last_offset: Ints
    first_store: Ints
    last_store: Ints
    falls: Ints
    repeats: Ints
    jumps: Ints
    numbers: Numbers


def fold(codes: Ints, parts: Parts) -> Parts:
    """Make one part of all with the same code.

    Args:
        codes: one for each part; 0 to K - 1, and each of them is there.
        parts: of one queue, in the order of their offsets.

    Returns:
        K parts, in the order of the codes.
    """
    groups = Groups.by(codes)
    judged = parts.judged > 0
    with_numbers = groups if judged.all() else groups.only(judged)
    seen = codes[with_numbers.firsts]  # codes with something judged
    falls, repeats, jumps = (
        _scattered(with_numbers.count(marked), seen, len(groups.starts))
        for marked in _between(with_numbers, parts.numbers)
    )
    return Parts(
        n=groups.sums(parts.n),
        judged=groups.sums(parts.judged),
        first_offset=parts.first_offset[groups.firsts],
        last_offset=parts.last_offset[groups.lasts],
        first_store=parts.first_store[groups.firsts],
        last_store=parts.last_store[groups.lasts],
        falls=groups.sums(parts.falls) + falls,
        repeats=groups.sums(parts.repeats) + repeats,
        jumps=groups.sums(parts.jumps) + jumps,
        numbers=_folded(with_numbers, parts.numbers, seen, len(groups.starts)),
    )


def _between(groups: Groups, numbers: Numbers) -> tuple[Bools, Bools, Bools]:
    """Where neighbours of a group fall, repeat, jump; for each place but the first."""
    inner = groups.inner()
    before = numbers.last[groups.order[:-1]]
    after = numbers.first[groups.order[1:]]
    falls = inner & (after < before)
    if numbers.first_uniq is not None and numbers.last_uniq is not None:
        same = pc.equal(
            numbers.last_uniq.take(pa.array(groups.order[:-1])),
            numbers.first_uniq.take(pa.array(groups.order[1:])),
        )
        repeats = inner & same.fill_null(False).to_numpy(zero_copy_only=False)
        return falls, repeats, np.zeros_like(inner)
    # `after - 1` cannot run over where after > before.
    jumps = inner & (after > before) & (after - 1 > before)
    return falls, inner & (after == before), jumps


def _folded(groups: Groups, numbers: Numbers, seen: Ints, size: int) -> Numbers:
    firsts, lasts = groups.firsts, groups.lasts
    first_uniq, last_uniq = numbers.first_uniq, numbers.last_uniq
    return Numbers(
        _scattered(numbers.first[firsts], seen, size),
        _scattered(numbers.last[lasts], seen, size),
        _scattered(groups.least(numbers.least), seen, size),
        _scattered(groups.greatest(numbers.greatest), seen, size),
        None if first_uniq is None else _placed(first_uniq, firsts, seen, size),
        None if last_uniq is None else _placed(last_uniq, lasts, seen, size),
    )


def _scattered(values: Ints, places: Ints, size: int) -> Ints:
    """The values at their places among `size`, 0 elsewhere."""
    if len(values) == size:
        return values  # codes are in order, so places are 0, 1, 2, …
    scattered = np.zeros(size, np.int64)
    scattered[places] = values
    return scattered


def _placed(texts: pa.StringArray, rows: Ints, places: Ints, size: int) -> pa.StringArray:
    """Texts of these rows at their places among `size`, null elsewhere."""
    row_at = np.full(size, -1, np.int64)
    row_at[places] = rows
    return texts.take(pa.array(row_at, mask=row_at < 0))
