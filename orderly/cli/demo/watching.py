"""Watches the two consumers: draws the queues, closes one half-way, notices when all is done."""

from __future__ import annotations

import time

from orderly.cli.demo.consuming import ConsumeLog, Duo
from orderly.cli.demo.screen import Lane, LaneBoard, Screen
from orderly.model import MessageQueue

TICK = 0.1  # seconds between looks
PATIENCE = 90.0  # seconds without a delivery until the demo gives up; a lost lease takes 60


def watch(duo: Duo, screen: Screen) -> ConsumeLog:
    """Return when every queue is drained, or when nothing moves any more."""
    started = time.monotonic()
    with duo:
        with screen.lanes() as show:
            _until_drained(duo, screen, show)
        duo.log.seconds = time.monotonic() - started
    _tell(duo, screen)
    return duo.log


def _until_drained(duo: Duo, screen: Screen, show: LaneBoard) -> None:
    total, seen, moved = sum(duo.ends.values()), 0, time.monotonic()
    while (done := sum(duo.done.values())) < total:
        if len(duo.log.deliveries) > seen:
            seen, moved = len(duo.log.deliveries), time.monotonic()
        if time.monotonic() - moved > PATIENCE:
            screen.event(f"nothing was delivered for {PATIENCE:.0f} s; giving up")
            return
        if done * 2 >= total:
            duo.let_one_leave()
        _tell(duo, screen)
        show(lanes_of(duo))
        time.sleep(TICK)


def lanes_of(duo: Duo) -> list[Lane]:
    """Every queue as it stands."""
    owners = duo.owners()
    waiting = duo.failing.queue if duo.failing.waiting else None
    return [
        Lane(queue.queue_id, end, duo.done[queue], owners.get(queue, ""), waiting=queue == waiting)
        for queue, end in sorted(duo.ends.items())
    ]


def _tell(duo: Duo, screen: Screen) -> None:
    while duo.news:
        screen.event(duo.news.popleft())
    take_over = duo.log.take_over
    if take_over and not take_over.told and take_over.over(_drained(duo)):
        take_over.told = True
        screen.event(take_over.story())


def _drained(duo: Duo) -> set[MessageQueue]:
    return {queue for queue, end in duo.ends.items() if duo.done[queue] >= end}
