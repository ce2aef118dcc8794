"""Headless Chromium, driven through its DevTools protocol over a pipe: no driver, no dependency.

Debian's package `chromium` has it. https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.waiting import eventually

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
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


def program():
    """The path of Chromium; None: not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def is_wanted():
    """Whether tests with it are collected: in CI always, so that its lack is a failure there."""
    return program() is not None or bool(os.environ.get("CI"))


@contextlib.contextmanager
def browser():
    """A browser with one empty page; yields a `Page`. It ends with the context manager."""
    assert program(), "install it: apt-get install chromium"
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
                program(),
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
