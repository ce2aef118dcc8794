"""Runs `tests.support.member` in a process of its own and reads what it tells."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from orderly.config.consumer import BROKER_LEASE
from orderly.testing import Delivered
from tests.support.tenures import Saved

ROOT = Path(__file__).parents[2]
CONCURRENCY = 8


def by_key(accounts, handler="sync", commit=0.5, concurrency=CONCURRENCY):
    """Options of a member that keeps order by key and writes to `Accounts`.

    Args:
        accounts: what its handlers write to.
        handler: "sync", "async", "listener", or "process": in worker processes.
        commit: seconds between its commits.
        concurrency: its handlers at once.
    """
    return [
        "--order=key",
        f"--handler={handler}",
        f"--concurrency={concurrency}",
        f"--commit={commit}",
        f"--accounts={accounts.port}",
    ]


class MemberProcess:
    """A member of the group, from construction on; it ends with this process.

    Args:
        namesrv, group, topic: what it consumes.
        lease: of the broker, seconds.
        seconds: what its handler takes for each message.
        clock: seconds by which its time of day is wrong.
        more: further options of `tests.support.member`, as in "--order=key".

    Attributes:
        events: its deliveries, in the order in which they ended.
        tokens: of each, the fencing token of its queue; None with order by queue.
        saves: with order by key, its commits as far as they succeeded (`Saved`), in their order.
        client_id: of its client, once it was told.
        held: ids of the queues it says it holds now.
        lost: ids of the queues whose lock it lost, each as often as that happened.
    """

    program = "tests.support.member"
    root = ROOT

    def __init__(
        self, namesrv, group, topic, *, lease=BROKER_LEASE, seconds=0.0, clock=0.0, more=()
    ):
        options = [f"--lease={lease}", f"--seconds={seconds}", f"--clock={clock}", *more]
        command = [sys.executable, "-m", self.program, namesrv, group, topic, *options]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=self.root)
        self.events, self.held, self.lost = [], set(), []
        self.tokens, self.saves = [], []
        self.client_id = None
        self._reader = threading.Thread(target=self._read, name="member-reader", daemon=True)
        self._reader.start()

    @property
    def alive(self):
        """Whether the process runs (or is stopped)."""
        return self._process.poll() is None

    @property
    def exit_code(self):
        """How it ended, as subprocess tells; None: it runs."""
        return self._process.poll()

    def kill(self):
        """End it with SIGKILL; its deliveries until then are known when this returns."""
        self._process.kill()
        self._end()

    def stop(self):
        """Stop it where it is (SIGSTOP)."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self):
        """Let a stopped one go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self):
        """Have it close its consumer, and wait for its end. Idempotent."""
        if not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._end()

    def _end(self):
        self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._process.stdin.close()

    def _read(self):
        for line in self._process.stdout:
            if not line.endswith(b"\n"):  # killed in the middle of it
                return
            told = json.loads(line)
            if "offset" in told:
                self.tokens.append(told.pop("token"))
                self.events.append(Delivered(**told))
                continue
            if "saved" in told:
                self.saves.append(Saved(queue=told.pop("saved"), **told))
            self.client_id = told.get("client_id", self.client_id)
            self.held |= set(told.get("assigned", ()))
            self.held -= {*told.get("revoked", ()), *told.get("lost", ())}
            self.lost += told.get("lost", ())
