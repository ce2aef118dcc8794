"""The database of a program that consumes: it refuses writes by their token, as the guide says.

It runs in the test's process; members in other processes reach it by TCP, a line for each write.
"""

import json
import socket
import socketserver
import sqlite3
import threading
import time
from typing import NamedTuple

UPDATE = "UPDATE account SET balance = :number, token = :token WHERE id = :key AND token <= :token"
WRITTEN, REFUSED, FROZEN = "written", "refused", "frozen"


class Write(NamedTuple):
    """An attempt to write. `at` is seconds, monotonic."""

    at: float
    owner: str
    queue: int
    key: str
    number: int
    token: int
    answer: str


class Accounts:
    """One account for each key, and what was tried on it.

    Attributes:
        frozen: keys that nobody may write now: a handler of one has to wait.
        writes: every `Write`, in their order.
    """

    def __init__(self, keys):
        self.frozen, self.writes = frozenset(), []
        self._lock = threading.Lock()
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute("CREATE TABLE account (id PRIMARY KEY, balance, token)")
        self._database.executemany(
            "INSERT INTO account VALUES (?, -1, -1)", [(key,) for key in keys]
        )
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._serve)
        self._server.daemon_threads, self._server.block_on_close = True, False
        self.port = self._server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, name="accounts", daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def faults(self):
        """What a token was to keep out: writes of an owner after those of a later one, in words.

        Owners are told apart by who they are, too, so a token given twice is found.
        """
        found, current, past = [], {}, {}
        for write in [w for w in self.writes if w.answer == WRITTEN]:
            owner, former = (write.owner, write.token), past.setdefault(write.key, set())
            if owner in former:
                found.append(f"a former owner wrote: {write}")
            if current.get(write.key, owner) != owner:
                former.add(current[write.key])
            current[write.key] = owner
        return found

    def answers(self, answer):
        """All writes that had that answer."""
        return [write for write in self.writes if write.answer == answer]

    def _serve(self, connection, *_):
        with connection, connection.makefile("rwb") as lines:
            for line in lines:
                lines.write(self._answer(json.loads(line)).encode() + b"\n")
                lines.flush()

    def _answer(self, write):
        with self._lock:
            if write["key"] in self.frozen:
                answer = FROZEN
            else:
                changed = self._database.execute(UPDATE, write).rowcount
                answer = WRITTEN if changed else REFUSED
            self.writes.append(Write(time.monotonic(), **write, answer=answer))
        return answer


class AccountsClient:
    """A member's way to it. Thread-safe."""

    def __init__(self, port):
        self._lock = threading.Lock()
        self._lines = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def write(self, **write):
        """Try to write; returns WRITTEN, REFUSED or FROZEN."""
        with self._lock:
            self._lines.write(json.dumps(write).encode() + b"\n")
            self._lines.flush()
            return self._lines.readline().decode().strip()
