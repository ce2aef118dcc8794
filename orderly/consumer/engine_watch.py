"""Whether the engine runs what it is given, and what follows if it does not.

The event loop was stopped, or a coroutine blocks it; the system starts no more threads. Then
messages wait although there is room for them, the locks are renewed, and no other member gets the
queues. After `lock_trust` seconds this member is as good as gone: it gives its queues up, leaves
the group and is not ready. It comes back when something begins again. After twice that time it is
not live: by then it holds nothing that a restart would keep from others for longer. A loop that
was closed never runs again: the consumer fails.

A queue whose handler runs stays locked until it ends, as in every hand-over.
"""

from __future__ import annotations

from collections.abc import Callable

from orderly.clock import now
from orderly.consumer.hung_calls import thread_stack
from orderly.consumer.session import Session
from orderly.consumer.workers import Engine

DEAD = 2.0  # times lock_trust: then the member is not live


class EngineWatch:
    """One thread calls `round`, every second; any thread may ask.

    Args:
        session: the consumer's shared state; its `standing` is set here.
        engine: what is looked at.
        failed: called once, with the reason, if the engine can never run again; must not block.

    Attributes:
        gone: that reason; None: it may run.
    """

    def __init__(self, session: Session, engine: Engine, failed: Callable[[str], None]) -> None:
        self._session = session
        self._engine = engine
        self._failed = failed
        self._begun = engine.begun
        self._since: float | None = None
        self._told = 0
        self.gone: str | None = None

    def round(self) -> None:
        """Look once."""
        engine = self._engine
        if engine.gone is not None:
            self._fail(engine.gone)
            return
        begun, before = engine.begun, self._begun
        self._begun = begun
        if begun != before or not (engine.waits or self._session.standing):
            self._goes_on()
        elif self._since is None:
            self._since = now()
        else:
            self._stands(self.seconds)
        engine.nudge(standing=self._session.standing)

    @property
    def seconds(self) -> float:
        """For how long nothing has begun although something waits and there is room; 0: it does."""
        since = self._since
        return 0.0 if since is None else self._session.client.awake.since(since)

    @property
    def dead(self) -> bool:
        """Whether that has been so for so long that the process should end."""
        return self.seconds >= DEAD * self._session.config.lock_trust

    @property
    def reason(self) -> str | None:
        """Why this member is not ready, for people; None: its engine runs, or is late."""
        standing = self._session.standing
        if not standing and (self._since is None or not self._engine.stopped):
            return None
        given_up = "; the queues are given up until it runs again" if standing else ""
        return (
            f"no handler call has begun for {self.seconds:.0f} s although there is room for it:"
            f" {self._engine.trouble}{given_up}"
        )

    def _stands(self, seconds: float) -> None:
        trust = self._session.config.lock_trust
        stage = int(seconds >= trust) + int(seconds >= DEAD * trust)
        if stage <= self._told:
            return
        self._told = stage
        engine = self._engine
        stack = None if engine.thread is None else thread_stack(engine.thread)
        more = {"stack": stack} if stack else {}
        self._session.log.error(
            "engine.stands", seconds=round(seconds, 1), why=engine.trouble, **more
        )
        self._session.standing = True
        self._session.attention()

    def _goes_on(self) -> None:
        seconds, self._since, self._told = self.seconds, None, 0
        if self._session.standing:
            self._session.standing = False
            self._session.log.warning("engine.goes_on", seconds=round(seconds, 1))
            self._session.attention()

    def _fail(self, reason: str) -> None:
        if self.gone is None:
            self.gone = reason
            self._session.log.error("engine.gone", why=reason)
            self._failed(reason)
