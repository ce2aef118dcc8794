"""A ledger in PostgreSQL, kept by member processes: what it holds tells every repeat and every gap.

Usage: python -m tests.support.ledger NAMESRV GROUP TOPIC --lease S --ledger URL

That is a member, which ends when its standard input ends. `LedgerMember` runs it.
"""

import argparse
import contextlib
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from functools import partial

import sqlalchemy as sa

from orderly import Ack, Client, Message, OrderlyConsumer
from orderly.consumer.hooks import ConsumerHooks
from orderly.errors import LockLost
from orderly.once import Once, Verdict
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.properties import encode_properties
from orderly.protocol.send import SendMessage
from tests.support.brokers import SHORT, client_config, consumer_config, join, proxied_broker
from tests.support.members import MemberProcess, tell
from tests.support.waiting import await_visible, eventually, patient_client, patient_producer

# --- ledger ---------------------------------------------------------------------------------------
# A ledger in PostgreSQL, kept by member processes: what it holds tells every repeat and every gap.
#
# An entry multiplies before it adds, so balances differ if one is missing, double or out of place.


ACCOUNTS = [f"account-{n}" for n in range(24)]
MODULUS = 1_000_003
THINKING = 0.03  # seconds before an entry: whoever is stopped is stopped here, and wakes up late
RESENT = 0.1  # share of the messages that are stored twice

_metadata = sa.MetaData()
_accounts = sa.Table(
    "account",
    _metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("balance", sa.BigInteger, nullable=False),
)
_journal = sa.Table(  # one line for each verdict that was committed
    "journal",
    _metadata,
    sa.Column("line", sa.BigInteger, primary_key=True),
    sa.Column("account", sa.Text, nullable=False),
    sa.Column("queue_offset", sa.BigInteger, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
)
_once = Once(metadata=_metadata)


def entered(balance, amount):
    """The balance after an entry."""
    return (balance * 31 + amount) % MODULUS


def ledger_handler(url):
    """The handler of a member process."""
    engine = sa.create_engine(url, pool_size=4, max_overflow=4)

    def handle(messages, context):
        time.sleep(THINKING)
        for message in messages:
            try:
                with engine.begin() as db:
                    verdict = _once.apply(db, message, context)
                    if verdict:
                        _enter(db, message)
                    _note(db, message, verdict)
            except LockLost:
                with engine.begin() as db:
                    _note(db, message, Verdict.STALE_OWNER)
                raise
        return Ack()

    return handle


def _enter(db, message):
    mine = _accounts.c.id == message.sharding_key
    balance = entered(_accounts.c.balance, int(message.body))
    db.execute(sa.update(_accounts).where(mine).values(balance=balance))


def _note(db, message, verdict):
    where = {"account": message.sharding_key, "queue_offset": message.queue_offset}
    db.execute(sa.insert(_journal).values(where | {"verdict": verdict.value}))


class Ledger:
    """The tables, as the test sees them."""

    def __init__(self, url):
        self._engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
        _metadata.drop_all(self._engine)
        _metadata.create_all(self._engine)
        with self._engine.begin() as db:
            rows = [{"id": account, "balance": 0} for account in ACCOUNTS]
            db.execute(sa.insert(_accounts), rows)

    def close(self):
        self._engine.dispose()

    def balances(self):
        with self._engine.connect() as db:
            return dict(map(tuple, db.execute(sa.select(_accounts))))

    def verdicts(self):
        """How often each verdict was committed."""
        count = sa.select(_journal.c.verdict, sa.func.count()).group_by(_journal.c.verdict)
        with self._engine.connect() as db:
            return Counter(dict(map(tuple, db.execute(count))))

    def applied(self):
        """By account: offsets in the order in which they were applied."""
        found = defaultdict(list)
        query = sa.select(_journal.c.account, _journal.c.queue_offset).order_by(_journal.c.line)
        with self._engine.connect() as db:
            for account, offset in db.execute(query.where(_journal.c.verdict == "apply")):
                found[account].append(offset)
        return found


class Bookkeeper:
    """Sends entries until told to stop; some again with their id, as after a lost answer.

    Attributes:
        expected: the balances, by the entries that were sent.
        sent, resent: how many.
    """

    def __init__(self, namesrv, topic, seed, pause=0.005):
        self.expected = dict.fromkeys(ACCOUNTS, 0)
        self.sent = self.resent = 0
        self._namesrv, self._topic, self._pause = namesrv, topic, pause
        self._chance = random.Random(seed)
        self._stop = threading.Event()
        self._failure = None
        self._thread = threading.Thread(target=self._run, name="bookkeeper", daemon=True)

    def start(self):
        self._thread.start()

    def finish(self):
        """Stop; raises if a send failed."""
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self):
        try:
            with (
                patient_client(self._namesrv) as client,
                patient_producer(self._namesrv) as producer,
            ):
                while not self._stop.wait(self._pause):
                    self._enter(client, producer)
        except Exception as error:
            self._failure = error

    def _enter(self, client, producer):
        account, amount = self._chance.choice(ACCOUNTS), self._chance.randrange(1000)
        message = Message(self._topic, b"%d" % amount, sharding_key=account)
        result = producer.send(message)
        self.expected[account] = entered(self.expected[account], amount)
        self.sent += 1
        if self._chance.random() < RESENT:
            _send_again(client, message, result)
            self.resent += 1


