"""How console blocks run: command by command, and what comes out is what is shown."""

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from orderly.cli.root import run as run_orderly
from tests.docs import programs
from tests.docs.output import missing
from tests.docs.pages import BadPage
from tests.docs.python_blocks import AGAIN
from tests.support.waiting import eventually

PROMPT = "$ "
LIMIT = 120  # seconds for one command: a hang-guard
ASKED = "y\n" * 5  # what is typed where a command asks
STOPPED = (-signal.SIGINT, 128 + signal.SIGINT)  # how programs end that do not handle Ctrl-C
_ECHO_CODE = "echo $?"
_SHELL = re.compile(r"[|&;<>$*`]")


@dataclass
class Command:
    """A command of a block, and the output that is shown below it."""

    line: int
    text: str
    shown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outcome:
    """What a command ended with. code None: it was not run, only checked."""

    code: int | None
    output: str


def run(room, block):
    """Run a block's commands, or check them where they cannot be run here."""
    found = commands_of(block, room.text(block))
    if not found:
        raise BadPage(f"{block.where}: no line begins with `{PROMPT}`: tag it `text`")
    codes = [int(code) for code in block.marks.get("exit", "0").split()]
    last = None
    for number, command in enumerate(found):
        where = f"{block.page}:{command.line}"
        if command.text == _ECHO_CODE:
            _judge_code(command, last, where)
            continue
        if "parsed" in block.marks:
            _check(room, command, where)
            continue
        if "background" in block.marks:
            _start(room, command, where)
            continue
        last = _outcome(room, command, "ctrl-c" in block.marks, where)
        told = any(later.text == _ECHO_CODE for later in found[number + 1 : number + 2])
        wanted = codes[min(number, len(codes) - 1)]
        _judge(room, command, last, None if told else wanted, block.marks, where)


def commands_of(block, text):
    """The commands of a block, with what is shown below each."""
    prompt = PROMPT if block.tag == "console" else ""
    found, goes_on = [], False
    for number, line in enumerate(text.splitlines(), block.line):
        if goes_on:
            found[-1].text = found[-1].text[:-1] + line.strip()
        elif line.startswith(prompt) and (prompt or line.strip()) and not _is_comment(line):
            found.append(Command(number, line.removeprefix(prompt)))
        elif found and prompt:
            found[-1].shown.append(line)
        goes_on = bool(found) and found[-1].text.endswith("\\") and not found[-1].shown
        if not goes_on and found:
            found[-1].text = _without_comment(found[-1].text)
    return found


def _is_comment(line):
    return line.removeprefix(PROMPT).lstrip().startswith("#")


def _without_comment(text):
    return re.sub(r"\s+#\s.*$", "", text).strip()


def _judge_code(command, outcome, where):
    if outcome is not None and command.shown != [str(outcome.code)]:
        raise BadPage(f"{where}: shows {command.shown}, the exit code is {outcome.code}")


def _judge(room, command, outcome, wanted, marks, where):
    if outcome.code is None:
        return
    output = room.documented(outcome.output)
    stopped = "ctrl-c" in marks and outcome.code in STOPPED
    _require(
        stopped or wanted in (None, outcome.code),
        f"{where}: exit code {outcome.code}, not {wanted}: {command.text}\n{output}",
    )
    shown = [room.documented(line) for line in command.shown]
    lacks = missing(shown, output.splitlines(), numbers="numbers" in marks)
    _require(lacks is None, f"{where}: shows the line\n{lacks}\nbut this comes:\n{output}")


def _require(condition, text):
    if not condition:
        raise BadPage(text)


def _outcome(room, command, stopped, where):
    parts = _parts(command, where)
    if parts[0][:2] == ["orderly", "broker"] and not room.is_own:  # the room's broker is there
        return _check(room, command, where)
    if not all(Path(words[0]).name in programs.RUN for words in parts):
        return _check(room, command, where)
    if stopped:
        return _run_until_ctrl_c(room, command, where)
    in_place = parts[0][0] == "orderly" and parts[0][1:2] != ["broker"]  # which leaves a process
    if in_place and not _SHELL.search(re.sub(r"'[^']*'", "", command.text)):
        return _run_here(shlex.split(command.text)[1:])
    return _run_in_shell(room, command, where)


