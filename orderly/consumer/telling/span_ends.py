"""Tells of queues that are consumed ahead as far as may be, and now wait for one key."""

from __future__ import annotations

from orderly.consumer.session import Held, Session, now
from orderly.log import key_text
from orderly.ordering.explain import Explanation, explain


class SpanEnds:
    """Not thread-safe: one periodic thread calls it.

    Args:
        session: the consumer's shared state.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: frozenset[Held] = frozenset()

    def tell(self) -> None:
        """Warn of each queue that came to its span's end since the last call.

        Once, until it is pulled again: it is pulled again when half of the span is worked off.
        """
        waiting = set()
        for held in self._session.held():
            found = self._look(held)
            if found is not None:
                waiting.add(held)
                if held not in self._waiting:
                    _warn(held, found)
        self._waiting = frozenset(waiting)

    def _look(self, held: Held) -> Explanation | None:
        with held.lock:
            owned = held.owned
            still = owned.throttled and held in self._waiting
            if owned.dropped is None and (owned.at_span_end or still):
                return explain(owned, now())
        return None


def _warn(held: Held, found: Explanation) -> None:
    held.log.warning(
        "queue.span_reached",
        offset=found.offset,
        key=key_text(found.key),
        attempt=found.attempt,
        span=found.span,
        why=found.why.name,
        hint="one key is too far behind the others (max_span): look at its handler",
    )
