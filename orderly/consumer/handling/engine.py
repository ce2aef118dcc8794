"""What runs on threads and runs in tasks have in common.

A run claims its place, takes one batch after another and ends, or it fails and puts back what it
had in work. Java: ConsumeMessageOrderlyService.ConsumeRequest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

from orderly.consumer.handling.calling import Caller
from orderly.consumer.handling.finishing import Finisher
from orderly.consumer.handling.suspect_runs import SuspectRuns
from orderly.consumer.parking.setting_aside import SettingAside
from orderly.consumer.session import Held, Session, now
from orderly.ordering.lane import Batch
from orderly.ordering.results import Disposition


class Engine(ABC):
    """Feeds a handler. Thread-safe.

    Args:
        session: the consumer's shared state.
        caller: calls the user's handler.
        reopened: called after a batch, when there is something to pull again.
    """

    def __init__(self, session: Session, caller: Caller, reopened: Callable[[Held], None]) -> None:
        self._session = session
        self._caller = caller
        self._reopened = reopened
        self._finisher = Finisher(session, self.ready, reopened)
        self._suspect_runs = SuspectRuns(session, self._finisher, self.ready)

    @property
    def aside(self) -> SettingAside:
        """What parks messages."""
        return self._finisher.aside

    def ready(self, held: Held) -> None:
        """Start a run of a queue that has something to hand out, unless enough are under way."""
        with held.lock:
            claimed = held.owned.request_run()
        if claimed:
            self._submit(held)

    @abstractmethod
    def interrupt(self, held: Held) -> None:
        """The queue is lost: stop what works on it, where that is possible."""

    @abstractmethod
    def close(self) -> None:
        """Let running handlers end; start no more. Does not wait."""

    @abstractmethod
    def abandon(self) -> None:
        """Free what can never end, for what it ran on is gone."""

    @property
    @abstractmethod
    def inside(self) -> bool:
        """True on a thread on which to wait for a handler would be for ever."""

    @property
    def handling(self) -> bool:
        """True if it is a handler that asks."""
        return self.inside

    @abstractmethod
    def _submit(self, held: Held) -> None:
        """Let a claimed run begin, once there is room for it."""

    def _submit_later(self, held: Held, error: RuntimeError) -> None:
        """There was no thread, or no loop, to begin on: the run keeps its claim and waits."""
        if held.owned.dropped is None:
            held.log.error("run.not_started", error=str(error))
            self._session.client.schedule.after(
                self._session.config.suspend, partial(self._submit, held)
            )

    def _take(self, held: Held) -> Batch | None:
        if held.owned.suspects.on:
            return self._take_in_turn(held)
        return self._take_next(held)

    def _take_in_turn(self, held: Held) -> Batch | None:
        """Take the next batch if no other queue tries a suspect; else the run ends until then."""
        if not self._suspect_runs.enter(held):
            with held.lock:
                held.owned.end_run()
            self._suspect_runs.stand_by(held)
            return None
        batch = self._take_next(held)
        if not self._suspect_runs.is_suspect(held, batch):
            self._suspect_runs.leave(held)
        return batch

    def _take_next(self, held: Held) -> Batch | None:
        with held.lock:
            batch = held.owned.take(self._session.config.batch_size, now(), held.stretch)
            another = batch is not None and held.owned.request_run()
        if another:
            self._submit(held)
        if batch is not None and held.owned.by_key:
            self.aside.saw(batch.key)
        return batch

    def _end_errand(self, held: Held, batch: Batch) -> None:
        with held.lock:
            held.owned.give_back(batch)

    def _failed(self, held: Held, batch: Batch | None) -> None:
        """End a run that broke down or was cancelled: its lane waits as after a failure.

        It is not the handler's failure but ours, the logging's or the program's; no attempt is
        counted.
        """
        seconds = self._session.config.suspend
        with held.lock:
            held.owned.begin_run()  # a cancelled task may not even have begun
            if batch is not None and held.owned.messages.in_work(batch):
                untried = {message.queue_offset for message in batch.messages}
                held.owned.finish(batch, Disposition.ROLLBACK, now(), untried=untried, wait=seconds)
            held.owned.end_run()
        self._suspect_runs.break_off(held)
        self._finisher.wake_later(held, seconds)
