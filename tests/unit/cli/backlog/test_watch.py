"""`orderly backlog watch`: drawn anew on a terminal, appended in a pipe, and it goes on."""

import io
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import click
import pytest

from orderly.cli.backlog import watching
from orderly.cli.backlog.watching import cut_to
from orderly.cli.root import run
from orderly.cli.settings import Settings
from orderly.errors import RequestTimeout
from orderly.monitoring.backlog.states import QueueState
from tests.support.snapshots import row, snapshot


@pytest.fixture
def rounds(monkeypatch):
    """What each round finds, or raises; no time passes between them."""
    found = []

    @contextmanager
    def client(_settings, _patience=None):
        yield SimpleNamespace()

    def look(_last):
        if not found:
            raise KeyboardInterrupt
        this = found.pop(0)
        if isinstance(this, Exception):
            raise this
        return this

    monkeypatch.setattr(Settings, "client", client)
    monkeypatch.setattr(watching, "_observer", lambda *_: SimpleNamespace(look=look))
    monkeypatch.setattr(watching, "Backlog", lambda: SimpleNamespace(take=lambda scan: scan))
    monkeypatch.setattr(
        watching, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: 0)
    )
    return found


WATCH = ["backlog", "watch"]


def test_in_a_pipe_lines_are_appended_with_their_time_and_one_heading(rounds, capsys):
    rounds += [snapshot(row(backlog=n)) for n in (5, 7, 6)]
    assert run(WATCH) == 0, "Ctrl-C is how it ends"
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (len(lines), err) == (4, "")
    assert lines[0].split() == [
        "TIME", "GROUP", "TOPIC", "STATE", "BACKLOG", "AGE", "ETA", "PARKED", "DEAD", "QUEUES",
        "MEMBERS", "TREND",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:]] == ["2027-01-15T08:00:00.000Z"] * 3
    assert [line.split()[-1] for line in lines[1:]] == ["-", "up", "up"]


def test_it_ends_after_as_many_rounds_as_told(rounds, capsys):
    rounds += [snapshot(row())] * 9
    assert run([*WATCH, "--samples", "2", "-o", "csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert len(rounds) == 7


def test_a_round_that_fails_is_told_and_the_next_one_tried(rounds, capsys):
    rounds += [snapshot(row()), RequestTimeout("no\nreply"), snapshot(row())]
    assert run([*WATCH, "--no-headers"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert err == "error: no\\nreply\n"


def test_a_first_round_that_fails_is_not_measured(rounds, capsys):
    rounds += [RequestTimeout("no reply"), snapshot(row())]
    assert run(WATCH) == 3
    assert capsys.readouterr().err == "error: no reply\n"


class Terminal(io.StringIO):
    """What is written to it is drawn."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """Runs a command at a terminal of 100 columns, and returns what was written."""

    def at(args, term="xterm"):
        for name, value in (("COLUMNS", "100"), ("LINES", "8"), ("TERM", term)):
            monkeypatch.setenv(name, value)
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", Terminal())
            assert run(args) == 0
            return sys.stdout.getvalue()

    return at


def test_a_terminal_is_drawn_anew_within_its_size(rounds, terminal):
    rounds += [snapshot(*(row(queue_id=n, backlog=n * k) for n in range(50))) for k in (1, 2)]
    out = terminal([*WATCH, "--by", "queue"])
    assert out.startswith("\x1b[?25l")
    assert out.endswith("\x1b[?25h"), "the cursor is back"
    frames = out.split("\x1b[H")[1:]
    for frame in frames[-2:]:
        lines = click.unstyle(frame).splitlines()
        assert len([line for line in lines if line]) <= 8
        assert max(map(len, lines)) <= 100
    assert "more; --top" in frames[-1]


def test_a_terminal_shows_trends_and_keeps_the_last_numbers_when_a_round_fails(rounds, terminal):
    rounds += [snapshot(row(backlog=5)), snapshot(row(backlog=9)), RequestTimeout("no reply")]
    out = terminal(WATCH)
    assert "▲" in out
    last = out.split("\x1b[H")[-1]
    assert "error: no reply" in last
    assert "shipping" in last


def test_a_dumb_terminal_gets_lines(rounds, terminal):
    rounds += [snapshot(row())]
    out = terminal(WATCH, term="dumb")
    assert "shipping" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(("option", "rounds_"), [("--watch", 2), ("--watch=10ms", None)])
def test_ls_watches_too(rounds, capsys, option, rounds_):
    rounds += [snapshot(row(QueueState.STALL))] * 2
    code = run(["backlog", "ls", option, "--no-headers"])
    if rounds_ is None:
        assert code == 3, "0.1 s at least"
    else:
        assert (code, len(capsys.readouterr().out.splitlines())) == (0, rounds_)


@pytest.mark.parametrize(("width", "shown"), [(10, "0123456789"), (5, "0123…")])
def test_a_line_is_cut_to_the_terminal(width, shown):
    assert cut_to("0123456789", width) == shown
    for colored in (
        click.style("0123456789", fg="red"),
        "01" + click.style("2345", fg="red") + "6789",
        click.style("01", dim=True) + "23456" + click.style("789", bold=True),
    ):
        found = cut_to(colored, width)
        assert click.unstyle(found) == shown
        assert "\x1b" in found, "still coloured"
