"""Runs those against the floor, one after another: `python -m benchmarks [--json …]`."""

import subprocess
import sys

for name in ("send", "consume"):
    print(f"\n# {name}", flush=True)
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *sys.argv[1:]], check=True)
