"""What the member in a process of its own does with a message; it says what it has done."""

import asyncio
import contextlib
import fcntl
import functools
import json
import os
import threading
import time

from orderly import Ack, ConsumeResult, Park, Suspend
from tests.support.accounts import BAD, DEADLY, FROZEN, REFUSED, AccountsClient
from tests.support.deaths import DEATHS

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
        death: how (`deaths.DEATHS`).
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