def _parts(command, where):
    try:
        return programs.commands(command.text)
    except ValueError as error:
        raise BadPage(f"{where}: {error}: {command.text}") from error


def _check(room, command, where):
    """Do not run it, but find what is surely wrong with it."""
    for words in _parts(command, where):
        why = programs.objection(words, room.folder)
        _require(not why, f"{where}: {why}: {command.text}")
    return Outcome(None, "")


def _run_here(words):
    """`orderly` in this process, which spares its start."""
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before, sys.stdin = sys.stdin, _Person(ASKED)
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = run_orderly(words)
    finally:
        sys.stdin = before
    return Outcome(code, output.buffer.getvalue().decode())


class _Person(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self):
        return True


def _run_in_shell(room, command, where):
    if command.text.startswith(("export ", "cd ")):
        return _change(room, command.text)
    if _is_readers_own(command):
        return _run_on_a_terminal(room, command)
    done = subprocess.run(
        ["bash", "-c", command.text], cwd=room.folder, input=ASKED, text=True, timeout=LIMIT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout)


def _is_readers_own(command):
    """Whether it is a program of the reader's, which shows events as on a terminal."""
    return command.text.startswith("python ")


def _run_on_a_terminal(room, command):
    read, write = os.openpty()
    with subprocess.Popen(
        ["bash", "-c", f"exec {command.text}"], cwd=room.folder,
        stdin=subprocess.DEVNULL, stdout=write, stderr=write,
    ) as process:  # fmt: skip
        os.close(write)
        watch = threading.Timer(LIMIT, process.kill)
        watch.start()
        output = "".join(_lines_of(read))
        watch.cancel()
    return Outcome(process.returncode, output)


def _lines_of(terminal):
    """What comes on a terminal, until all who write to it have ended."""
    with os.fdopen(terminal, encoding="utf-8") as stream, contextlib.suppress(OSError):
        yield from stream


def _change(room, text):
    """`export` holds for what follows; `cd` goes where the reader's files are: here."""
    word, _, rest = text.partition(" ")
    for name, _, value in (item.partition("=") for item in shlex.split(rest) if word == "export"):
        room.fixture("monkeypatch").setenv(name, os.path.expandvars(value))
    return Outcome(0, "")


def _run_until_ctrl_c(room, command, where):
    """Start it, wait for what is shown (or for anything), press Ctrl-C, and see it end."""
    return _Running(room, command, where).stop()


def _start(room, command, where):
    """Start it; when the page ends, what is shown must have come."""
    running = _Running(room, command, where)
    room.cleanup(running.kill)
    room.at_the_end(running.stop)


class _Running:
    """A command that goes on until Ctrl-C."""

    def __init__(self, room, command, where):
        self._room, self._command, self._where = room, command, where
        self._output, write = os.openpty() if _is_readers_own(command) else os.pipe()
        self._process = subprocess.Popen(
            ["bash", "-c", f"exec {command.text}"], cwd=room.folder,
            stdin=subprocess.DEVNULL, stdout=write, stderr=write,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        os.close(write)
        self._lines = []
        self._reader = threading.Thread(target=self._read, name=f"reading {command.text}")
        self._reader.start()

    def _read(self):
        self._lines.extend(_lines_of(self._output))

    def stop(self):
        """Wait for what is shown, press Ctrl-C; returns the outcome."""
        try:
            eventually(lambda: self._process.poll() is not None or self._has_shown(), LIMIT)
            self._press()
        except (AssertionError, subprocess.TimeoutExpired):
            text = "".join(self._lines)
            raise BadPage(f"{self._where}: {self._command.text} shows only:\n{text}") from None
        finally:
            self.kill()
        return Outcome(self._process.returncode, "".join(self._lines))

    def _press(self):
        """Ctrl-C, and again, for one right before a lock's wait goes unheard."""
        for _ in range(LIMIT // AGAIN):
            self._process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(AGAIN)
                return
        raise subprocess.TimeoutExpired(self._command.text, LIMIT)

    def kill(self):
        """End it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _has_shown(self):
        output = self._room.documented("".join(self._lines)).splitlines()
        shown = [self._room.documented(line) for line in self._command.shown]
        return output and missing(shown, output) is None
