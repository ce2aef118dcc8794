"""The handlers of a soak, and what each key has had: enough to see loss and disorder.

By key one key is stuck all the time, and a hot one with a tenth of the traffic fails now and then.
"""

import asyncio
import threading
from collections import Counter, defaultdict

from orderly import ConsumeResult, Fail, Suspend

KEYS = 1000
STUCK, HOT = "key-0", "key-hot"
HOT_SHARE, HOT_FAILS = 10, 100  # every so many messages are the hot key's, of these one fails
WORK = 0.002  # seconds that a coroutine waits


class Ledger:
    """What was sent and handled; it grows with the keys, not with the messages.

    Args:
        by_key: one key is stuck, another fails now and then.
    """

    def __init__(self, *, by_key):
        self.sent, self.reached = Counter(), defaultdict(lambda: -1)
        self.delivered = self.repeats = self.disorder = self.failures = 0
        self.stuck = STUCK if by_key else None
        self._by_key = by_key
        self._lock = threading.Lock()

    def next_message(self, place):
        """Key and number within the key of the message to send at that place."""
        hot = self._by_key and place % HOT_SHARE == HOT_SHARE - 1
        key = HOT if hot else f"key-{place % KEYS}"
        self.sent[key] += 1
        return key, self.sent[key] - 1

    def handle(self, messages, context):
        refused = self._refuses(messages[0], context)
        if refused:
            return refused
        with self._lock:
            for message in messages:
                self._note(message.sharding_key, int(message.body))
        return ConsumeResult.SUCCESS

    async def handle_async(self, messages, context):
        await asyncio.sleep(WORK)
        return self.handle(messages, context)

    @property
    def missing(self):
        """Messages whose key has not got as far."""
        return sum(count - 1 - self.reached[key] for key, count in self.sent.items())

    @property
    def behind(self):
        """The same without the key that is stuck."""
        stuck = self.sent[self.stuck] - 1 - self.reached[self.stuck] if self.stuck else 0
        return self.missing - stuck

    def _refuses(self, message, context):
        if message.sharding_key == self.stuck:
            return Suspend(1)
        unlucky = message.sharding_key == HOT and int(message.body) % HOT_FAILS == 0
        if unlucky and context.attempt == 1:
            with self._lock:
                self.failures += 1
            return Fail("now and then")
        return None

    def _note(self, key, number):
        due = self.reached[key] + 1
        self.delivered += 1
        self.repeats += number < due
        self.disorder += number > due
        self.reached[key] = max(number, self.reached[key])
