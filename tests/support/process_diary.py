"""A handler for worker processes, which writes down what it did in a file, and may die."""

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from orderly import Ack, Message

COMPUTED = 20_000  # a loop of a millisecond or two


@dataclass(frozen=True)
class Call:
    """One call of the handler; `ended` is None if it did not."""

    key: str
    number: int
    queue_id: int
    offset: int
    attempt: int
    pid: int
    started: float
    ended: float | None


class Diary:
    """The file; a message's body says which one it is."""

    def __init__(self, path):
        self._path = Path(path)
        self._path.touch()

    def message(self, topic, key, number, *, die=False, hang=False):
        """A message that is noted here; at first it may kill its process, or hang."""
        told = {"path": str(self._path), "number": number, "die": die, "hang": hang}
        body = json.dumps(told)
        return Message(topic, body.encode(), sharding_key=key)

    def calls(self):
        """All calls, in the order in which they began."""
        lines = [json.loads(line) for line in self._path.read_text().splitlines()]
        ends = {line["began"]: line["at"] for line in lines if "began" in line}
        begun = [line for line in lines if "began" not in line]
        return [Call(**line, ended=ends.get(line["started"])) for line in begun]


def handle(messages, context):
    """Compute a while, and write down when it began and ended."""
    (message,) = messages
    told = json.loads(message.body)
    started = time.monotonic()
    call = {
        "key": message.sharding_key,
        "number": told["number"],
        "queue_id": message.queue.queue_id,
        "offset": message.queue_offset,
        "attempt": context.attempt,
        "pid": os.getpid(),
        "started": started,
    }
    _note(told["path"], call)
    if told["die"] and context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if told["hang"] and context.attempt == 1:
        time.sleep(60)
    sum(range(COMPUTED))
    _note(told["path"], {"began": started, "at": time.monotonic()})
    return Ack()


def handle_one(message, attempt):
    """The same for a listener."""
    return handle((message,), SimpleNamespace(attempt=attempt.number))


def _note(path, line):
    file = os.open(path, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
