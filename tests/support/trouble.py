"""Messages that are bad, or end the process, until the fix is deployed; an operator who releases.

Both are for runs in which members are killed: what fails there is counted and tried again.
"""

import math
import threading
import time
from zlib import crc32

from orderly import Client
from orderly.errors import OrderlyError
from orderly.monitoring.parked import ParkedMessages
from tests.support.accounts import BAD, DEADLY
from tests.support.traffic import KEYS

AHEAD = 100  # messages: so far behind what was tried is the next killer


class Trouble:
    """What `Accounts.trouble` asks.

    Args:
        share: of all messages, those that are bad.

    Attributes:
        cured: numbers below it are no trouble any more.
        newest: the highest number that was tried.
        killers: numbers that end the process, in the order in which they were laid.
    """

    def __init__(self, share):
        self.cured, self.newest, self.killers = 0, -1, []
        self._share = share

    def __call__(self, number):
        self.newest = max(self.newest, number)
        if number < self.cured:
            return None
        if number in self.killers:
            return DEADLY
        return BAD if crc32(b"%d" % number) < self._share * 2**32 else None

    @property
    def deadly(self):
        """Keys with a killer that is not cured."""
        return {KEYS[n % len(KEYS)] for n in self.killers if n >= self.cured}

    def lay_killer(self, keys):
        """Let a message of one of these keys, not sent or tried yet, end its process."""
        number = self.newest + AHEAD
        while KEYS[number % len(KEYS)] not in keys:
            number += 1
        self.killers.append(number)

    def cure(self, *, all_to_come=False):
        """Deploy the fix: for what was tried so far, or for good."""
        self.cured = math.inf if all_to_come else self.newest + 1


class Operator:
    """Deploys fixes and releases parked keys, with or without the fix, until told to stop.

    Args:
        namesrv, group, topic: whose keys.
        accounts: whose `trouble`, a Trouble, it cures.
        chance: a `random.Random` of its own.
        killers: how many messages that end their process it lays, one after the other.
        patience: seconds without a word of a queue's owner.

    Attributes:
        outcomes: of all commands that were answered.
        unanswered: how many were not: they stay, and are carried out later.
    """

    def __init__(self, namesrv, group, topic, accounts, chance, *, killers=0, patience=10.0):
        self.outcomes, self.unanswered = [], 0
        self._client = Client(namesrv=namesrv).start()
        self._parked = ParkedMessages(self._client, group, topic)
        self._accounts, self._trouble, self._chance = accounts, accounts.trouble, chance
        self._killers, self._patience = killers, patience
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)

    def start(self):
        self._thread.start()

    def finish(self, done, stalled):
        """Cure everything and release all keys until `done()`, or until `stalled()`."""
        self._end()
        self._trouble.cure(all_to_come=True)
        while ((keys := self.keys()) or not done()) and not stalled():
            for key in sorted(keys):
                self.release(key)
            time.sleep(0.2)

    def close(self):
        """Stop; idempotent."""
        self._end()
        self._client.close()

    def keys(self):
        """What is parked, as far as that can be read."""
        try:
            found = self._parked.keys()
        except OrderlyError:
            return set()
        return {key for _, key in found}

    def release(self, key):
        """Release a key and wait for what comes of it."""
        try:
            self.outcomes += self._parked.release(key, patience=self._patience)
        except OrderlyError:
            self.unanswered += 1

    def _end(self):
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self):
        while not self._stop.wait(self._chance.uniform(0.2, 1.0)):
            parked = self.keys()
            found = self._trouble.deadly <= parked
            if found and self._chance.random() < 0.5:
                self._trouble.cure()
            if found and not self._trouble.deadly and len(self._trouble.killers) < self._killers:
                self._trouble.lay_killer(set(KEYS) - parked - self._accounts.frozen)
            if parked:
                self.release(self._chance.choice(sorted(parked)))
