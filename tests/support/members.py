"""Members in processes of their own, to be killed or stopped, and who judges what they tell.

Usage: python -m tests.support.members NAMESRV GROUP TOPIC [--lease S] [--seconds S] [--clock S]
    [--order queue|key] [--handler sync|async|listener|process] [--concurrency N] [--stuck KEY]
    [--commit S] [--accounts PORT] [--deadly KEY/NUMBER] [--death exit|sigkill|segfault]

A member prints a JSON line for each event, and ends when its standard input ends. `MemberProcess`
runs it and reads the lines.
"""

import argparse
import asyncio
import contextlib
import ctypes
import fcntl
import functools
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from tenacity import stop_after_attempt

from orderly import (
    Ack,
    Client,
    ConsumeResult,
    Listener,
    OrderlyConsumer,
    Park,
    PoisonRules,
    Retry,
    Suspend,
)
from orderly.config.consumer import BROKER_LEASE, ParkLimits
from orderly.consumer.hooks import ConsumerHooks
from orderly.ordering.broker_calls import AppendRecord, QueryOffset, SaveOffset
from orderly.protocol.state_record import Entry, decode_record
from orderly.testing import Delivered
from tests.support.accounts import BAD, DEADLY, FROZEN, REFUSED, AccountsClient
from tests.support.brokers import client_config, consumer_config, join

# --- ownerships -----------------------------------------------------------------------------------
# Judges a run by key, owner after owner: what came again, beside what was on record by then.
#
# An *ownership* is one member's time with a queue, under one token. All from what members told.


@dataclass(frozen=True)
class Saved:
    """A commit that succeeded.

    Attributes:
        asked: when it began (seconds, monotonic): what was finished before is in it.
        low: everything below is finished.
        runs: finished above it since the last record, half-open.
        parked: keys that are newly parked, or have moved on, with the offset that is next in each.
        released: keys that are parked no more.
        whole: `parked` has all that are.
    """

    queue: int
    token: int
    asked: float
    low: int
    runs: tuple
    parked: tuple = ()
    released: tuple = ()
    whole: bool = False


@dataclass
class QueueOwnership:
    """One ownership of a queue.

    Attributes:
        member: whose.
        events, saves: what it told.
        repeats: its deliveries that later owners had again.
        early: those of them that had ended before its last record was begun.
        fresh: its deliveries that ended after that.
        ahead: how many messages were on record as finished ahead at its end.
    """

    queue: int
    token: int
    member: object
    events: list = field(default_factory=list)
    saves: list = field(default_factory=list)
    repeats: int = 0
    early: int = 0
    fresh: int = 0
    ahead: int = 0

    @property
    def began(self):
        return min(event.started for event in self.events)

    @property
    def unsaved_for(self):
        """Seconds from the last commit, or the first delivery, to the last delivery."""
        since = self.saves[-1].asked if self.saves else self.began
        return max(0.0, max((event.ended for event in self.events), default=0.0) - since)


@dataclass
class Judged:
    """All ownerships, and what was wrong, in words."""

    ownerships: list
    faults: list

    def of(self, member):
        """That member's."""
        return [ownership for ownership in self.ownerships if ownership.member is member]


def by_lane(records):
    """The oracle's records with the key as the unit of order instead of the queue."""
    return [replace(record, queue=(record.queue, record.key)) for record in records]


def judge_ownerships(members, concurrency):
    """Judge what `MemberProcess`es told.

    Args:
        members: all there were.
        concurrency: handlers that may be in work at once: their results may have come too late
            for a record that was begun after they ended.
    """
    queues, faults = _ownerships(members), []
    for ownerships in queues.values():
        faults += _wrong_tokens(ownerships)
        faults += _recorded_and_repeated(ownerships)
        _count(ownerships)
    found = [ownership for ownerships in queues.values() for ownership in ownerships]
    for ownership in found:
        if ownership.early > concurrency:
            faults.append(
                f"queue {ownership.queue}, token {ownership.token}: {ownership.early} messages came"
                " again that had been finished before the last record"
            )
    return Judged(found, faults)


def _ownerships(members):
    """By queue, in the order of their tokens."""
    found = {}
    for member in members:
        for token, event in zip(list(member.tokens), list(member.events), strict=False):
            _of(found, event.queue, token, member).events.append(event)
        for saved in list(member.saves):
            _of(found, saved.queue, saved.token, member).saves.append(saved)
    queues = defaultdict(list)
    for (queue, *_), ownership in sorted(found.items(), key=lambda item: item[0][:2]):
        queues[queue].append(ownership)
    return queues


def _of(found, queue, token, member):
    return found.setdefault((queue, token, id(member)), QueueOwnership(queue, token, member))


