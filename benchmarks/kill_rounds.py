"""Rounds of `kill -9` on a random consumer process under traffic; the order oracle judges it all.

    python -m benchmarks.kill_rounds --rounds 20              # the broker's lease shortened to 8 s
    python -m benchmarks.kill_rounds --rounds 3 --lease 60    # as it is in production
    python -m benchmarks.kill_rounds --order key --handler async
    python -m benchmarks.kill_rounds --order key --handler process
    python -m benchmarks.kill_rounds --order key --zombies    # stopped for longer than the lease
    python -m benchmarks.kill_rounds --order key --poison 0.002 --killers 3

By key some keys are stuck at any time, so that much is finished ahead of them, and every handler
writes to accounts that refuse a write by its token. A zombie is a process that was stopped
(SIGSTOP) until others own its queues, and then goes on. With --poison some messages are bad, and
with --killers some end the process that handles them, until an operator, who releases parked keys
all the while, deploys the fix.

Exit code 0: nothing lost, no order broken, no two handlers on one queue (or key), nothing repeated
that was on record, nothing of a key tried before its turn, no write accepted of a former owner,
nothing left parked; 1 otherwise. Repeats are counted: what a killed member had not committed comes
again.
"""

import argparse
import contextlib
import json
import math
import random
import signal
import sys
import time

from benchmarks.kill_parked import park_topic_of
from benchmarks.kill_verdict import judged
from orderly import Client
from orderly.testing.ports import free_port
from tests.support.accounts import Accounts
from tests.support.brokers import Proxy, leasing_broker
from tests.support.members import CONCURRENCY, MemberProcess, by_key
from tests.support.traffic import KEYS, CommitWatch, Operator, Trouble, Writer
from tests.support.waiting import eventually

QUEUES, STUCK = 8, 6
GROUP, TOPIC = "kill-rounds", "orders"
STUCK_FOR = 60.0  # seconds until other keys are stuck
ENDS = {"exit": 3, "sigkill": -signal.SIGKILL}  # how a killer ends its process, and its exit code
MOST_FAILURES = 5  # starts for which a busy machine's broker did not answer in time
HANDLERS = ("sync", "async", "listener", "process")  # process: executor="process"
# Seconds over the lease until all queues are held again; the report tells how long it took. A
# process that is killed while it joins may be counted as a member for two minutes.
WITHIN = 300.0


class Processes:
    """The group's member processes, killed ones included: their deliveries count.

    Args:
        start: starts one.
        count: how many live at a time.
        may_die: whether members may end by themselves; others are started then.

    """

    def __init__(self, start, count, *, may_die=False):
        self._start, self._may_die = start, may_die
        self.live = [start() for _ in range(count)]
        self.dead, self.died, self.failed, self._resumed = [], 0, 0, []

    @property
    def everybody(self):
        return (*self.dead, *self.live)

    def kill_one(self, chance):
        """Kill a random one and start another in its place."""
        self._replace(chance.choice(self.live))

    def replace_dead(self):
        """Start another in the place of each one that ended by itself."""
        for member in [member for member in self.live if not member.alive]:
            killed = member.exit_code in ENDS.values()
            self.died, self.failed = self.died + killed, self.failed + (not killed)
            if self.failed > MOST_FAILURES:
                raise RuntimeError(f"members fail, the last one with exit code {member.exit_code}")
            self._replace(member)

    def _replace(self, member):
        self.live.remove(member)
        member.kill()
        self.dead.append(member)
        self.live.append(self._start())

    def settled(self, without=None):
        """Whether every queue is held, each by one member, and no member is idle."""
        if self._may_die:
            self.replace_dead()
        elif not all(member.alive for member in self.live):
            raise RuntimeError("a member ended by itself")
        members = [member for member in self.live if member is not without]
        held = [queue for member in members for queue in member.held]
        alive = all(member.alive for member in members)
        return alive and sorted(held) == list(range(QUEUES)) and all(m.held for m in members)

    def stop_one(self, chance, cut, lease):
        """Stop a random one until others own its queues, and wake it; returns what that took."""
        zombie = chance.choice(self.live)
        queues, stopped = set(zombie.held), time.monotonic()
        lost = len(zombie.lost)
        zombie.stop()
        cut(zombie.client_id)  # or the broker counts it as a member for two minutes
        eventually(lambda: self.settled(without=zombie), within=lease + WITHIN, every=0.05)
        seconds = time.monotonic() - stopped
        time.sleep(chance.uniform(0.5, 2.0))  # the new owners go on meanwhile
        resumed = time.monotonic()
        zombie.resume()
        eventually(lambda: set(zombie.lost[lost:]) >= queues, within=WITHIN)
        self._resumed.append((zombie, resumed))
        return seconds

    def in_hand(self):
        """What zombies had in hand while they were stopped, beside the new owners.

        Asked at the end: a zombie tells of it some time after it tells what it lost.
        """
        return [
            event
            for zombie, resumed in self._resumed
            for event in list(zombie.events)
            if event.started < resumed < event.ended
        ]

    def events(self):
        """All deliveries in the order in which they began."""
        events = [event for member in self.everybody for event in list(member.events)]
        return sorted(events, key=lambda event: event.started)

    def close(self):
        for member in self.live:
            with contextlib.suppress(ProcessLookupError):
                member.resume()
            member.close()


