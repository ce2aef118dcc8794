"""Rounds of `kill -9` on a random consumer process under traffic; the order oracle judges it all.

    python -m benchmarks.kill_rounds --rounds 20              # the broker's lease shortened to 8 s
    python -m benchmarks.kill_rounds --rounds 3 --lease 60    # as it is in production

Exit code 0: nothing lost, no order broken, no two handlers on one queue; 1 otherwise. Repeats are
counted: what a killed member had not committed comes again.
"""

import argparse
import contextlib
import json
import random
import statistics
import sys
import time

from orderly import Client
from orderly.testing import judge
from tests.support.commit_watch import CommitWatch
from tests.support.leases import leasing_broker
from tests.support.member_process import MemberProcess
from tests.support.traffic import Writer
from tests.support.waiting import eventually

QUEUES = 8
GROUP, TOPIC = "kill-rounds", "orders"


class Processes:
    """The group's member processes, killed ones included: their deliveries count.

    Args:
        start: starts one.
        count: how many live at a time.
    """

    def __init__(self, start, count):
        self._start = start
        self.live = [start() for _ in range(count)]
        self.dead = []

    def kill_one(self, chance):
        """Kill a random one and start another in its place; returns when it was killed."""
        victim = self.live.pop(chance.randrange(len(self.live)))
        killed = time.monotonic()
        victim.kill()
        self.dead.append(victim)
        self.live.append(self._start())
        return killed

    def settled(self):
        """Whether every queue is held, each by one member, and no member is idle."""
        assert all(member.alive for member in self.live), "a member ended by itself"
        held = [queue for member in self.live for queue in member.held]
        return sorted(held) == list(range(QUEUES)) and all(m.held for m in self.live)

    def events(self):
        """All deliveries in the order in which they began."""
        everybody = (*self.dead, *self.live)
        events = [event for member in everybody for event in list(member.events)]
        return sorted(events, key=lambda event: event.started)

    def close(self):
        for member in self.live:
            member.close()


def run(given):
    """All rounds; returns the report."""
    chance = random.Random(given.seed)
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(leasing_broker(given.lease))
        with Client(namesrv=broker.namesrv) as client:
            client.admin.create_topic(TOPIC, QUEUES)
        writer = Writer(broker.namesrv, TOPIC, pause=1 / given.rate)
        commits = CommitWatch(broker.broker_address, GROUP, TOPIC, QUEUES)
        processes = Processes(
            lambda: MemberProcess(broker.namesrv, GROUP, TOPIC, lease=given.lease), given.members
        )
        stack.callback(processes.close)
        for part in (writer, commits):
            part.start()
            stack.callback(part.finish)
        takeovers = [_round(n, processes, chance, given) for n in range(given.rounds)]
        return _judged(writer, commits, processes, takeovers, given)


def _round(number, processes, chance, given):
    eventually(processes.settled, within=given.lease + 60, every=0.05)
    time.sleep(chance.uniform(0.5, 2.5))  # not always at the same moment of a lease
    killed = processes.kill_one(chance)
    eventually(processes.settled, within=given.lease + 60, every=0.05)
    seconds = time.monotonic() - killed
    print(f"round {number + 1}: all queues held again after {seconds:.1f} s", file=sys.stderr)
    return seconds


def _judged(writer, commits, processes, takeovers, given):
    writer.finish()
    missing = lambda: {s.id for s in writer.sent} - {e.id for e in processes.events()}  # noqa: E731
    with contextlib.suppress(AssertionError):  # then the verdict counts what is lost
        eventually(lambda: not missing(), within=given.lease + 60, every=0.5)
    commits.finish()
    events = processes.events()
    verdict = judge(writer.sent, events)
    wrong = commits.violations(events)
    counts = ("sent", "delivered", "duplicates", "log_duplicates", "lost", "disorder", "skipped",
              "overlaps", "unknown")  # fmt: skip
    return {
        "ok": verdict.ok and not wrong,
        "kills": len(takeovers),
        "members": given.members,
        "lease_seconds": given.lease,
        **{name: getattr(verdict, name) for name in counts},
        "wrong_commits": len(wrong),
        "takeover_seconds_median": round(statistics.median(takeovers), 1),
        "takeover_seconds_max": round(max(takeovers), 1),
        "seed": given.seed,
        "examples": [*verdict.examples, *wrong[:10]],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lease", type=float, default=8.0, help="the broker's, in seconds")
    parser.add_argument("--members", type=int, default=3, help="consumer processes at a time")
    parser.add_argument("--rate", type=float, default=200.0, help="messages sent per second")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    report = run(parser.parse_args())
    print(json.dumps(report, indent=2))
    sys.exit(0 if report["ok"] else 1)


if __name__ == "__main__":
    main()