def _wrong_tokens(ownerships):
    """Tokens that two owners had, or that did not rise from one owner to the next."""
    faults, handling = [], [ownership for ownership in ownerships if ownership.events]
    for before, after in pairwise(ownerships):
        if before.token == after.token:
            faults.append(f"queue {before.queue}: two owners had token {before.token}")
    for before, after in pairwise(handling):
        if after.began < before.began:
            faults.append(
                f"queue {after.queue}: token {after.token} was in use before {before.token}"
            )
    return faults


def _recorded_and_repeated(ownerships):
    """Messages that were on record as finished, and that a later owner had all the same.

    Of a key that is parked on record only what was replayed by then is finished.
    """
    faults, low, ahead, parked = [], 0, set(), {}
    for ownership in ownerships:
        faults += [
            f"queue {event.queue}: offset {event.offset} was on record, and came again to the"
            f" owner with token {ownership.token}"
            for event in ownership.events
            if event.offset < parked.get(event.key, math.inf)
            and (event.offset < low or event.offset in ahead)
        ]
        for saved in ownership.saves:
            low = max(low, saved.low)
            ahead.update(*(range(*run) for run in saved.runs))
            kept = {} if saved.whole else parked
            parked = {k: n for k, n in kept.items() if k not in saved.released} | dict(saved.parked)
        ahead = {offset for offset in ahead if offset >= low}
        ownership.ahead = len(ahead)
    return faults


def _count(ownerships):
    later = set()
    for ownership in reversed(ownerships):
        recorded = ownership.saves[-1].asked if ownership.saves else 0.0
        again = [event for event in ownership.events if event.offset in later]
        ownership.repeats = len(again)
        ownership.early = sum(event.ended < recorded for event in again)
        ownership.fresh = sum(event.ended >= recorded for event in ownership.events)
        later.update(event.offset for event in ownership.events)


# --- deaths ---------------------------------------------------------------------------------------
# How a handler may end its whole process: from within, by a signal, and by a defect in C code.


def exit_at_once():
    """As a library does that gives up."""
    os._exit(3)


def kill_itself():
    """As the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def segfault():
    """As an extension module with a wild pointer does."""
    ctypes.string_at(0)


DEATHS = {"exit": exit_at_once, "sigkill": kill_itself, "segfault": segfault}


# --- member handlers ------------------------------------------------------------------------------
# What the member in a process of its own does with a message; it says what it has done.


SOON = 0.2  # seconds
_telling = threading.Lock()


def tell(**event):
    """Write one line at once and whole, whatever thread, process or signal comes."""
    line = json.dumps(event).encode() + b"\n"
    with _telling, _only_this_process():
        while line:  # what is longer than a pipe takes at once is written in parts
            line = line[os.write(1, line) :]


@contextlib.contextmanager
def _only_this_process():
    """Keep others out of standard output: worker processes share it. A killed one lets go."""
    fcntl.flock(_output(), fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(_output(), fcntl.LOCK_UN)


@functools.cache
def _output():
    """Standard output, opened by this process itself, for a lock is the opened file's."""
    return os.open("/proc/self/fd/1", os.O_WRONLY)


class Handler:
    """Takes so long for each batch, writes to the accounts, and tells what it did.

    Args:
        seconds: how long it takes.
        stuck: a key that never succeeds; nothing is told of it.
        accounts: an `AccountsClient`, or None.
        owner: who writes there.
        deadly: "KEY/NUMBER" of a message that ends the process.
        death: how (`DEATHS`).
    """

    def __init__(self, seconds, stuck=None, accounts=None, owner="", deadly=None, death="sigkill"):
        self._deadly, self._death = deadly, DEATHS[death]
        self._seconds, self._stuck = seconds, stuck
        self._accounts, self._owner = accounts, owner

    def plain(self, messages, context):
        """The handler as a function."""
        started = time.monotonic()
        time.sleep(self._seconds)
        return self._handled(messages, context, started)

    async def coroutine(self, messages, context):
        """The handler as an `async def`, and a stubborn one: it goes on when it is cancelled."""
        started = time.monotonic()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(self._seconds)
        return self._handled(messages, context, started)

    def listened(self, message, attempt):
        """The handler as a listener's function: what is bad raises, for each key its own class."""
        started = time.monotonic()
        time.sleep(self._seconds)
        answer = self._done(message, attempt, started)
        if answer == BAD:
            raise type(f"BadAccount{message.sharding_key}", (ValueError,), {})
        return Suspend(SOON) if answer in (FROZEN, REFUSED) else Ack()

    def _handled(self, messages, context, started):
        if self._stuck is not None and messages[0].sharding_key == self._stuck:
            return ConsumeResult.SUSPEND
        for m in messages:
            answer = self._done(m, context, started)
            if answer == BAD:
                return Park("no account takes it")
            if answer in (FROZEN, REFUSED):
                return ConsumeResult.SUSPEND
        return ConsumeResult.SUCCESS

    def _done(self, message, context, started):
        """Write, and tell it if that is done; returns what the accounts answered."""
        answer = self._write(message, context)
        if answer == DEADLY or f"{message.sharding_key}/{message.body.decode()}" == self._deadly:
            self._death()
        if answer not in (BAD, FROZEN, REFUSED):
            tell(
                key=message.sharding_key,
                id=message.message_id,
                queue=message.queue.queue_id,
                offset=message.queue_offset,
                started=started,
                ended=time.monotonic(),
                token=context.token,
            )
        return answer

    def _write(self, message, context):
        return self._accounts and self._accounts.write(
            owner=self._owner,
            queue=message.queue.queue_id,
            key=message.sharding_key,
            number=int(message.body),
            token=context.token,
            replayed=context.replayed,
        )


