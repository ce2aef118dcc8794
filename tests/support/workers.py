"""Handlers that worker processes import."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import orderly
from orderly import Ack, ConsumeResult, Fail, Message, Park
from orderly.ordering.context import ConsumeContext
from orderly.processes.handler import ProcessHandler
from orderly.processes.messages import Answered, packed
from tests.support.messages import QUEUE, message
from tests.support.waiting import eventually

# --- process handlers -----------------------------------------------------------------------------
# Handlers that worker processes import: `act` does what the first message's body says.


class Awkward(Exception):
    """Pickles, but cannot be loaded."""

    def __init__(self, one, two):
        super().__init__("only one")


class Unpicklable(Exception):
    def __init__(self):
        super().__init__("kept")
        self.lock = threading.Lock()


def tell_all(messages, context):
    return messages, context.attempt, context.key, context.group, context.token, context.deadline


def set_all(messages, context):
    context.auto_commit = False
    context.done(messages[0])
    context.not_tried(messages[1])
    context.dead_letter(messages[2], "bad")
    return context.suspend(5)


def set_and_raise(messages, context):
    context.done(messages[0])
    raise ValueError("no good")


def clock_in(messages, context):
    """Write down when, into the file that the body names."""
    with Path(messages[0].body.decode()).open("a") as diary:
        diary.write(f"{time.monotonic()}\n")
    return Ack()


def clock_in_twice(messages, context):
    clock_in(messages, context)
    return clock_in(messages, context)


def raises(messages, context):
    raise ValueError("no good")


def leave(messages, context):
    sys.exit(0)


def interrupt(messages, context):
    raise KeyboardInterrupt


def answer_lambda(messages, context):
    return lambda: None


def raise_unpicklable(messages, context):
    raise Unpicklable


def raise_awkward(messages, context):
    raise Awkward(1, 2)


def set_lambda(messages, context):
    context.auto_commit = lambda: None
    return ConsumeResult.SUCCESS


def name_two_and_die(messages, context):
    for each in (*messages[:2], *messages[:2]):
        context.done(each)
    os._exit(9)


def name_all(messages, context):
    for each in messages:
        context.done(each)
    return Ack()


def keep(messages, context):
    context.auto_commit = False
    return ConsumeResult.SUCCESS


def die_by_exit(messages, context):
    os._exit(0)


def die_by_signal(messages, context):
    os.kill(os.getpid(), signal.SIGKILL)


def close_everything(messages, context):
    os.closerange(3, 100)
    time.sleep(60)


def signal_myself(messages, context):
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    return Ack()


def end_a_program(messages, context):
    program = subprocess.Popen(["sleep", "60"])
    program.terminate()
    return program.wait()


def blocked_signals(messages, context):
    return signal.pthread_sigmask(signal.SIG_BLOCK, ())


def read_stdin(messages, context):
    return sys.stdin.read()


def wait_for_lost(messages, context):
    Path(messages[1].body.decode()).touch()
    return context.lost.wait(20), context.lost.is_set(), context.lost.wait(0)


def wait_in_another_thread(messages, context):
    seen = []
    thread = threading.Thread(target=lambda: seen.append(context.lost.wait(20)))
    thread.start()
    Path(messages[1].body.decode()).touch()
    eventually(context.lost.is_set)
    thread.join()
    return seen


def wait_for_deadline(messages, context):
    first = context.deadline
    eventually(lambda: context.deadline != first)
    return context.deadline


def never_lost(messages, context):
    return context.lost.is_set(), context.lost.wait(0.01)


def extend(messages, context):
    return context.extend(), context.deadline


def extend_until_lost(messages, context):
    try:
        context.extend()
    except Exception as error:
        return error, context.lost.is_set()


def stay(messages, context):
    Path(messages[1].body.decode()).write_text(str(os.getpid()))
    time.sleep(60)


def wait_for_file(messages, context):
    path = Path(messages[1].body.decode())
    path.touch()
    eventually(lambda: not path.exists(), within=30)
    return os.getpid()


def leave_a_thread(messages, context):
    """A thread that uses the context when the call is long over."""

    def poll():
        while True:
            context.lost.wait(0.001)
            context.lost.is_set()

    threading.Thread(target=poll, daemon=True).start()
    return Ack()


def answer_twice(messages, context):
    ownership = context.ownership
    ownership._pipe.send(Answered(ownership._number, packed(Ack(), ""), packed({}, "")))
    return Ack()


def my_pid(messages, context):
    return os.getpid()


def ack(messages, context):
    return Ack()


def fail(messages, context):
    return Fail("because")


def success(messages, context):
    return ConsumeResult.SUCCESS


def act(messages, context):
    return globals()[messages[0].body.decode()](messages, context)


class Shop:
    def __init__(self, lock=None):
        self.lock = lock

    def handle(self, messages, context):
        return Ack()

    __call__ = handle


class AsyncShop:
    async def __call__(self, messages, context):
        return Ack()


async def handle_async(messages, context):
    return Ack()


def park_unless_replayed(messages, context):
    """For a consumer by key: a message is done only when it is released."""
    return Ack() if context.replayed else Park(f"in process {os.getpid()}")


# --- process messages -----------------------------------------------------------------------------
# Messages whose bodies tell `act` what to do.


def batch(*bodies):
    """Messages at offsets 17, 18, ... with these bodies."""
    return tuple(
        replace(message(17 + n, "k"), body=str(body).encode()) for n, body in enumerate(bodies)
    )


# --- process diary --------------------------------------------------------------------------------
# A handler for worker processes, which writes down what it did in a file, and may die.


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

    def message(self, topic, key, number, *, die=False, hang=False, named=False):
        """A message that is noted here; it may kill its process or hang, and be named done."""
        told = {"path": str(self._path), "number": number, "die": die, "hang": hang}
        told["named"] = named
        body = json.dumps(told)
        return Message(topic, body.encode(), sharding_key=key)

    def numbers(self):
        """What `handle_batch` has done, in that order."""
        return [json.loads(line)["number"] for line in self._path.read_text().splitlines()]

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


def handle_batch(messages, context):
    """Write down what is done, one after another; a message that kills its process always does."""
    for each in messages:
        told = json.loads(each.body)
        if told["die"]:
            os._exit(9)
        _note(told["path"], {"number": told["number"]})
        if told["named"]:
            context.done(each)
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


# --- process listener -----------------------------------------------------------------------------
# A decorated listener that worker processes import by its name.


@orderly.listener(decode="json", on_error={ValueError: "dead_letter"}, suspend=0.05)
def ship(order, attempt):
    """Note the call; a body may say that the message is bad, or kills its first process."""
    with Path(order["path"]).open("a") as diary:
        diary.write(f"{os.getpid()} {attempt.key} {order['number']}\n")
    if order.get("bad"):
        raise ValueError(f"no such account {order['number']}")
    if order.get("kills") and attempt.number == 1:
        os._exit(1)
    return Ack()


# --- process parent -------------------------------------------------------------------------------
# A consumer's process for tests: an idle and a busy worker until stdin ends; prints their ids.


def be_a_parent(path):
    """Do that; `path` is where the busy worker writes its id."""
    handler = ProcessHandler(act, "group")
    idle = handler(batch("my_pid"), ConsumeContext(QUEUE))
    call = (batch("stay", path), ConsumeContext(QUEUE))
    threading.Thread(target=handler, args=call, daemon=True).start()
    eventually(lambda: path.exists() and path.read_text())
    print(idle, path.read_text(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    from tests.support import workers  # where worker processes look for handlers

    workers.be_a_parent(Path(sys.argv[1]))