def run(given):
    """All rounds; returns the report."""
    chance = random.Random(given.seed)
    with contextlib.ExitStack() as stack:
        broker, cut = _broker(given, stack)
        with Client(namesrv=broker.namesrv) as client:
            client.admin.create_topic(TOPIC, QUEUES)
        accounts = stack.enter_context(Accounts(KEYS))
        accounts.trouble = Trouble(given.poison)
        writer = Writer(broker.namesrv, TOPIC, pause=1 / given.rate)
        commits = CommitWatch(broker.broker_address, GROUP, TOPIC, QUEUES)
        start = _starting(broker.namesrv, accounts, given)
        processes = Processes(start, given.members, may_die=given.killers > 0)
        stack.callback(processes.close)
        for part in (writer, commits):
            part.start()
            stack.callback(part.finish)
        operator = _operator(broker.namesrv, accounts, given, stack)
        takeovers = list(_rounds(processes, accounts, cut, chance, given))
        writer.finish()
        accounts.frozen = frozenset()
        _drain(writer, processes, operator, given)
        commits.finish()
        parked = operator and park_topic_of(operator, broker.namesrv, GROUP, TOPIC)
        more = {"takeovers": takeovers, "given": given, "parked": parked}
        return judged(writer.sent, processes, commits, accounts, **more)


def _starting(namesrv, accounts, given):
    """What starts a member."""
    chance = random.Random(given.seed)

    def start():
        more = ()
        if given.order == "key":
            death = f"--death={chance.choice(tuple(ENDS))}"
            more = [*by_key(accounts, given.handler, given.commit, given.concurrency), death]
        settings = {"lease": given.lease, "seconds": given.seconds, "more": more}
        return MemberProcess(namesrv, GROUP, TOPIC, **settings)

    return start


def _broker(given, stack):
    """A broker, and what cuts a client's connections to it."""
    if not given.zombies:
        return stack.enter_context(leasing_broker(given.lease)), None
    port = free_port(-2, 1)
    proxy = stack.enter_context(Proxy(f"127.0.0.2:{port}", f"127.0.0.1:{port}"))
    properties = {"brokerIP1": "127.0.0.2"}
    broker = leasing_broker(given.lease, broker_port=port, broker_properties=properties)
    return stack.enter_context(broker), proxy.cut


def _operator(namesrv, accounts, given, stack):
    """Who releases what is parked; None: nothing will be."""
    if not given.poison and not given.killers:
        return None
    settings = {"killers": given.killers, "patience": 2 * given.lease + 5}
    chance = random.Random(given.seed)
    operator = Operator(namesrv, GROUP, TOPIC, accounts, chance, **settings)
    operator.start()
    stack.callback(operator.close)
    return operator


def _rounds(processes, accounts, cut, chance, given):
    """Run them; yields how long each take-over took (seconds)."""
    stuck_until = 0.0
    for number in range(given.rounds):
        eventually(processes.settled, within=given.lease + WITHIN, every=0.05)
        if given.order == "key" and time.monotonic() > stuck_until:
            free = sorted(set(KEYS) - accounts.trouble.deadly)
            accounts.frozen = frozenset(chance.sample(free, STUCK))
            stuck_until = time.monotonic() + STUCK_FOR
        time.sleep(chance.uniform(0.5, 2.5))  # not always at the same moment of a lease
        if given.zombies:
            seconds = processes.stop_one(chance, cut, given.lease)
        else:
            killed = time.monotonic()
            processes.kill_one(chance)
            eventually(processes.settled, within=given.lease + WITHIN, every=0.05)
            seconds = time.monotonic() - killed
        print(f"round {number + 1}: all queues held again after {seconds:.1f} s", file=sys.stderr)
        yield seconds


def _drain(writer, processes, operator, given):
    """Wait until all was handled; if nothing happens any more, the verdict counts what is lost."""
    sent = {record.id for record in writer.sent}
    handled, since = 0, time.monotonic()

    def done():
        if operator:
            processes.replace_dead()
        return sent <= {event.id for event in processes.events()}

    def stalled():
        nonlocal handled, since
        if len(processes.events()) > handled:
            handled, since = len(processes.events()), time.monotonic()
        return time.monotonic() > since + given.lease + WITHIN

    if operator:
        operator.finish(done, stalled)
    eventually(lambda: done() or stalled(), within=math.inf, every=0.5)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--lease", type=float, default=8.0, help="the broker's, in seconds")
    parser.add_argument("--members", type=int, default=3, help="consumer processes at a time")
    parser.add_argument("--rate", type=float, default=200.0, help="messages sent per second")
    parser.add_argument("--seed", type=int, default=1, help="of the random choices")
    parser.add_argument("--order", choices=("queue", "key"), default="queue")
    parser.add_argument("--handler", choices=HANDLERS, default="sync")
    parser.add_argument("--seconds", type=float, default=0.0, help="a handler takes")
    parser.add_argument(
        "--concurrency", type=int, default=CONCURRENCY, help="by key: handlers of a member at once"
    )
    parser.add_argument("--commit", type=float, default=0.5, help="by key: seconds between commits")
    parser.add_argument("--zombies", action="store_true", help="by key: stop members, kill none")
    parser.add_argument("--poison", type=float, default=0.0, help="by key: share of bad messages")
    parser.add_argument(
        "--killers", type=int, default=0, help="by key: messages that end processes"
    )
    given = parser.parse_args()
    if given.order == "queue" and (given.zombies or given.poison or given.killers):
        parser.error("--zombies, --poison and --killers need --order key")
    if given.order == "queue" and given.handler != "sync":
        parser.error(f"--handler {given.handler} needs --order key")
    if given.zombies and given.killers:
        parser.error("--zombies and --killers: a process that ended cannot wake")
    if given.handler == "process" and given.killers:
        parser.error("--handler process and --killers: a worker that ends ends no member")
    report = run(given)
    print(json.dumps(report, indent=2))
    sys.exit(0 if report["ok"] else 1)


if __name__ == "__main__":
    main()
