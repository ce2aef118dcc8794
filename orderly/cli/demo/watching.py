"""Watches the members at the backlog: draws the queues, has one close half-way, tells the news."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from orderly.cli.demo.consuming import Members
from orderly.cli.demo.screen import Lane, Screen
from orderly.model import MessageQueue

TICK = 0.1  # seconds between looks
PATIENCE = 90.0  # seconds without a delivery until the demo gives up; a lost lease takes 60
Ends = Mapping[MessageQueue, int]
"""For each queue the offset behind its last message."""


def watch_backlog(members: Members, ends: Ends, screen: Screen) -> None:
    """Return when every queue is drained, or when nothing moves any more."""
    started, total = time.monotonic(), sum(ends.values())
    with screen.lanes() as show:

        def drained() -> bool:
            if members.count() * 2 >= total:
                members.let_one_leave()
            _tell_take_over(members, ends, screen)
            show(lanes_of(members, ends))
            return members.drained(ends) == ends.keys()

        wait_until(drained, members, screen)
    members.log.backlog = len(members.log.deliveries), time.monotonic() - started


def wait_until(condition: Callable[[], bool], members: Members, screen: Screen) -> None:
    """Wait for `condition`, or until nothing moves any more, and tell the news."""
    seen, moved = -1, time.monotonic()
    while not condition():
        if len(members.log.deliveries) > seen:
            seen, moved = len(members.log.deliveries), time.monotonic()
        if time.monotonic() - moved > PATIENCE:
            screen.event(f"nothing was delivered for {PATIENCE:.0f} s; giving up")
            break
        _tell(members, screen)
        time.sleep(TICK)
    _tell(members, screen)


def lanes_of(members: Members, ends: Ends) -> list[Lane]:
    """Every queue as it stands."""
    owners = members.owners()
    failing = members.stream.failing
    waiting = failing.queue if failing.waiting else None
    return [
        Lane(
            queue.queue_id,
            end,
            len(members.handled[queue]),
            owners.get(queue, ""),
            waiting=queue == waiting,
        )
        for queue, end in sorted(ends.items())
    ]


def _tell(members: Members, screen: Screen) -> None:
    while members.news:
        screen.event(members.news.popleft())


def _tell_take_over(members: Members, ends: Ends, screen: Screen) -> None:
    take_over = members.log.take_over
    if take_over and not take_over.told and take_over.over(members.drained(ends)):
        take_over.told = True
        screen.event(take_over.story())
