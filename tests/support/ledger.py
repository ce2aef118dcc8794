"""A ledger in PostgreSQL, kept by member processes: what it holds tells every repeat and every gap.

An entry multiplies before it adds, so balances differ if one is missing, double or out of place.
"""

import random
import threading
import time
from collections import Counter, defaultdict

import sqlalchemy as sa

from orderly import Ack, Message
from orderly.errors import LockLost
from orderly.once import Once, Verdict
from orderly.protocol.ext import to_ext
from orderly.protocol.frame import request
from orderly.protocol.headers import SendMessage
from orderly.protocol.properties import encode_properties
from tests.support.patient import patient_client, patient_producer

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
