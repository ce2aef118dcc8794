"""Members of other clients beside ours in one group, on one topic: queues go to and fro, some die.

Each round one of them, ours or theirs, comes or leaves, and every other one of theirs is killed
instead; the oracle judges all of it.
docs/proof/neighbours.md has what three minutes showed: ORDERLY_NEIGHBOUR_SECONDS=180, and `-s`.
"""

import contextlib
import dataclasses
import itertools
import os
import random
import time
from pathlib import Path

import pytest

from benchmarks.peers import proxy, venvs
from benchmarks.peers.bench import GRPC
from orderly import ConsumerConfig, OrderlyConsumer
from orderly.errors import ConfigError
from orderly.protocol.groups import GroupConfig
from orderly.protocol.topics import MessageType
from orderly.testing import judge
from orderly.testing.ports import free_port
from tests.integration.test_java_member import Group, Traffic, until_all_handled
from tests.support.consuming import unique
from tests.support.java import ForeignMember, build_go_member, compile_member
from tests.support.optional import param
from tests.support.waiting import eventually
from tests.versions.__main__ import jars_of

GRPC_MEMBER = Path(__file__).parents[1] / "support" / "grpc_member.py"
SECONDS = float(os.environ.get("ORDERLY_NEIGHBOUR_SECONDS", "40"))
BETWEEN = (3.0, 8.0)  # seconds from one change to the next
QUEUES = 8
KINDS = {
    "Java 5.5.0": compile_member,
    "Java 4.9.7": lambda folder: compile_member(folder, jars_of("4.9.7")),
    "Go 2.1.2": build_go_member,
}
PROGRAMS = {"Java 5.5.0": "jdk", "Java 4.9.7": "jdk", "Go 2.1.2": "go"}


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
@pytest.mark.parametrize("kind", [param(kind, PROGRAMS[kind]) for kind in KINDS])
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


@pytest.fixture
def grpc(orderly_namesrv):
    """The ports of a proxy for both protocols: (gRPC, remoting)."""
    port = free_port()
    with proxy.running(orderly_namesrv, port) as address:
        yield address, f"127.0.0.1:{port}"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_grpc_member_handles_queues_that_ours_hold_and_where_one_is_ours_does_not_start(
    orderly_namesrv, client, grpc, closing
):
    """So that docs/how-to/proxy.md warns of something that is true."""
    topic = unique("topic")
    client.admin.create_topic(topic, QUEUES, message_type=MessageType.FIFO)
    over_grpc, remoting = grpc
    python = venvs.python_with("rocketmq-python-client", GRPC)
    with contextlib.ExitStack() as members, Traffic(orderly_namesrv, topic) as traffic:
        group = Group(remoting, topic, None, members)
        client.housekeeping.put_group(GroupConfig(name=group.name, orderly=True))
        group.start_ours()
        eventually(lambda: group.ours.deliveries)
        theirs = ForeignMember([str(python), str(GRPC_MEMBER)], over_grpc, group.name, topic)
        group.java.append(members.enter_context(theirs))
        eventually(lambda: theirs.deliveries, within=60)
        time.sleep(SECONDS)
        config = ConsumerConfig(order="queue")
        late = OrderlyConsumer(group.name, group.ours, namesrv=remoting, config=config)
        with pytest.raises(ConfigError, match=r"over gRPC.*Stop them first"):
            closing(late.subscribe(topic))
        traffic.stop()
        with contextlib.suppress(AssertionError):
            until_all_handled(group, traffic.sent)
    placed = {sent.id: (sent.queue, sent.offset) for sent in traffic.sent}
    found = [
        dataclasses.replace(d, queue=placed[d.id][0], offset=placed[d.id][1])
        for d in theirs.deliveries
    ]
    both = sorted([*group.ours.deliveries, *found], key=lambda d: (d.started, d.ended))
    verdict = judge(traffic.sent, both)
    print(f"\ngRPC: {len(found)} deliveries of theirs: {verdict}")
    assert found
    assert verdict.overlaps, "two members handled one queue"
