"""Run a program in a terminal of its own, and keep what its screen showed, moment by moment."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyte

TALL = 300  # rows: nothing scrolls away, so each row keeps its number to the end
EVERY = 0.25  # seconds between looks
DIM, GREY = 2, 90  # pyte knows no dim: it becomes grey


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring characters of one look: where they begin, their colour ("": default), bold."""

    column: int
    text: str
    colour: str
    bold: bool


Row = tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """The screen at a moment: seconds since the start, the rows down to the last one used."""

    at: float
    rows: tuple[Row, ...]


class _Screen(pyte.Screen):
    def select_graphic_rendition(self, *attrs: int, **kwargs: bool) -> None:
        super().select_graphic_rendition(*(GREY if a == DIM else a for a in attrs), **kwargs)


def record(
    command: Sequence[str], columns: int, env: Mapping[str, str], codes: Collection[int] = (0,)
) -> list[Look]:
    """Run `command` to its end in a terminal of that width; what `watch` saw.

    Args:
        command: a program and its arguments.
        columns: of the terminal.
        env: the program's environment.
        codes: with which it may end.

    Raises:
        CalledProcessError: it ended with another code.
    """
    return watch(_output(command, columns, env, codes), columns)


def watch(output: Iterable[tuple[float, bytes]], columns: int) -> list[Look]:
    """What a screen of that width shows of an output: seconds since the start, what came then.

    Returns:
        A look every quarter of a second in which something changed, and one at the end.
    """
    screen = _Screen(columns, TALL)
    stream = pyte.ByteStream(screen)
    looks: list[Look] = []
    at = 0.0
    for at, data in output:
        if looks and at - looks[-1].at >= EVERY:
            looks.append(Look(at, _rows(screen)))
        stream.feed(data)
        if not looks:
            looks.append(Look(at, _rows(screen)))
    return [*looks, Look(at, _rows(screen))]


def _output(
    command: Sequence[str], columns: int, env: Mapping[str, str], codes: Collection[int]
) -> Iterator[tuple[float, bytes]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", TALL, columns, 0, 0))
    started = time.monotonic()
    with subprocess.Popen(  # noqa: S603  our own program
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=env
    ) as process:
        os.close(theirs)
        try:
            while data := os.read(ours, 65536):
                yield time.monotonic() - started, data
        except OSError:  # how Linux tells that nobody has the terminal open any more
            pass
    os.close(ours)
    if process.returncode not in codes:
        raise subprocess.CalledProcessError(process.returncode, command)


def _rows(screen: pyte.Screen) -> tuple[Row, ...]:
    rows = [_row(screen, number) for number in range(TALL)]
    used = max((number for number, row in enumerate(rows, 1) if row), default=0)
    return tuple(rows[:used])


def _row(screen: pyte.Screen, number: int) -> Row:
    """Its characters, put together where they look the same; blanks at its end are left out."""
    line = screen.buffer[number]
    runs: list[Run] = []
    for column in range(screen.columns):
        char = line[column]
        colour = "" if char.fg == "default" else char.fg
        last = runs[-1] if runs else None
        if last and (last.colour, last.bold) == (colour, char.bold):
            runs[-1] = Run(last.column, last.text + char.data, colour, char.bold)
        else:
            runs.append(Run(column, char.data, colour, char.bold))
    shown = [Run(run.column, run.text.rstrip(), run.colour, run.bold) for run in runs]
    return tuple(run for run in shown if run.text)
