"""The README's terminal picture: a program is recorded as its screen was, and played as SVG."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from docs.pictures import make
from docs.pictures.film import film
from docs.pictures.recording import Look, Run, record, watch
from tests.docs.programs import objection

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"

PROGRAM = """print("half", end="", flush=True); print("\\r\\x1b[2Kwhole")"""
OUTPUT = [
    (0.0, b"\x1b[2mone\x1b[0m \x1b[1;32mtwo\x1b[0m\r\nha"),
    (0.1, b"lf"),
    (0.6, b"\r\x1b[2Kwhole\r\n"),
]
ENV = os.environ | {"TERM": "xterm-256color"}


def plain(look):
    return [" ".join(run.text for run in row) for row in look.rows]


def text(word):
    return (Run(0, word, "", bold=False),)


def test_what_a_program_shows_is_recorded_moment_by_moment():
    looks = watch(OUTPUT, 40)
    assert [(look.at, plain(look)) for look in looks] == [
        (0.0, ["one two", "ha"]),
        (0.6, ["one two", "half"]),
        (0.6, ["one two", "whole"]),
    ]
    assert looks[-1].rows[0] == (
        Run(0, "one", "brightblack", bold=False),
        Run(4, "two", "green", bold=True),
    )


def test_a_program_runs_in_a_terminal():
    looks = record([sys.executable, "-c", PROGRAM], 40, ENV)
    assert plain(looks[-1]) == ["whole"]


def test_a_program_that_fails_makes_no_picture():
    with pytest.raises(subprocess.CalledProcessError):
        record([sys.executable, "-c", "raise SystemExit(3)"], 40, ENV)


LOOKS = [
    Look(0.0, (text("first"), text("half"))),
    Look(60.0, (text("first"), text("<whole>"))),
    Look(61.0, (text("first"), text("<whole>"), text("last"))),
]


def test_without_animation_the_end_of_the_film_is_seen():
    svg = film(LOOKS, "a & b", columns=20, height=2)
    root = ET.fromstring(svg)
    (hidden,) = re.findall(r"([.\w,]+)\{visibility:hidden\}(?=@media)", svg)
    hidden = {name.strip(".") for name in hidden.split(",")}
    lines = [
        line for line in root.iter("{http://www.w3.org/2000/svg}text") if line.get("y") != "18"
    ]
    seen = [
        "".join(line.itertext()) for line in lines if (line.get("class") or "p ")[2:] not in hidden
    ]
    assert seen == ["first", "<whole>", "last"]
    assert "translateY(-17px)" in svg, "the camera is at the last two rows"


def test_a_long_wait_is_cut_short():
    svg = film(LOOKS, "t", columns=20, height=2)
    ((length, delay),) = re.findall(r"animation:([\d.]+)s step-end -([\d.]+)s", svg)
    assert 9 < float(length) < 12
    assert float(delay) < float(length), "it begins with its end"


# --- the pictures that are there


def pictures():
    return sorted([*PICTURES.glob("*.svg"), *PICTURES.glob("*.png")])


@pytest.mark.parametrize("path", pictures(), ids=lambda path: path.name)
def test_each_is_made_by_a_name_and_shown_by_a_page(path):
    assert path.stem in {*make.PICTURES, *make.LOOKS, "exporter"}
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"pictures/{path.name})" in page.read_text() for page in pages)
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("name", make.LOOKS)
def test_a_terminal_shows_a_command_that_there_is(name):
    """A command that has changed fails here: make the pictures anew."""
    command = make.LOOKS[name]
    title = ET.fromstring((PICTURES / f"{name}.svg").read_text())[0].text
    assert title == f"$ {command}"
    assert objection(shlex.split(command)) == ""
