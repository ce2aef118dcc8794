"""examples/parking.py: one order waits, the others do not; mended, it is shipped in order."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "parking.py"
STEPS = ["created", "packed", "shipped"]


def test_it_does_what_it_says(orderly_namesrv):
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ORDERLY_NAMESRV": orderly_namesrv},
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for order in ("order-1", "order-3", "order-4"):
        assert [line for line in lines[:9] if line.startswith(order)] == [
            f"{order} {step}" for step in STEPS
        ]
    assert lines[9:] == [
        "parked: [('order-2', 3)]",
        *(f"order-2 {step} (replayed)" for step in STEPS),
        "released: 3 messages of order-2",
    ]
