"""A member in a process of its own, to be killed or stopped: prints a JSON line for each event.

Usage: python -m tests.support.member NAMESRV GROUP TOPIC [--lease S] [--seconds S] [--clock S]
    [--order queue|key] [--handler sync|async|listener|process] [--concurrency N] [--stuck KEY]
    [--commit S] [--accounts PORT] [--deadly KEY/NUMBER] [--death exit|sigkill|segfault]

It ends when its standard input ends. `member_process.MemberProcess` runs it and reads the lines.
"""

import argparse
import sys
import threading
import time

from tenacity import stop_after_attempt

from orderly import Client, Listener, OrderlyConsumer, PoisonRules, Retry
from orderly.config.consumer import BROKER_LEASE
from orderly.config.park_limits import ParkLimits
from orderly.consumer.hooks import ConsumerHooks
from orderly.ordering.calls import AppendRecord, QueryOffset, SaveOffset
from orderly.protocol.state_record import Entry, decode_record
from tests.support.accounts import AccountsClient
from tests.support.leases import client_config, consumer_config
from tests.support.member_handlers import Handler, InWorkers, tell

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
        consumer = OrderlyConsumer(given.group, act, client=client, config=config, hooks=hooks)
        tell_saves(consumer._session, given.topic)
        with consumer.subscribe(given.topic):
            sys.stdin.read()


if __name__ == "__main__":
    main()
