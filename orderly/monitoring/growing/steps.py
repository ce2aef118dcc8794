"""The order of the steps in which a topic grows, and the way back. Pure: a conversation.

The generator yields what is to be done and is sent the answer, or thrown the error. Until the first
broker is opened with more queues all can be put back as it was; from then on only the way forward
is left, for a key may be in its new queue.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from orderly.errors import OrderlyError
from orderly.monitoring.growing.plan import Plan, writable
from orderly.monitoring.growing.standing import Standing, new_messages
from orderly.monitoring.growing.waiting import Patience, Wait
from orderly.protocol.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class Look:
    """How far the topic is drained. Answer: Standing."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Let time pass. Answer: the time then, seconds on a clock that only rises."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Change:
    """Give the topic these settings on one broker. Answer: None."""

    broker: str
    config: TopicConfig


@dataclass(frozen=True, slots=True)
class GrowBookKeeping:
    """Grow the state and park topics of its groups, which must not be smaller. Answer: None."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the operator how far it is. Answer: None."""

    text: str


Step = Look | Pause | Change | GrowBookKeeping | Tell
Steps = Generator[Step, Any, None]


def growing(plan: Plan, patience: Patience) -> Steps:
    """Close the topic, wait until it is drained, give it more queues, open it again.

    Args:
        plan: what is to be done.
        patience: how long to wait.

    Raises:
        OrderlyError: it is still written to (nothing was changed), was not drained in time (all
            is as it was), or could not be put back, or opened, somewhere (the text says where).
        Exception, KeyboardInterrupt: what was thrown in, after all was put back.
    """
    yield from _not_written(patience.watch)
    touched: dict[str, TopicConfig] = {}
    try:
        yield from _changed(plan, plan.closed, touched)
        yield Tell("writing is closed; waiting until all groups have finished")
        yield from _drained(patience)
        yield GrowBookKeeping()
        yield from _changed(plan, plan.widened, touched)
    except (Exception, KeyboardInterrupt) as error:  # a topic left closed helps nobody
        yield from _put_back(plan.topic, touched, error)
        raise
    yield from _opened(plan)


def _changed(
    plan: Plan, settings: Mapping[str, TopicConfig], touched: dict[str, TopicConfig]
) -> Steps:
    for broker, config in settings.items():
        touched[broker] = plan.present[broker]  # before: without an answer it may have been done
        yield Change(broker, config)


def _not_written(watch: float) -> Steps:
    """See that nobody writes."""
    yield Tell(f"watching for {watch:g} s whether it is written to")
    before: Standing = yield Look()
    yield Pause(watch)
    after: Standing = yield Look()
    count = new_messages(before, after)
    if count:
        raise OrderlyError(
            f"the topic is written to: {count} messages in the last {watch:g} s. Stop its producers"
            " first, or give them the new layout as their pin, with which they wait by themselves;"
            " nothing was changed"
        )


def _drained(patience: Patience) -> Steps:
    """Wait until every group has finished, and nothing new came for a while."""
    now: float = yield Pause(0.0)
    wait = Wait(patience, now)
    while True:
        try:
            standing: Standing = yield Look()
        except OrderlyError as error:
            wait.unknown(error, now)
        else:
            wait.seen(standing, now)
        if wait.over:
            return
        yield Tell(wait.reason)
        wait.check(now)
        now = yield Pause(patience.every)


def _put_back(topic: str, touched: Mapping[str, TopicConfig], cause: BaseException) -> Steps:
    """Undo; if that fails somewhere, that is the error to tell."""
    if not touched:
        return
    yield Tell("putting the topic back as it was")
    left = yield from _each(touched)
    if left:
        raise OrderlyError(
            f"{topic} could not be put back as it was on broker {_names(left)}, where it may still"
            " be closed for writing: run the command again when the broker is there (it goes on"
            f" from there), or mqadmin updateTopicPerm -t {topic} -p 6. It was put back because:"
            f" {str(cause) or 'it was interrupted'}"
        ) from cause
    closed = [name for name, config in touched.items() if not writable(config)]
    if closed:
        yield Tell(
            f"it was closed for writing on broker {', '.join(closed)} before this run, and is so"
            f" again: run the command again, or mqadmin updateTopicPerm -t {topic} -p 6"
        )


def _opened(plan: Plan) -> Steps:
    left = yield from _each(plan.grown)
    if left:
        raise OrderlyError(
            f"{plan.topic} is drained and has its queues, but is still closed for writing on broker"
            f" {_names(left)}: run the command again, it goes on from there"
        ) from next(iter(left.values()))
    yield Tell("writing is open again")


def _each(
    settings: Mapping[str, TopicConfig],
) -> Generator[Step, Any, dict[str, BaseException]]:
    """Do it on every broker whatever happens; what failed, by broker."""
    left: dict[str, BaseException] = {}
    for broker, config in settings.items():
        try:
            yield Change(broker, config)
        except (OrderlyError, KeyboardInterrupt) as error:
            left[broker] = error
    return left


def _names(left: Mapping[str, BaseException]) -> str:
    return ", ".join(f"{broker} ({str(error) or 'interrupted'})" for broker, error in left.items())
