"""Programs in processes of their own: ours, databases, Chromium, promtool; former builds."""

import base64
import contextlib
import getpass
import importlib.util
import json
import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from html.parser import HTMLParser
from pathlib import Path

import redis
import sqlalchemy

from orderly.testing.ports import free_port
from tests.support.optional import find, require
from tests.support.waiting import eventually

# --- program --------------------------------------------------------------------------------------
# A program in a process of its own, as a user starts it.


EXAMPLES = Path(__file__).parents[2] / "examples"
SOON = 60  # seconds


class Program:
    """Runs from construction on. What it prints is in files, so that no pipe can fill up.

    A `with` kills it at the end.

    Args:
        arguments: of Python: a file and its arguments, or "-m" and a module.
        folder: where its output goes.
        cwd: where it runs.
        environment: variables beside those of this process.
    """

    def __init__(self, arguments, folder, *, cwd=EXAMPLES, **environment):
        self._out, self._errors = folder / f"out-{id(self)}", folder / f"errors-{id(self)}"
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, *map(str, arguments)],
                cwd=cwd,
                stdout=out,
                stderr=errors,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    @property
    def lines(self):
        return self._out.read_text().splitlines()

    @property
    def errors(self):
        return self._errors.read_text()

    def says(self, text, within=SOON):
        """Wait until it has printed a line with that text; returns the line."""

        def found():
            ended = self.process.poll() is not None  # before, for it may print and end
            lines = [line for line in self.lines if text in line]
            assert lines or not ended, self.errors
            return lines

        return eventually(found, within, every=0.05)[0]

    def end(self, number=signal.SIGTERM):
        """Tell it to end; returns its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SOON)

    def kill(self):
        """End it at once."""
        self.process.kill()
        self.process.wait()


# --- scripts --------------------------------------------------------------------------------------
# The programs in `.ci`, as modules.


FOLDER = Path(__file__).parents[2] / ".ci"


def script(name):
    """Load `.ci/NAME.py` anew."""
    spec = importlib.util.spec_from_file_location(f"ci_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


# --- history --------------------------------------------------------------------------------------
# Former builds of the library, from the repository's history.


ROOT = Path(__file__).parents[2]
FORMER = "2280bbfa68b5a589d1c913a482528ba16b5ece09"  # before records told of generations


def has(commit):
    """Whether the history is here and has a commit: an archive of the sources has none."""
    asked = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    try:
        return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:  # there is no git
        return False


# --- promtool -------------------------------------------------------------------------------------
# promtool, of Debian's package `prometheus`: it checks rules, and runs them over histories.


def promtool(*args, cwd):
    """Run it in a folder; returns its whole output, and fails the test if it fails."""
    done = subprocess.run(
        [*require("promtool"), *args],
        cwd=cwd,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,  # a hang-guard
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# --- databases ------------------------------------------------------------------------------------
# Database servers of a test's own: the machine's binaries, on loopback, in a temporary folder.
#
# Debian's packages `postgresql` and `redis-server` have them. Both run as an unprivileged user
# where the tests run as root (PostgreSQL insists), and end, by their process, with the context
# manager.


UNPRIVILEGED = ("postgres", "nobody")
START_TIMEOUT = 30


@contextlib.contextmanager
def postgresql():
    """A PostgreSQL server; yields its URL for SQLAlchemy (psycopg, sync and async)."""
    (initdb,) = require("postgresql")
    user = _user()
    with _folder(user) as folder:
        data, port = f"{folder}/data", free_port()
        create = [initdb, "-D", data, "-U", "orderly", "-A", "trust", "-N"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, timeout=120, **_as(user))
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "40",
            "shared_buffers": "16MB",
        }
        command = [find("postgres"), "-D", data, "-p", str(port)]
        command += [word for item in settings.items() for word in ("-c", "=".join(item))]
        url = f"postgresql+psycopg://orderly@127.0.0.1:{port}/postgres"
        with _running(command, folder, user, lambda: _answers_sql(url)):
            yield url


@contextlib.contextmanager
def redis_server():
    """A Redis server; yields its port."""
    program = require("redis-server")[0]
    user = _user()
    with _folder(user) as folder:
        port = free_port()
        command = [program, "--port", str(port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", folder]
        with _running(command, folder, user, lambda: _answers_redis(port)):
            yield port


@contextlib.contextmanager
def _running(command, folder, user, answers):
    """A server from when it answers until it is told to end (SIGTERM) and has."""
    log = Path(folder, "server.log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, **_as(user))
    try:
        eventually(lambda: process.poll() is not None or answers(), START_TIMEOUT, every=0.05)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        end(process)


def end(process):
    """SIGTERM; SIGKILL, if it is still there after 10 seconds."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _answers_sql(url):
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    try:
        engine.connect().close()
    except sqlalchemy.exc.OperationalError:
        return False
    return True


