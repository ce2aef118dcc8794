"""What the demo shows: in a pipe lines without escapes; on a terminal bars that go in the end."""

from __future__ import annotations

import io

from orderly.cli.demo.screen import WIDTH, LaneView, Screen

LANES = [LaneView(0, 100, 40, "A"), LaneView(1, 50, 50, "B", waiting=True), LaneView(2, 0, 0, "")]


def show_everything(screen):
    screen.title("orderly demo")
    screen.step(
        "Start", "What happens in this step, in a sentence that is long enough to wrap." * 2
    )
    with screen.busy("starting"):
        pass
    with screen.meter("download", 2 * 1024 * 1024, "bytes") as meter:
        meter(1024 * 1024)
    with screen.meter("sending", 50_000) as meter:
        meter(12_000)
    with screen.lanes() as board:
        board(LANES)
        screen.event("attempt 1")
    screen.fact("done")
    screen.table([("events", "50,000"), ("lost", "0")])
    screen.verdict(True, "In order")
    screen.verdict(False, "Not in order")
    screen.note("Next: this")


def test_a_pipe_gets_plain_lines_and_how_what_was_live_ended():
    stream = io.StringIO()
    show_everything(Screen(stream))
    text = stream.getvalue()
    lines = [line.rstrip() for line in text.splitlines()]
    assert "\x1b" not in text
    assert "\r" not in text
    assert max(map(len, lines)) <= WIDTH
    for expected in (
        "1  Start",
        "   ! attempt 1",
        "   ✓ done",
        "    events   50,000",
        "✓ In order",
        "✗ Not in order",
    ):
        assert expected in lines
    for part in ("12,000 of 50,000", "60 left consumer A", "drained consumer B  waits"):
        assert sum(part in line for line in lines) == 1


def test_a_pipe_that_takes_ascii_only_gets_no_other_marks():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    show_everything(Screen(stream))
    stream.flush()
    assert b"+ done" in raw.getvalue()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_drawing(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    show_everything(Screen(stream))
    shown = stream.getvalue()
    for expected in ("\x1b[", "queue 0", "60 left", "consumer A", "drained", "waits", "In order"):
        assert expected in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h"), "the cursor is shown again"
