"""The demo's last act: live traffic, a record nobody can read, a fix, and a release in order."""

from __future__ import annotations

import time

from orderly.cli.demo.bad_record import Parking
from orderly.cli.demo.consuming import Members
from orderly.cli.demo.screen import Screen
from orderly.cli.demo.watching import wait_until
from orderly.monitoring.parked import ParkedMessages

PARK_PATIENCE = 30.0  # seconds until it must be parked
SHOWN_PARKED = 2.5  # seconds for which the aircraft stays parked, at least


def park_and_release(members: Members, parked: ParkedMessages, screen: Screen) -> Parking:
    """Wait until the bad record's key is parked; deploy the fix; release the key.

    Live traffic is to go on meanwhile.

    Raises:
        OrderlyError: the command to release it was not answered.
    """
    bad = members.stream.bad
    parking = Parking(bad)
    late = time.monotonic() + PARK_PATIENCE
    wait_until(lambda: members.parked() > 0 or time.monotonic() > late, members, screen)
    if not members.parked():
        screen.event(f"{bad.key} was not parked within {PARK_PATIENCE:.0f} s")
        return parking
    parking.parked_at = time.monotonic()
    screen.event(f"{bad.key} is parked: its later events wait in order, all others run on")
    until = parking.parked_at + SHOWN_PARKED
    wait_until(lambda: time.monotonic() >= until, members, screen)
    for report in parked.list().keys:
        screen.event(f"orderly parked list: {report.key}, {report.messages} messages by now")
    members.deploy_the_fix()
    screen.event("the fix is deployed: consumer C runs it, A is closed; what is parked stays so")
    parking.outcomes = parked.release(bad.key)
    parking.released_at = time.monotonic()
    how = "replayed in order" if parking.ok else "replayed, then it stopped"
    screen.event(f"orderly parked release: {parking.settled} messages of {bad.key} {how}")
    return parking
