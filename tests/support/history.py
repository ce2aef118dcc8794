"""Former builds of the library, from the repository's history."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
FORMER = "2280bbfa68b5a589d1c913a482528ba16b5ece09"  # before records told of generations


def has(commit):
    """Whether the history is here and has a commit: an archive of the sources has none."""
    asked = ["git", "cat-file", "-e", f"{commit}^{{commit}}"]
    try:
        return subprocess.run(asked, cwd=ROOT, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:  # there is no git
        return False