def _send_again(client, message, result):
    properties = {"__SHARDINGKEY": message.sharding_key, "UNIQ_KEY": result.message_id}
    header = SendMessage(
        producer_group="bookkeeper",
        topic=message.topic,
        queue_id=result.queue.queue_id,
        born_timestamp=0,
        properties=encode_properties(properties),
    )
    client.brokers.send_now(result.queue, request(header.code, to_ext(header), message.body))


# --- ledger member --------------------------------------------------------------------------------
# A member in a process of its own that keeps the ledger; it tells what queues it holds.


COMMIT = 3.0  # seconds; rarely put on record, so that a killed member leaves much to be repeated


class LedgerMember(MemberProcess):
    """Runs this module in a process of its own."""

    program = __name__


def teller(name):
    return lambda queues: tell(**{name: [queue.queue_id for queue in queues]})


def main():
    parser = argparse.ArgumentParser()
    for name in ("namesrv", "group", "topic", "--ledger"):
        parser.add_argument(name)
    for name in ("--lease", "--seconds", "--clock"):
        parser.add_argument(name, type=float)
    given = parser.parse_args()
    hooks = ConsumerHooks(**{name: teller(name) for name in ("assigned", "revoked", "lost")})
    config = consumer_config(given.lease, order="key", commit_interval=COMMIT)
    with Client(client_config(given.lease, given.namesrv)) as client:
        tell(client_id=client.client_id)
        handler = ledger_handler(given.ledger)
        new = partial(
            OrderlyConsumer, given.group, handler, client=client, config=config, hooks=hooks
        )
        with contextlib.closing(join(new, given.topic)):
            sys.stdin.read()


# --- ledger rounds --------------------------------------------------------------------------------
# Rounds of killed and stopped members that keep a ledger; used by a test and by a benchmark.


QUEUES = 6
MEMBERS = 3


class LedgerRounds:
    """Three members under traffic; as a context manager everything ends with it.

    Args:
        url: of PostgreSQL.
        group, topic: new ones.
        seed: of the random choices.
    """

    def __init__(self, url, group, topic, seed=1):
        self._url, self._group, self._topic, self._seed = url, group, topic, seed
        self._chance, self._members = random.Random(seed), []

    def __enter__(self):
        with contextlib.ExitStack() as ends:
            self._ends = ends  # what is started is ended, also if the start fails
            self.ledger = ends.enter_context(contextlib.closing(Ledger(self._url)))
            self._proxy, broker = ends.enter_context(proxied_broker())
            self._namesrv = broker.namesrv
            with patient_client(self._namesrv) as client:
                client.admin.create_topic(self._topic, QUEUES)
            for _ in range(MEMBERS):
                self._join()
            self.books = Bookkeeper(self._namesrv, self._topic, self._seed)
            self.books.start()
            ends.callback(self.books.finish)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_):
        self._ends.close()

    def strike(self):
        """Kill a member, stop another for longer than its lease, and have the third inherit all."""
        eventually(lambda: self._shared(self._members), within=SHORT + 50, every=0.05)
        self._goes_on(100)
        killed, stopped, heir = self._chance.sample(self._members, MEMBERS)
        killed.kill()
        stopped.stop()
        self._proxy.cut(stopped.client_id)  # or it stays on the broker's list for two minutes
        try:
            eventually(lambda: self._shared([heir]), within=SHORT + 50, every=0.05)
            self._goes_on(100)
        finally:
            stopped.resume()
        self._members.remove(killed)
        self._join()

    def settle(self):
        """Stop sending, and give the members the time to handle all that was sent."""
        self.books.finish()
        stored = self._stored()

        def handled():
            found = self.ledger.verdicts()
            return found["apply"] + found["duplicate"] >= stored

        with contextlib.suppress(AssertionError):  # the report then says what is missing
            eventually(handled, within=SHORT + 60, every=0.2)

    def report(self):
        """What the ledger says of all rounds; "ok" if every entry is in it once and in order."""
        found, books = self.ledger.verdicts(), self.books
        balances, applied = self.ledger.balances(), self.ledger.applied().values()
        misplaced = sum(offsets != sorted(set(offsets)) for offsets in applied)
        stored = self._stored()
        complete = found["apply"] == books.sent and found["apply"] + found["duplicate"] == stored
        return {
            "ok": balances == books.expected and complete and not misplaced,
            "entries": books.sent,
            "stored": stored,
            "wrong_balances": sum(balances[a] != books.expected[a] for a in ACCOUNTS),
            "accounts_out_of_order": misplaced,
            **{name: found[name] for name in ("apply", "repeat", "duplicate", "stale_owner")},
        }

    def _stored(self):
        """Messages in the log: on a busy machine the producer itself stores one twice, too."""
        with patient_client(self._namesrv) as client:
            await_visible(client)
            queues = client.routes.get(self._topic).write_queues()
            return sum(client.brokers.max_offset(queue) for queue in queues)

    def _join(self):
        member = LedgerMember(
            self._namesrv,
            self._group,
            self._topic,
            lease=SHORT,
            more=(f"--ledger={self._url}",),
        )
        self._ends.callback(member.close)
        self._members.append(member)

    def _shared(self, members):
        held = [queue for member in members for queue in member.held]
        return sorted(held) == list(range(QUEUES)) and all(member.held for member in members)

    def _goes_on(self, entries):
        goal = self.ledger.verdicts()["apply"] + entries
        eventually(lambda: self.ledger.verdicts()["apply"] >= goal, within=60, every=0.2)


if __name__ == "__main__":
    main()
