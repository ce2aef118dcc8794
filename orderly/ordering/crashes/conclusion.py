"""What a new owner concludes from the records of those before it: who died, and during what.

A living owner writes nothing for this while all is well. That it ended is told by the mark of a
clean end that is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from orderly.ordering.crashes.crashes import MOST_SUSPECTS, NO_CRASHES, Crashes
from orderly.ordering.state.runs import Runs, contains
from orderly.protocol.state_record import Confirm, Entry, Record, Trying


@dataclass(slots=True)
class _Tenure:
    """One owner: what it was handling in the end, as far as it put that on record."""

    owner: str
    token: int
    trying: int | None = None


def unclean_ends(
    newest: Entry | None, later: Iterable[Record | None], heir: str
) -> tuple[int | None, ...]:
    """Return one item for each owner that ended without closing: the offset it was handling.

    None is an owner that was handling no suspect. A member has a new id at each start, so it ended
    once at most, in its last tenure, and the heir not at all: it lost the queue and lives. What a
    stale owner writes after a newer one was confirmed does not count.

    Args:
        newest: the newest entry that counts, if there is one.
        later: the records stored behind it, in order; None is a damaged one.
        heir: client id of the new owner.
    """
    tenures: list[_Tenure] = []
    if newest is not None and not newest.closed:
        tenures.append(_Tenure(newest.owner, newest.token, newest.trying))
    for record in later:
        latest = tenures[-1].token if tenures else -1
        match record:
            case Confirm(owner, token) if token > latest:
                tenures.append(_Tenure(owner, token))
            case Trying(token=token, offset=offset) if token == latest:
                tenures[-1].trying = offset
    last = {tenure.owner: tenure.trying for tenure in tenures if tenure.owner != heir}
    return tuple(last.values())


def conclude(
    newest: Entry | None, ends: tuple[int | None, ...], low: int, finished: Runs
) -> Crashes:
    """Return what the new owner puts on record.

    Progress ends the count, but not a crash loop: there messages are finished one by one until
    the one is found that ends the process. Not for an offset that somebody else set: a reset
    begins with `NO_CRASHES`.

    Args:
        newest: the newest entry that counts, if there is one.
        ends: what `unclean_ends` found.
        low: where the new owner goes on.
        finished: what is finished above that; no such message is to blame.
    """
    before = NO_CRASHES if newest is None else Crashes(newest.deaths, newest.suspects)
    moved = newest is not None and low > newest.low
    deaths = before.deaths + len(ends)
    if moved and not before.looped:
        deaths = min(len(ends), 1)  # only the last owner certainly ended after the progress
    blamed = Counter(dict(before.suspects))
    blamed.update(offset for offset in ends if offset is not None)
    left = [
        (offset, times)
        for offset, times in sorted(blamed.items())
        if offset >= low and not contains(finished, offset)
    ]
    return Crashes(deaths, tuple(left[:MOST_SUSPECTS]))