def _answers_redis(port):
    with redis.Redis(port=port) as client:
        try:
            return client.ping()
        except redis.ConnectionError:
            return False


def _user():
    """Who runs the servers: not root."""
    if os.geteuid() != 0:
        return getpass.getuser()
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED if name in known)


def _as(user):
    return (
        {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        if (os.geteuid() == 0)
        else {}
    )


@contextlib.contextmanager
def _folder(user):
    """A folder of that user's, outside of pytest's, which others may not enter."""
    with tempfile.TemporaryDirectory(prefix="orderly-db-", ignore_cleanup_errors=True) as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        yield folder


# --- browser --------------------------------------------------------------------------------------
# Headless Chromium, driven through its DevTools protocol over a pipe: no driver, no dependency.
#
# Debian's package `chromium` has it. https://chromedevtools.github.io/devtools-protocol/


PATIENCE = 120  # seconds for one answer: a hang-guard
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
)

# Becomes Chromium, with two given files as its files 3 and 4.
EXEC = """
import fcntl, os, sys
one, other = (fcntl.fcntl(int(n), fcntl.F_DUPFD_CLOEXEC, 10) for n in sys.argv[1:3])
os.dup2(one, 3)
os.dup2(other, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


@contextlib.contextmanager
def browser():
    """A browser with one empty page; yields a `Page`. It ends with the context manager."""
    program = require("chromium")[0]
    commands_out, commands_in = os.pipe()  # Chromium reads file 3, and writes file 4
    answers_out, answers_in = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        ours = (commands_out, answers_in)
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                EXEC,
                *map(str, ours),
                program,
                *FLAGS,
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            pass_fds=ours,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(answers_in)
        try:
            yield Page(commands_in, answers_out)
        finally:
            os.close(commands_in)  # which ends it; and if it does not:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(answers_out)


class Page:
    """One page of the browser.

    Attributes:
        complaints: errors and warnings of its console; what a security policy refused is there.
    """

    def __init__(self, commands, answers):
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._number = 0
        self._session = None
        self.complaints = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self.call(f"{part}.enable")

    def open(self, url, width=1280, height=800, scheme="light"):
        """Go there, in a window of that size, with that colour scheme preferred."""
        self.resize(width, height)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.go(url)

    def go(self, url):
        """Load what is there, also where that is shown already; the old page is gone then."""
        self.call("Page.navigate", url=url)
        self.eventually("document.readyState === 'complete'")

    def resize(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip

    def evaluate(self, script):
        """The value of a JavaScript expression."""
        reply = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def eventually(self, script, within=PATIENCE):
        """Wait until an expression is true, and return its value."""
        return eventually(lambda: self.evaluate(script), within, every=0.02)

    def press(self, key):
        """Press and let go of a key, as a user would."""
        texts = {"Enter": "\r", " ": " "}
        text = texts.get(key, key if len(key) == 1 else "")
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}
        known = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def screenshot(self, path):
        """A picture of the window, as PNG."""
        picture = self.call("Page.captureScreenshot", format="png")["data"]
        Path(path).write_bytes(base64.b64decode(picture))

    def call(self, method, **params):
        """One command of the protocol, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != self._number:
            self._note(reply)
        assert "error" not in reply, reply
        return reply["result"]

    def _note(self, event):
        params = event.get("params", {})
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] != "verbose":
            self.complaints.append(params["entry"]["text"])
        elif event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"]["exception"]["description"])

    def _next(self):
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            left = max(0, deadline - time.monotonic())
            ready, _, _ = select.select([self._answers], [], [], left)
            assert ready, f"Chromium says nothing for {PATIENCE} s"
            data = os.read(self._answers, 1 << 20)
            assert data, "Chromium has ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)


# --- reporting ------------------------------------------------------------------------------------
# What a report says, read as a browser reads it.


VOID = {"meta"}


class Document(HTMLParser):
    """Elements of a page: (tag, attributes) in order, the text of them, ids, and what is open."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.texts, self.open = [], [], []
        self.source = text
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def tags(self):
        return {tag for tag, _ in self.elements}

    @property
    def ids(self):
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]

    @property
    def text(self):
        """All that can be read, on one line."""
        return " ".join(" ".join(self.texts).split())


# --- idle -----------------------------------------------------------------------------------------
# Connections to a server that never ask for anything.


@contextlib.contextmanager
def idle_connections(port, count=16):
    """That many, held until the end."""
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        yield
