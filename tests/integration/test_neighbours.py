"""Members of other clients beside ours in one group, on one topic: queues go to and fro, some die.

Each round one of them, ours or theirs, comes or leaves, and every other one of theirs is killed
instead; the oracle judges all of it.
docs/proof/neighbours.md has what three minutes showed: ORDERLY_NEIGHBOUR_SECONDS=180, and `-s`.
"""

import contextlib
import itertools
import os
import random
import time

import pytest

from orderly.testing import judge
from tests.integration.test_java_member import Group, Traffic, until_all_handled
from tests.support.java import build_go_member, compile_member
from tests.versions.__main__ import jars_of

SECONDS = float(os.environ.get("ORDERLY_NEIGHBOUR_SECONDS", "40"))
BETWEEN = (3.0, 8.0)  # seconds from one change to the next
QUEUES = 8
KINDS = {
    "Java 5.5.0": compile_member,
    "Java 4.9.7": lambda folder: compile_member(folder, jars_of("4.9.7")),
    "Go 2.1.2": build_go_member,
}


class Neighbourhood:
    """A group in which ours and theirs come and go; at least one of each is there.

    Args:
        group: what the members are in.
        chance: what happens next.

    Attributes:
        changes: how many there were, by what was done.
    """

    def __init__(self, group, chance):
        self.changes = dict.fromkeys(("joined", "left", "killed"), 0)
        self._group, self._chance = group, chance
        self._ours = [group.start_ours()]
        self._theirs = [group.start_java()]
        self._killed = itertools.cycle((True, False))

    def change(self):
        """Let one member of either kind come, leave or die."""
        of_ours = self._chance.random() < 0.5
        members = self._ours if of_ours else self._theirs
        if len(members) == 1:
            members.append(self._group.start_ours() if of_ours else self._group.start_java())
            self.changes["joined"] += 1
            return
        leaving = members.pop(0)
        if of_ours:
            leaving.close()
            self.changes["left"] += 1
        elif next(self._killed):
            leaving.kill()
            self.changes["killed"] += 1
        else:
            leaving.stop()
            self.changes["left"] += 1


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_ours_and_theirs_share_a_group_and_nothing_is_lost_or_reordered(
    kind, orderly_namesrv, orderly_topic, tmp_path
):
    command, topic = KINDS[kind](tmp_path), orderly_topic(queues=QUEUES)
    chance = random.Random(7)
    with contextlib.ExitStack() as closing, Traffic(orderly_namesrv, topic) as traffic:
        group = Group(orderly_namesrv, topic, command, closing)
        neighbourhood = Neighbourhood(group, chance)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            time.sleep(chance.uniform(*BETWEEN))
            neighbourhood.change()
        traffic.stop()
        with contextlib.suppress(AssertionError):  # the verdict says what is missing
            until_all_handled(group, traffic.sent)
    verdict = judge(traffic.sent, group.all_deliveries())
    theirs = sum(len(member.deliveries) for member in group.java)
    print(f"\n{kind}: {neighbourhood.changes}, {theirs} deliveries of theirs: {verdict}")
    assert theirs
    assert group.ours.deliveries
    assert verdict.ok, verdict
