"""The database of a program that consumes: it refuses writes by their token, as the guide says.

It runs in the test's process; members in other processes reach it by TCP, a line for each write.
"""

import json
import socket
import socketserver
import sqlite3
import threading
import time
from collections import defaultdict
from typing import NamedTuple

UPDATE = "UPDATE account SET balance = :number, token = :token WHERE id = :key AND token <= :token"
WRITTEN, REFUSED, FROZEN = "written", "refused", "frozen"
BAD, DEADLY = "bad", "deadly"


class Write(NamedTuple):
    """An attempt to write. `at` is seconds, monotonic; `replayed`: of a message that was parked."""

    at: float
    owner: str
    queue: int
    key: str
    number: int
    token: int
    replayed: bool
    answer: str


class Accounts:
    """One account for each key, and what was tried on it.

    Attributes:
        frozen: keys that nobody may write now: a handler of one has to wait.
        trouble: asked with each number: BAD, no account takes it, DEADLY, whoever tries shall end
            its process, or None. Called by one thread at a time.
        admits: asked with a key and a number until it says yes; the handler has to wait so long.
        writes: every `Write`, in their order.
    """

    def __init__(self, keys):
        self.frozen, self.writes = frozenset(), []
        self.trouble = lambda _: None
        self.admits = lambda _key, _number: True
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

    def overtaken(self):
        """Tries of a message while an earlier one of its key was not written yet, in words.

        Also if that one is parked: neither it nor anything behind it may be tried out of its turn.
        """
        numbers, found = defaultdict(set), []
        for write in self.writes:
            numbers[write.key].add(write.number)
        due = {key: sorted(of_key, reverse=True) for key, of_key in numbers.items()}
        for write in self.writes:
            left = due[write.key]
            if left and write.number > left[-1] and write.answer != REFUSED:
                found.append(f"number {left[-1]} was overtaken: {write}")
            if left and write.number == left[-1] and write.answer == WRITTEN:
                left.pop()
        return found

    def answers(self, answer, *, replayed=None):
        """All writes that had that answer; only replays, or none, if that is said."""
        return [w for w in self.writes if w.answer == answer and replayed in (None, w.replayed)]

    def _serve(self, connection, *_):
        with connection, connection.makefile("rwb") as lines:
            for line in lines:
                write = json.loads(line)
                while not self.admits(write["key"], write["number"]):
                    time.sleep(0.01)
                lines.write(self._answer(write).encode() + b"\n")
                lines.flush()

    def _answer(self, write):
        with self._lock:
            answer = self.trouble(write["number"])
            if answer is None and write["key"] in self.frozen:
                answer = FROZEN
            elif answer is None:
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
        """Try to write; returns its answer."""
        with self._lock:
            self._lines.write(json.dumps(write).encode() + b"\n")
            self._lines.flush()
            return self._lines.readline().decode().strip()