class InWorkers:
    """The handler for worker processes: each makes its own, which writes on its own connection.

    Args:
        seconds, owner: as for `Handler`.
        port: of the accounts.
    """

    def __init__(self, seconds, port, owner):
        self._given = seconds, port, owner

    def __call__(self, messages, context):
        return self._handler.plain(messages, context)

    @functools.cached_property
    def _handler(self):
        seconds, port, owner = self._given
        return Handler(seconds, accounts=port and AccountsClient(port), owner=owner)


# --- member ---------------------------------------------------------------------------------------
# A member in a process of its own, to be killed or stopped: prints a JSON line for each event.


LANES = {
    "suspend": 0.2,  # seconds; who is stuck shall not sleep for long
    "max_suspend": 2.0,
    "parking": ParkLimits(ratio=1),  # of a few keys soon every one was parked once
}
LISTENER = {
    "on_poison": "park_key",
    "retry": Retry(stop=stop_after_attempt(1), max_seconds=0.5),
    "poison": PoisonRules(
        attempts=2,
        spacing=0.1,
        span=0.5,
        patience=2.0,
        first_wait=0.3,
        longest_wait=1.0,
        window=10.0,
        memory=10.0,
        most_poisoned=1000,
    ),
}


def teller(name):
    return lambda queues: tell(**{name: [queue.queue_id for queue in queues]})


def tell_saves(session, topic):
    """Have each commit by key told that succeeded: what is finished is then on record."""

    here, perform, converse = threading.local(), session.perform, session.converse

    def noting(call):
        answer = perform(call)
        getattr(here, "done", []).append(call)
        return answer

    def telling(dialogue, *more):
        asked, here.done = time.monotonic(), []
        result = converse(dialogue, *more)
        if result is None:  # a refusal, or a take-over, is no commit
            _tell_saved(session, topic, asked, here.done)
        return result

    session.perform, session.converse = noting, telling


def _tell_saved(session, topic, asked, done):
    records = [decode_record(call.body) for call in done if isinstance(call, AppendRecord)]
    entries = [record for record in records if isinstance(record, Entry)]
    lows = [entry.low for entry in entries]
    lows += [call.offset for call in done if isinstance(call, SaveOffset)]
    queues = {call.queue for call in done if isinstance(call, QueryOffset | SaveOffset)}
    for held in session.held():
        if lows and held.queue in queues and held.queue.topic == topic and held.memory:
            tell(
                saved=held.queue.queue_id,
                token=held.memory.fencing_token,
                asked=asked,
                low=max(lows),
                runs=[run for entry in entries for run in entry.runs],
                parked=[(key.key, key.next) for entry in entries for key in entry.parked],
                released=[key for entry in entries for key in entry.released],
                whole=any(entry.chunks for entry in entries),
            )


def shift_wall_clock(seconds):
    """Have this process see another time of day."""
    true_time = time.time
    time.time = lambda: true_time() + seconds


def options():
    parser = argparse.ArgumentParser()
    for name in ("namesrv", "group", "topic"):
        parser.add_argument(name)
    parser.add_argument("--lease", type=float, default=BROKER_LEASE)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--clock", type=float, default=0.0)
    parser.add_argument("--order", default="queue")
    parser.add_argument("--handler", default="sync")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--stuck")
    parser.add_argument("--commit", type=float)
    parser.add_argument("--accounts", type=int)
    parser.add_argument("--deadly")
    parser.add_argument("--death", default="sigkill")
    return parser.parse_args()


