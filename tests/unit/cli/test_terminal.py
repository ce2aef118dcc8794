"""Text from messages cannot act on the terminal it is shown on."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orderly.cli.terminal import preview, printable
from orderly.foreign_text import escaped
from orderly.model import UndecodableMessage
from orderly.monitoring.texts import iso_time
from tests.support.messages import message


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 漢字 😀", "plain äöü 漢字 😀"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b2Jcleared", "cleared"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("null\x00", r"null\x00"),
        ("right-to-left \u202eevil", r"right-to-left \u202eevil"),
        ("line\u2028separator", r"line\u2028separator"),
        ("lone \ud800", r"lone \ud800"),
        ("no-break\xa0space", "no-break\xa0space"),
    ],
)
def test_printable(text, shown):
    assert printable(text) == shown


def test_of_a_key_nothing_is_left_out():
    assert escaped("\x1b[31mred\n äöü") == r"\x1b[31mred\n äöü"


@given(st.text() | st.text(alphabet="\x1b[]0;mA\\\x07\x9b\n\x90P^_"))
def test_nothing_printed_can_move_the_cursor_or_begin_a_new_line(text):
    for shown in (printable(text), escaped(text)):
        assert not set(shown) & {chr(code) for code in (*range(32), 127, *range(128, 160))}
        assert len(shown.splitlines()) <= 1


@given(st.binary(max_size=600), st.integers(2, 120))
def test_a_preview_is_short_and_safe(body, width):
    shown = preview(replace(message(0), body=body), width)
    assert len(shown) <= width
    assert "\x1b" not in shown
    assert "\n" not in shown


def test_a_cut_body_ends_with_an_ellipsis():
    for length, shown in ((500, "x" * 9 + "…"), (10, "x" * 10)):
        assert preview(replace(message(0), body=b"x" * length), 10) == shown


def test_of_a_body_that_cannot_be_read_the_reason_is_shown():
    unreadable = UndecodableMessage(message(0), "it is \x1b[31mgarbage")
    assert preview(unreadable, 100) == "(cannot be read: it is garbage)"


def test_times_are_iso_8601_in_utc():
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(1_700_000_000.123) == "2023-11-14T22:13:20.123Z"


ORDERLY = f"{sys.executable} -m orderly.cli"


def shell(line):
    """Run a line of bash: (exit code, what comes out at its stdout and stderr together)."""
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("context list >&-", 0, "there are no contexts"),
        ("--help >&- 2>&-", 0, ""),
        ("no-such 2>&-", 3, ""),
        ("context show > /dev/full", 3, "error: no space left on device"),
        ("send orders <&-", 3, "error: BODY is empty"),
        ("send orders --lines <&-", 0, ""),
        ("dlq replay shipping <&-", 3, "error: there is no group shipping"),
    ],
)
def test_closed_and_full(orderly_fake, monkeypatch, line, code, said):
    orderly_fake.create_topic("orders", 1)
    monkeypatch.setenv("ORDERLY_NAMESRV", orderly_fake.namesrv)
    found, told = shell(f"{ORDERLY} {line}")
    assert found == code
    assert told.startswith(said)
    assert len(told.splitlines()) <= 1


def test_names_in_another_script_where_only_ascii_goes_out(tmp_path, monkeypatch):
    settings = tmp_path / "config.toml"
    settings.write_text('[contexts."생산"]\nnamesrv = "a:1"\n', encoding="utf-8")
    monkeypatch.setenv("ORDERLY_CONFIG", str(settings))
    code, told = shell(f"PYTHONIOENCODING=ascii {ORDERLY} context list")
    assert (code, "Traceback" in told, "bug" in told) == (0, False, False)
    assert "a:1" in told
