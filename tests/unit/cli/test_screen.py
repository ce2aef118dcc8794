"""What the demo shows: without a terminal plain lines and no escapes; on one, bars that end."""

import io

import pytest

from orderly.cli.demo.screen import Lane, PlainScreen, progress_text, screen_for

LANES = [Lane(0, 100, 40, "A"), Lane(1, 50, 50, "B", waiting=True), Lane(2, 0, 0, "")]


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


def test_a_pipe_gets_plain_lines():
    stream, seconds = io.StringIO(), iter(range(0, 1000, 2))
    show_everything(PlainScreen(stream, clock=lambda: next(seconds)))
    lines = stream.getvalue().splitlines()
    assert stream.getvalue().isascii()
    assert "\x1b" not in stream.getvalue()
    assert max(map(len, lines)) <= 90
    for expected in (
        "1. Start",
        "     sending: 12,000 of 50,000 (3,000/s, 13 s left)",
        "     left: q0=60A q1=0B q2=0",
        "   ! attempt 1",
        "   events  50,000",
        "OK - In order",
        "BAD - Not in order",
    ):
        assert expected in lines


def test_progress_is_told_every_few_seconds_only():
    stream, now = io.StringIO(), [0.0]
    screen = PlainScreen(stream, every=2.0, clock=lambda: now[0])
    with screen.meter("sending", 100) as meter:
        for step in range(100):
            now[0] = step * 0.1
            meter(step)
    assert len(stream.getvalue().splitlines()) == 4


@pytest.mark.parametrize(
    ("done", "seconds", "unit", "text"),
    [
        (0, 0.0, "", "0 of 1,048,576 (0/s)"),
        (524_288, 2.0, "bytes", "0 of 1 MiB (0 MiB/s, 2 s left)"),
        (1_048_576, 4.0, "", "1,048,576 of 1,048,576 (262,144/s, 0 s left)"),
    ],
)
def test_progress_text(done, seconds, unit, text):
    assert progress_text(done, 1_048_576, seconds, unit) == text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_gets_a_drawing(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    show_everything(screen_for(stream))
    shown = stream.getvalue()
    for expected in ("\x1b[", "queue 0", "60 left", "consumer A", "drained", "waits", "In order"):
        assert expected in shown
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h"), "the cursor is shown again"


def test_what_is_not_a_terminal_gets_the_plain_screen():
    assert isinstance(screen_for(io.StringIO()), PlainScreen)
