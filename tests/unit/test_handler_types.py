"""mypy refuses a handler that answers anything but an outcome (at run time it is a failure)."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")

SNIPPETS = Path(__file__).with_name("handler_types.py")


def test_mypy_refuses_exactly_the_handlers_that_answer_no_outcome(tmp_path):
    command = (sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-pretty")
    environment = {**os.environ, "MYPY_CACHE_DIR": str(tmp_path), "COLUMNS": "200"}
    run = subprocess.run(
        [*command, str(SNIPPETS)],
        cwd=SNIPPETS.parents[2],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    found = {int(line) for line in re.findall(r"(?m)^[^:]+\.py:(\d+): error:", run.stdout)}
    lines = enumerate(SNIPPETS.read_text().splitlines(), 1)
    refused = {number for number, line in lines if line.endswith("# refused")}
    assert found == refused, run.stdout + run.stderr
