"""The handlers of a soak, and what each key has had: enough to see loss and disorder.

By key one key is stuck all the time, and a hot one with a tenth of the traffic fails now and then.
"""

import asyncio
import threading
from collections import Counter

from orderly import ConsumeResult, Fail, Suspend
from orderly.bench import OrderCheck

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
        self.sent, self.order = Counter(), OrderCheck()
        self.delivered = self.failures = 0
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
        for message in messages:
            self.order.came(message.sharding_key, int(message.body))
        with self._lock:
            self.delivered += len(messages)
        return ConsumeResult.SUCCESS

    async def handle_async(self, messages, context):
        await asyncio.sleep(WORK)
        return self.handle(messages, context)

    @property
    def missing(self):
        """Messages whose key has not got as far."""
        return self.sent.total() - self.order.due.total()

    @property
    def behind(self):
        """The same without the key that is stuck."""
        stuck = self.sent[self.stuck] - self.order.due[self.stuck] if self.stuck else 0
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
