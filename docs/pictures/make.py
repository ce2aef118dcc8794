"""Make the README's pictures anew: `python -m docs.pictures.make [demo] [report]`.

Both are what the real program shows on a real broker. Needs Chromium for the report.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from docs.pictures.film import film
from docs.pictures.recording import record
from docs.pictures.trouble import troubled
from tests.support.programs import browser

FOLDER = Path(__file__).parent
COLUMNS, ROWS = 96, 30
REPORT_SIZE = (1120, 812)  # pixels
SAMPLES, INTERVAL = "13", "5s"
COLOURS = 128  # of the PNG: a page has few


def demo() -> None:
    """The terminal of what `make demo` runs, played."""
    env = os.environ | {"TERM": "xterm-256color", "COLORTERM": "", "LANG": "C.UTF-8"}
    env.pop("ORDERLY_NAMESRV", None)
    looks = record([sys.executable, "-m", "orderly.cli", "demo"], COLUMNS, env)
    picture = film(looks, "make demo", COLUMNS, ROWS)
    (FOLDER / "demo.svg").write_text(picture)


def report() -> None:
    """The first screen of `orderly backlog report`."""
    with tempfile.TemporaryDirectory() as folder, troubled() as namesrv:
        page, shot = Path(folder) / "report.html", Path(folder) / "report.png"
        arguments = ["--samples", SAMPLES, "--interval", INTERVAL, "--namesrv", namesrv]
        command = [sys.executable, "-m", "orderly.cli", "backlog", "report", "-o", str(page)]
        subprocess.run([*command, *arguments], check=True)  # noqa: S603  our own program
        with browser() as window:
            window.open(page.as_uri(), *REPORT_SIZE)
            window.screenshot(shot)
        _write_small(shot.read_bytes(), FOLDER / "report.png")


def _write_small(png: bytes, path: Path) -> None:
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


PICTURES = {"demo": demo, "report": report}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
