"""What a command answers in made situations, as one text that is compared whole.

A golden text has a section a command line: "$ orderly LINE  # SITUATION -> EXIT CODE" (0 is not
written), stdout by "| ", stderr by "! ", and by "> " what the command asked of the seam. A
situation is what the table beside it puts in there, below the command; without one it is the
table's usual one. Nothing is rewritten but JSON, which is in one line.

`python -m tests.unit.cli.golden --write` takes all answers as they are now: read the difference.
A new case is its first line, typed into the text.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
    suppress,
)
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click

from orderly.cli.root import run
from orderly.cli.settings import CommonOptions

World = Callable[..., AbstractContextManager[list[Any]]]
"""Puts in what a case gives by name; yields what is asked of it, as it is asked."""


@dataclass(frozen=True)
class Table:
    """What is put in, by name; `answer` is what somebody says who is asked, if anybody is there."""

    file: str
    world: World
    situations: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The golden text, beside the table."""
        return Path(self.file).with_suffix(".txt")

    def sections(self) -> dict[str, str]:
        """The golden text, by the command line with its situation."""
        sections = re.split(r"(?m)^(?=\$ )", self.path.read_text(encoding="utf-8"))[1:]
        return {each.split("\n")[0].partition(" -> ")[0]: each for each in sections}

    def answer(self, case: str) -> str:
        """The section as it is now."""
        line, _, situation = case.removeprefix("$ orderly ").partition("  # ")
        given = dict(self.situations[situation]) if situation else {}
        somebody, stdin = given.pop("answer", None), given.pop("stdin", b"")
        out, err = io.StringIO(), io.StringIO()
        with ExitStack() as stack:
            stack.enter_context(nobodys_settings())
            asked = stack.enter_context(self.world(**given))
            stack.enter_context(_somebody(somebody, stdin, asked))
            stack.enter_context(redirect_stdout(out))
            stack.enter_context(redirect_stderr(err))
            code = run(shlex.split(line))
        lines = [*_lines_of("|", out), *_lines_of("!", err), *(f"> {each}" for each in asked)]
        return "\n".join([f"{case} -> {code}" if code else case, *lines, ""])


def _lines_of(mark: str, stream: io.StringIO) -> list[str]:
    text = stream.getvalue()
    with suppress(ValueError):
        text = json.dumps(json.loads(text)) + "\n"
    return [f"{mark} {line}" for line in text.removesuffix("\n").split("\n")] if text else []


@contextmanager
def _somebody(answer: bool | None, stdin: bytes, asked: list[Any]) -> Iterator[None]:
    """Who sits there, or nobody; and no time passes."""

    def confirm(question: str, **_: Any) -> bool | None:
        asked.append(question)
        return answer

    terminal = SimpleNamespace(isatty=lambda: answer is not None, buffer=io.BytesIO(stdin))
    with (
        mock.patch.object(sys, "stdin", terminal),
        mock.patch.object(click, "confirm", confirm),
        mock.patch("orderly.cli.terminal.time", SimpleNamespace(monotonic=lambda: 0)),
    ):
        yield


@contextmanager
def nobodys_settings() -> Iterator[None]:
    """Those of who runs the tests are not read."""
    with mock.patch.dict(os.environ, {"ORDERLY_CONFIG": os.devnull}):
        for name in ("ORDERLY_CONTEXT", "ORDERLY_COLOR", "NAMESRV_ADDR", "NO_COLOR"):
            os.environ.pop(name, None)
        yield


@contextmanager
def client_is(client: Any) -> Iterator[None]:
    """Every command gets this client, whatever its settings."""

    @contextmanager
    def client_of(_settings: CommonOptions, _patience: float | None = None) -> Iterator[Any]:
        yield client

    with mock.patch.object(CommonOptions, "client", client_of):
        yield
