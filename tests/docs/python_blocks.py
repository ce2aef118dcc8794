"""How Python blocks run: in the page's namespace, with the page's own lines in tracebacks."""

import ast
import asyncio
import contextlib
import inspect
import signal
import subprocess
import sys
import threading
import time
import traceback
import types

from tests.docs.pages import ROOT, BadPage

LIMIT = 120  # seconds for a block: a hang-guard
AGAIN = 10  # seconds until Ctrl-C is pressed again: one right before a lock's wait goes unheard
FIXTURES = ("orderly_fake", "orderly_namesrv", "orderly_topic", "tmp_path", "monkeypatch", "capsys")


def run(room, block):
    """Execute a block, and call the tests that it defines."""
    code = _compiled(room.text(block), block)
    known = dict(room.names)
    done = room.is_done if "ctrl-c" in block.marks else None
    with _as_announced(block), _ctrl_c(block, done):
        _execute(code, room.names)
        for name, value in list(room.names.items()):
            if _is_test(name, value) and known.get(name) is not value:
                value(**_arguments(room, value))


def run_files(room, tests):
    """Run the page's test files by one pytest, as a reader would."""
    if not tests:
        return
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--orderly-broker=fake",
    ]
    names = [block.file for block in tests]
    done = _finished([*command, "-W", "error", *names], room)
    if done.returncode != 0 or " passed" not in done.stdout:
        raise BadPage(f"{tests[0].where}: pytest {' '.join(names)}:\n{done.stdout}")


def run_program(room, block):
    """Run a file of the page as a program."""
    done = _finished([sys.executable, block.file], room)
    if done.returncode != 0:
        raise BadPage(f"{block.where}: python {block.file}: {done.returncode}\n{done.stdout}")


def _finished(command, room):
    return subprocess.run(
        command, cwd=room.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=LIMIT, check=False,
    )  # fmt: skip


def _compiled(text, block):
    """Code whose lines are the page's."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    lines = "\n" * (block.line - 1) + text
    try:
        return compile(lines, str(ROOT / block.page), "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        raise BadPage(f"{block.page}:{error.lineno}: {error.msg}") from error


def _execute(code, names):
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(types.FunctionType(code, names)())
    else:
        exec(code, names)


def _is_test(name, value):
    return name.startswith("test_") and inspect.isfunction(value)


def _arguments(room, test):
    """What a test asks for: fixtures of the plugin on the page's broker, or names of the page."""
    ours = {
        "orderly_fake": room.broker,
        "orderly_namesrv": room.namesrv,
        "orderly_topic": lambda queues=8: room.create_topic(f"t-{time.time_ns()}", queues),
    }
    return {
        name: ours.get(name) or room.names.get(name) or room.fixture(name)
        for name in inspect.signature(test).parameters
    }


@contextlib.contextmanager
def _as_announced(block):
    """The errors that the page announces; all others say where they come from."""
    wanted = block.marks.get("raises")
    try:
        yield
    except KeyboardInterrupt as error:
        if "ctrl-c" not in block.marks:
            raise BadPage(
                f"{block.where}: did not end in {LIMIT} s; if it waits, mark it `ctrl-c`"
            ) from None
        if not _is_of(error, block):
            why = "Ctrl-C met none of its lines: `done` was true before, or it does not wait"
            raise BadPage(f"{block.where}: {why}") from error
    except BadPage:
        raise
    except BaseException as error:
        if wanted is None or wanted not in [kind.__name__ for kind in type(error).__mro__]:
            where = f"{block.page}:{_line(error, block) or block.line}"
            raise BadPage(f"{where}: {type(error).__name__}: {error}") from error
    else:
        if wanted is not None:
            raise BadPage(f"{block.where}: raises nothing, {wanted} is announced")


def _line(error, block):
    """The line of the page at which an error left it; None: it came from elsewhere."""
    steps = traceback.walk_tb(error.__traceback__)
    page = str(ROOT / block.page)
    lines = [line for frame, line in steps if frame.f_code.co_filename == page]
    return lines[-1] if lines else None


def _is_of(interrupt, block):
    """Whether Ctrl-C met the block's own lines; asyncio puts it in the place of what they saw."""
    seen = filter(None, (interrupt, interrupt.__context__))
    return any(_line(error, block) for error in seen)


@contextlib.contextmanager
def _ctrl_c(block, done):
    """Press Ctrl-C once `done()` is true, or when the block takes too long."""
    watcher = _Watcher(block, done)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            watcher.start()
            yield
        finally:
            watcher.end()
    finally:
        watcher.end()  # Ctrl-C may have kept the line above from its work; a second one is far
        signal.signal(signal.SIGINT, before)
        if watcher.failure:
            raise BadPage(f"{block.where}: {watcher.failure}")


class _Watcher(threading.Thread):
    """Looks at `done` while a block runs in the main thread, and presses Ctrl-C there."""

    def __init__(self, block, done):
        super().__init__(name="ctrl-c", daemon=True)
        self._done = done
        self._deadline = time.monotonic() + LIMIT
        self._ended = threading.Event()
        self.failure = ""

    def run(self):
        while not self._ended.wait(0.02):
            if self._is_time():
                self._press()
                self._ended.wait(AGAIN)

    def _press(self):
        heard = signal.getsignal(signal.SIGINT) is signal.SIG_DFL  # another would end this process
        if not self._ended.is_set() and not heard:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def end(self):
        """Returns once it presses no more, whatever it presses meanwhile."""
        while not self._ended.is_set() or self.is_alive():
            with contextlib.suppress(KeyboardInterrupt):
                self._ended.set()
                self.join()

    def _is_time(self):
        late = time.monotonic() > self._deadline
        if self._done is None or late:
            self.failure = f"`done` was not true in {LIMIT} s" if self._done else ""
            return late
        try:
            return self._done()
        except Exception as error:  # the page's own: told there
            self.failure = f"`done` raised {type(error).__name__}: {error}"
            return True
