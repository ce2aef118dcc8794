"""Handlers that worker processes import: `act` does what the first message's body says."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from orderly.ordering.outcomes import Ack, Fail, Park
from orderly.ordering.results import ConsumeResult
from orderly.processes.calls import Answered, packed
from tests.support.waiting import eventually


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
    tenure = context.tenure
    tenure._pipe.send(Answered(tenure._number, packed(Ack(), ""), packed({}, "")))
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