def settings(given):
    """The consumer's, as far as they were given."""
    chosen = {"commit_interval": given.commit, "concurrency": given.concurrency}
    named = {name: value for name, value in chosen.items() if value is not None}
    if given.handler == "process":
        named["executor"] = "process"
    return named | (LANES if given.order == "key" else {})


def main():
    given = options()
    shift_wall_clock(given.clock)
    hooks = ConsumerHooks(**{name: teller(name) for name in ("assigned", "revoked", "lost")})
    accounts = given.accounts and AccountsClient(given.accounts)
    with Client(client_config(given.lease, given.namesrv)) as client:
        tell(client_id=client.client_id)
        config = consumer_config(given.lease, order=given.order, **settings(given))
        more = {"deadly": given.deadly, "death": given.death}
        handler = Handler(given.seconds, given.stuck, accounts, client.client_id, **more)
        acts = {
            "async": handler.coroutine,
            "sync": handler.plain,
            "process": InWorkers(given.seconds, given.accounts, client.client_id),
        }
        act = acts.get(given.handler) or Listener(handler.listened, **LISTENER)

        def new():
            consumer = OrderlyConsumer(given.group, act, client=client, config=config, hooks=hooks)
            tell_saves(consumer._session, given.topic)
            return consumer

        with contextlib.closing(join(new, given.topic)):
            sys.stdin.read()


# --- member process -------------------------------------------------------------------------------
# Runs a member in a process of its own and reads what it tells.


ROOT = Path(__file__).parents[2]
CONCURRENCY = 8


def by_key(accounts, handler="sync", commit=0.5, concurrency=CONCURRENCY):
    """Options of a member that keeps order by key and writes to `Accounts`.

    Args:
        accounts: what its handlers write to.
        handler: "sync", "async", "listener", or "process": in worker processes.
        commit: seconds between its commits.
        concurrency: its handlers at once.
    """
    return [
        "--order=key",
        f"--handler={handler}",
        f"--concurrency={concurrency}",
        f"--commit={commit}",
        f"--accounts={accounts.port}",
    ]


class MemberProcess:
    """A member of the group, from construction on; it ends with this process.

    Args:
        namesrv, group, topic: what it consumes.
        lease: of the broker, seconds.
        seconds: what its handler takes for each message.
        clock: seconds by which its time of day is wrong.
        more: further options of `tests.support.members`, as in "--order=key".

    Attributes:
        events: its deliveries, in the order in which they ended.
        tokens: of each, the fencing token of its queue; None with order by queue.
        saves: with order by key, its commits as far as they succeeded (`Saved`), in their order.
        client_id: of its client, once it was told.
        held: ids of the queues it says it holds now.
        lost: ids of the queues whose lock it lost, each as often as that happened.
    """

    program = "tests.support.members"
    root = ROOT

    def __init__(
        self, namesrv, group, topic, *, lease=BROKER_LEASE, seconds=0.0, clock=0.0, more=()
    ):
        options = [f"--lease={lease}", f"--seconds={seconds}", f"--clock={clock}", *more]
        command = [sys.executable, "-m", self.program, namesrv, group, topic, *options]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=self.root)
        self.events, self.held, self.lost = [], set(), []
        self.tokens, self.saves = [], []
        self.client_id = None
        self._reader = threading.Thread(target=self._read, name="member-reader", daemon=True)
        self._reader.start()

    @property
    def alive(self):
        """Whether the process runs (or is stopped)."""
        return self._process.poll() is None

    @property
    def exit_code(self):
        """How it ended, as subprocess tells; None: it runs."""
        return self._process.poll()

    def kill(self):
        """End it with SIGKILL; its deliveries until then are known when this returns."""
        self._process.kill()
        self._end()

    def stop(self):
        """Stop it where it is (SIGSTOP); it runs no further when this returns.

        The signal goes to one of its threads, and only when a busy machine runs that one do the
        others stop.
        """
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self):
        """Let a stopped one go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self):
        """Have it close its consumer, and wait for its end. Idempotent."""
        if not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def _end(self):
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._process.stdin.close()

    def _read(self):
        for line in self._process.stdout:
            if not line.endswith(b"\n"):  # killed in the middle of it
                return
            told = json.loads(line)
            if "offset" in told:
                self.tokens.append(told.pop("token"))
                self.events.append(Delivered(**told))
                continue
            if "saved" in told:
                self.saves.append(Saved(queue=told.pop("saved"), **told))
            self.client_id = told.get("client_id", self.client_id)
            self.held |= set(told.get("assigned", ()))
            self.held -= {*told.get("revoked", ()), *told.get("lost", ())}
            self.lost += told.get("lost", ())


if __name__ == "__main__":
    from tests.support import members  # where worker processes look for handlers

    members.main()
