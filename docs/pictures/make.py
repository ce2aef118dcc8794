"""Make the pictures of README and docs: `python -m docs.pictures.make [demo report look]`.

All show the real program on a real broker. `look` makes the terminals and the exporter's page.
The report and the page need Chromium.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
PAGE_SIZE = (1120, 320)  # pixels, of the exporter's
WIDE = 132  # columns, for tables
SETTLED = 75  # seconds after which groups have shown what they are
# What a how-to page shows of a troubled cluster: file, and the command as its reader types it.
LOOKS = {
    "backlog": "orderly backlog --samples 3 --interval 5s",
    "explain": "orderly backlog explain billing --samples 3 --interval 5s",
    "parked": "orderly parked list shipping",
    "doctor": "orderly doctor analytics -t clicks",
}


def demo() -> None:
    """The terminal of what `make demo` runs, played."""
    looks = record([sys.executable, "-m", "orderly.cli", "demo"], COLUMNS, _terminal())
    picture = film(looks, "make demo", COLUMNS, ROWS)
    (FOLDER / "demo.svg").write_text(picture)


def report() -> None:
    """The first screen of `orderly backlog report`."""
    with tempfile.TemporaryDirectory() as folder, troubled() as namesrv:
        page, shot = Path(folder) / "report.html", Path(folder) / "report.png"
        arguments = ["--samples", SAMPLES, "--interval", INTERVAL, "--namesrv", namesrv]
        command = [sys.executable, "-m", "orderly.cli", "backlog", "report", "--out", str(page)]
        subprocess.run([*command, *arguments], check=True)  # noqa: S603  our own program
        with browser() as window:
            window.open(page.as_uri(), *REPORT_SIZE)
            window.screenshot(shot)
        _write_small(shot.read_bytes(), FOLDER / "report.png")


def look() -> None:
    """Terminals with answers about a troubled cluster, and the exporter's page about it."""
    with troubled() as namesrv:
        time.sleep(SETTLED)
        env = _terminal() | {"ORDERLY_NAMESRV": namesrv}
        for name, command in LOOKS.items():
            program = [sys.executable, "-m", "orderly.cli", *shlex.split(command)[1:]]
            end = record(program, WIDE, env, codes=(0, 1, 2))[-1]
            columns = max(run.column + len(run.text) for row in end.rows for run in row)
            picture = film([end], f"$ {command}", max(columns, COLUMNS), len(end.rows))
            (FOLDER / f"{name}.svg").write_text(picture)
        with (
            _exporter(env) as address,
            browser() as window,
            tempfile.TemporaryDirectory() as folder,
        ):
            window.open(address, *PAGE_SIZE)
            time.sleep(20)  # a second scan: rates are known
            window.open(address, *PAGE_SIZE)
            shot = Path(folder) / "exporter.png"
            window.screenshot(shot)
            _write_small(shot.read_bytes(), FOLDER / "exporter.png")


@contextmanager
def _exporter(env: dict[str, str]) -> Iterator[str]:
    """The exporter runs; yields its page's address."""
    command = [sys.executable, "-m", "orderly.cli", "exporter", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603  ours
        try:
            found = re.search(r"http://\S+", (process.stderr or io.StringIO()).readline())
            if not found:
                raise RuntimeError("the exporter did not say where it serves")
            yield found[0]
        finally:
            process.terminate()


def _terminal() -> dict[str, str]:
    """The environment of a program in a terminal, without settings of whoever runs this."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("ORDERLY_")}
    kept = {"ORDERLY_CACHE": os.environ["ORDERLY_CACHE"]} if "ORDERLY_CACHE" in os.environ else {}
    return own | kept | {"TERM": "xterm-256color", "COLORTERM": "", "LANG": "C.UTF-8"}


def _write_small(png: bytes, path: Path) -> None:
    with Image.open(io.BytesIO(png)) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
        few.save(path, optimize=True)


PICTURES = {"demo": demo, "report": report, "look": look}

if __name__ == "__main__":
    unknown = set(sys.argv[1:]) - set(PICTURES)
    if unknown:
        sys.exit(f"no picture {', '.join(sorted(unknown))}: there are {', '.join(PICTURES)}")
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
