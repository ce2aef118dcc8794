"""Rounds of killed and stopped members that keep a ledger; used by a test and by a benchmark."""

import contextlib
import random

from orderly import Client
from tests.support.leases import SHORT
from tests.support.ledger import ACCOUNTS, Bookkeeper, Ledger
from tests.support.ledger_member import LedgerMember
from tests.support.proxied import proxied_broker
from tests.support.visible import await_visible
from tests.support.waiting import eventually

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
            with Client(namesrv=self._namesrv) as client:
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
        with Client(namesrv=self._namesrv) as client:
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
